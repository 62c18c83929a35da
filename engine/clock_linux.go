package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// machineTime is the default of Config.Now: CLOCK_BOOTTIME, which goes on while the machine is suspended.
//
// Asking the kernel takes five times as long as time.Now, which needs no call of the system, and a request asks ten times. So what the
// kernel said is carried on by the monotonic clock, until the wall clock has moved otherwise: a suspend moves it by as much as
// CLOCK_BOOTTIME, in the same step of the kernel, and not the monotonic clock. What it shows is at most clockSlack behind the kernel,
// and may step back by that when the kernel is asked anew.
func machineTime() time.Duration {
	now := time.Now()
	if m := markedTime.Load(); m != nil {
		passed := now.Sub(m.at)
		if moved := now.UnixNano() - m.wall - int64(passed); moved > -int64(clockSlack) && moved < int64(clockSlack) {
			return m.boot + passed
		}
	}
	boot := bootTime()
	if then := time.Now(); then.Sub(now) < clockSlack {
		markedTime.Store(&mark{at: then, wall: then.UnixNano(), boot: boot})
	}
	return boot
}

// clockSlack is how far clocks that are read one after the other may differ.
const clockSlack = 20 * time.Microsecond

// mark is what the clocks showed at once, within clockSlack.
type mark struct {
	at   time.Time // monotonic
	wall int64     // ns since 1970
	boot time.Duration
}

var markedTime atomic.Pointer[mark]

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("engine: CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(ts.Nano())
}
