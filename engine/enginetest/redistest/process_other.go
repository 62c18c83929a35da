//go:build !linux

package redistest

import "syscall"

// dieWithParent can promise nothing here: there is no such signal.
func dieWithParent() *syscall.SysProcAttr { return nil }
