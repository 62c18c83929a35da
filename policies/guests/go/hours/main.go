//go:build wasip1

// Office hours. The configuration says when it is open, and what happens outside:
//
//	utc +60
//	open 1-5 08:00-18:00
//	open 6 09:00-12:00
//	outside deny
//
// Days are 1, Monday, to 7; utc is how many minutes local time is ahead. Outside, requests are denied, or with "outside times 3"
// weigh three times what they ask for.
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/permitd/permitd/policies/guests/go/permitd"
	"github.com/permitd/permitd/policies/guests/go/table"
)

const (
	minutesOfDay = 24 * 60
	opensMax     = 32
)

// window is when it is open: in the minute to not any more.
type window struct{ fromDay, toDay, from, to int }

var (
	windows []window
	utc     int // minutes
	times   int // 0: deny
)

func main() {}

//go:wasmexport configure
func configure() int32 {
	err := read(permitd.Config())
	if err == nil && len(windows) == 0 {
		err = fmt.Errorf("the configuration needs a line: open DAYS HOURS")
	}
	if err != nil {
		permitd.Log(permitd.Error, err.Error())
		return 1
	}
	return 0
}

func read(text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		words := table.Words(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if !readLine(words[0], words[1:]) {
			return fmt.Errorf("%s: not: open DAYS HOURS, utc MINUTES, outside deny, outside times N", line)
		}
	}
	return nil
}

func readLine(first string, rest []string) bool {
	switch {
	case first == "open" && len(rest) == 2:
		return readOpen(rest[0], rest[1])
	case first == "utc" && len(rest) == 1:
		return readUTC(rest[0])
	case first == "outside" && len(rest) == 1:
		return rest[0] == "deny"
	case first == "outside" && len(rest) == 2 && rest[0] == "times":
		n, err := table.Number(rest[1])
		times = n
		return err == nil && n > 0
	}
	return false
}

func readOpen(days, hours string) bool {
	first, second, both := strings.Cut(days, "-")
	if !both || second == "" {
		second = first
	}
	opens, closes, _ := strings.Cut(hours, "-")
	w := window{day(first), day(second), minute(opens), minute(closes)}
	if w.fromDay < 1 || w.toDay > 7 || w.toDay < w.fromDay || w.from < 0 || w.to <= w.from || len(windows) == opensMax {
		return false
	}
	windows = append(windows, w)
	return true
}

func day(word string) int {
	n, err := table.Number(word)
	if err != nil {
		return -1
	}
	return n
}

// minute is that of the day of 08:00, or -1.
func minute(word string) int {
	hours, minutes, _ := strings.Cut(word, ":")
	h, err := table.Number(hours)
	m, err2 := table.Number(minutes)
	if err != nil || err2 != nil || len(minutes) != 2 || m > 59 || 60*h+m > minutesOfDay {
		return -1
	}
	return 60*h + m
}

func readUTC(by string) bool {
	sign := 1
	if strings.HasPrefix(by, "-") {
		sign = -1
	}
	if strings.HasPrefix(by, "-") || strings.HasPrefix(by, "+") {
		by = by[1:]
	}
	n, err := table.Number(by)
	utc = sign * n
	return err == nil && n <= minutesOfDay
}

//go:wasmexport evaluate
func evaluate(requested, limit, available, waiting int64) int64 {
	if open(permitd.Now().Add(time.Duration(utc) * time.Minute).UTC()) {
		return permitd.NoOpinion
	}
	if times == 0 {
		return permitd.Deny("outside office hours")
	}
	return int64(times) * requested
}

func open(local time.Time) bool {
	day := int(local.Weekday()+6)%7 + 1 // Sunday is 7
	now := 60*local.Hour() + local.Minute()
	for _, w := range windows {
		if day >= w.fromDay && day <= w.toDay && now >= w.from && now < w.to {
			return true
		}
	}
	return false
}
