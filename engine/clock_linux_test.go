package engine

import (
	"testing"
	"time"
)

// The tests of the machine's clock are not parallel: what it has marked is the process's.

func TestTheClockShowsWhatTheKernelDoes(t *testing.T) {
	for range 10_000 {
		before := bootTime()
		now := machineTime()
		after := bootTime()
		if now < before-clockSlack || now > after+time.Microsecond {
			t.Fatalf("it shows %v, while the kernel showed %v before and %v after", now, before, after)
		}
	}
}

func TestTheClockNoticesThatTheMachineWasSuspended(t *testing.T) {
	for _, suspended := range []time.Duration{time.Hour, time.Millisecond, -time.Hour} {
		// As it is after a suspend: since the mark the wall clock and CLOCK_BOOTTIME have moved by as much more.
		now := time.Now()
		markedTime.Store(&mark{at: now, wall: now.UnixNano() - int64(suspended), boot: bootTime() - suspended})
		before := bootTime()
		if got, after := machineTime(), bootTime(); got < before || got > after {
			t.Errorf("after %v of suspend it shows %v, the kernel %v to %v", suspended, got, before, after)
		}
	}
}

func BenchmarkMachineTime(b *testing.B) {
	for b.Loop() {
		machineTime()
	}
}

func BenchmarkBootTime(b *testing.B) {
	for b.Loop() {
		bootTime()
	}
}
