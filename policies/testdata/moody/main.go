//go:build wasip1

// A guest for tests: it answers 7, unless it is asked for one of the numbers below.
package main

import (
	"os"
	"time"

	"github.com/permitd/permitd/policies/guests/go/permitd"
)

const (
	askExit = 3_000_001 + iota
	askBlock
	askSleep
	askLeak
	askPanic
	askLoop
	askRecurse
	askAttributes
)

func main() {}

//go:wasmexport evaluate
func evaluate(requested, limit, available, waiting int64) int64 {
	switch requested {
	case askExit:
		os.Exit(0)
	case askBlock:
		<-make(chan int)
	case askSleep:
		time.Sleep(time.Hour)
	case askLeak:
		go func() { <-make(chan int) }()
	case askPanic:
		panic("on demand")
	case askLoop:
		for n := 0; ; n++ {
			sink = n
		}
	case askRecurse:
		return recurse(60)
	case askAttributes:
		all := permitd.Attributes()
		return int64(len(all)) + 100*int64(len(all["tier"]))
	}
	return 7
}

var sink int

//go:noinline
func recurse(n int) int64 {
	if n == 0 {
		return 1
	}
	return recurse(n-1) + recurse(n-1)
}
