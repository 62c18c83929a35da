//go:build !linux

package engine

import "time"

var processStart = time.Now()

// machineTime is the default of Config.Now: the monotonic clock of the process. Whether it goes on while the
// machine is suspended is the system's to say.
func machineTime() time.Duration { return time.Since(processStart) }
