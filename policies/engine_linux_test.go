package policies

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probeCommand makes the test program a process that may not make machine code and says which engine is usable there.
const probeCommand = "probe-without-machine-code"

func probeIfAsked() {
	if len(os.Args) != 2 || os.Args[1] != probeCommand {
		return
	}
	if err := forbidMachineCode(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(usable(Compiler, slog.New(slog.DiscardHandler)))
	os.Exit(0)
}

// forbidMachineCode does what MemoryDenyWriteExecute of systemd does: pages can not be made executable any more.
func forbidMachineCode() error {
	const number, protection = 0, 16 + 2*8 // of a seccomp_data: the system call, and its third argument
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MPROTECT, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MMAP, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: protection},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.PROT_EXEC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

func TestWhereMachineCodeIsForbiddenTheInterpreterRuns(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, probeCommand).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != string(Interpreter) {
		t.Errorf("%q, %v", got, err)
	}
	if got := usable("", slog.New(slog.DiscardHandler)); got != Compiler {
		t.Errorf("here it is the %s", got)
	}
}
