package policies

import (
	"time"

	"golang.org/x/sys/unix"
)

// thread is a thread of this process.
type thread int

func thisThread() thread { return thread(unix.Gettid()) }

// time is how long the thread has had a core so far.
func (t thread) time() time.Duration {
	const perThread, scheduled = 4, 2 // of the numbers of clocks, as in the kernel's posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^int(t)<<3|perThread|scheduled), &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// childrenTime is how long children that have ended had a core.
func childrenTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
