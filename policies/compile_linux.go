package policies

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runTied runs a child that ends with this process, however that ends. The signal is tied to the thread that started the
// child, which therefore stays.
func runTied(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
