package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// The check finds what must not be, and nothing else.
func TestAHistoryIsChecked(t *testing.T) {
	t.Parallel()
	first := hold{lease: "L", semaphore: "two", slots: []int{0}, fence: 7, asked: at(1), granted: at(1.1), over: at(2), released: at(2.1)}
	after := func(change func(*hold)) hold {
		x := hold{client: 1, lease: "M", semaphore: "two", slots: []int{0}, fence: 8, asked: at(0.5), granted: at(2.05), over: at(3), released: never}
		change(&x)
		return x
	}
	for _, test := range []struct {
		name   string
		second hold
		wrong  string // "": nothing is
	}{
		{"the next has it while the release is under way", after(func(*hold) {}), ""},
		{"the next has it too early", after(func(x *hold) { x.granted = at(1.9) }), "permit 0 of two: its history cannot be"},
		{"the next has another permit", after(func(x *hold) { x.granted, x.slots = at(1.9), []int{1} }), ""},
		{"the next has more than one permit", after(func(x *hold) { x.granted, x.slots = at(1.9), []int{0, 1} }), "permit 0 of two"},
		{"the next has a smaller fence", after(func(x *hold) { x.fence = 6 }), "permit 0 of two"},
		{"the next has a permit that is none", after(func(x *hold) { x.slots = []int{2} }), "has slot 2; its limit is 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, lapsed := range []bool{false, true} {
				first := first
				if lapsed {
					first.released = never
				}
				h := &history{holds: []hold{test.second, first}}
				err := h.check(map[string]int{"two": 2}, t.TempDir())
				if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("the check says %v; want %q", err, test.wrong)
				}
			}
		})
	}
}

func TestSlotsAreRead(t *testing.T) {
	t.Parallel()
	if got := slotsOf("0-2,7"); !slices.Equal(got, []int{0, 1, 2, 7}) {
		t.Errorf("read %v", got)
	}
}
