//go:build !linux

package localnode

import "time"

var processStart = time.Now()

// machineClock is the wall clock at the start of this process and the monotonic clock since.
func machineClock() time.Duration {
	return time.Duration(processStart.UnixNano()) + time.Since(processStart)
}

// bootID names the time since this machine was started; "": it can not be told.
func bootID() string { return "" }
