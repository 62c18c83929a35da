//go:build unix && !solaris && !aix

package policies

import (
	"os"
	"syscall"
)

// holdDirectory holds a directory until the process ends, or the file is closed; nil: somebody else does, or it can not be.
func holdDirectory(path string) *os.File {
	d, err := os.Open(path)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = d.Close()
		return nil
	}
	return d
}
