package policies

import (
	"os/exec"
	"runtime"
	"syscall"
)

// childNiceness lets every other process go first: calls have deadlines, an upload has not.
const childNiceness = 10

// runTied runs a child that ends with this process, however that ends. The signal is tied to the thread that started the
// child, which therefore stays. The child has a process group of its own, by which all its threads become nicer.
func runTied(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Run()
}

// stepBack makes this process, a child in a group of its own, nicer.
func stepBack() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, childNiceness) }
