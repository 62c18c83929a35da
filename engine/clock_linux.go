package engine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// machineTime is the default of Config.Now: CLOCK_BOOTTIME, which goes on while the machine is suspended.
func machineTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("engine: CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(ts.Nano())
}
