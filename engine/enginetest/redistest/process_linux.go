package redistest

import "syscall"

// dieWithParent lets no server outlive a test binary that is killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
