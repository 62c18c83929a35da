package policies

import (
	"fmt"
	"syscall"
)

// limitChild bounds this process: its addresses, and its time on all cores.
func limitChild() error {
	limits := map[int]uint64{syscall.RLIMIT_CPU: uint64(compileWorkMax.Seconds())}
	if !raceDetector { // it reserves terabytes of addresses
		limits[syscall.RLIMIT_AS] = childAddressesMax
	}
	for resource, most := range limits {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %d of the compiling process: %w", resource, err)
		}
	}
	return nil
}
