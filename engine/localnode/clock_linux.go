package localnode

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machineClock is the clock of this machine since it was started, suspends included: CLOCK_BOOTTIME.
func machineClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("localnode: CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(ts.Nano())
}

// bootID names the time since this machine was started; "" if it can not be told.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
