package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// CompileCommand is the first argument of a process that is a child which compiles. Programs that use this package call
// CompileIfAsked before anything else.
const CompileCommand = "compile-policy"

// What a child may use. Go reserves 1.2 GiB of addresses before it does anything.
const (
	childAddressesMax = 3 << 30 // bytes
	childWordsMax     = 1 << 10 // bytes of what it may say
	childWaitMax      = time.Second
)

// Exit codes of a child.
const (
	childDone    = 0
	childRefused = 3 // the module is invalid; it says why
	childBroken  = 4
)

// CompileIfAsked compiles a module and ends the process, if the process is such a child. It does nothing in any other.
//
// Compiling happens in a child because a small module can take the compiler minutes or all memory, and a panic of one of its
// goroutines can not be recovered.
func CompileIfAsked() {
	if len(os.Args) == 3 && os.Args[1] == CompileCommand {
		os.Exit(compileChild(os.Stdin, os.Stdout, os.Args[2]))
	}
}

// compileChild reads a rewritten module and leaves its code in directory.
func compileChild(in io.Reader, out io.Writer, directory string) int {
	if err := errors.Join(stepBack(), limitChild()); err != nil {
		fmt.Fprintln(out, err)
		return childBroken
	}
	wasm, err := io.ReadAll(io.LimitReader(in, rewrittenMax+ModuleMax))
	if err != nil {
		fmt.Fprintln(out, err)
		return childBroken
	}
	cache, err := wazero.NewCompilationCacheWithDir(directory)
	if err != nil {
		fmt.Fprintln(out, err)
		return childBroken
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), compileWorkers)
	if _, err := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(Compiler, cache)).CompileModule(ctx, wasm); err != nil {
		fmt.Fprintln(out, err)
		return childRefused
	}
	return childDone
}

// compileWorkers compile functions at once.
const compileWorkers = 2

// compileInChild fills directory with a module's code. A *Refusal is the module's fault.
func compileInChild(ctx context.Context, directory string, rewritten []byte) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, compileTimeMax)
	defer cancel()
	said := &firstBytes{limit: childWordsMax}
	cmd := exec.CommandContext(ctx, self, CompileCommand, directory)
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(rewritten), said, said
	cmd.WaitDelay = childWaitMax
	err = runTied(cmd)
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return childFailure(ctx, cmd, err, firstLine(said.bytes))
}

// childFailure tells a module that can not be compiled from a machine that can not compile.
func childFailure(ctx context.Context, cmd *exec.Cmd, err error, said string) error {
	_, exited := errors.AsType[*exec.ExitError](err)
	switch code := cmd.ProcessState.ExitCode(); {
	case ctx.Err() != nil || cmd.ProcessState.SystemTime()+cmd.ProcessState.UserTime() >= compileWorkMax*9/10:
		return &Refusal{StageCompile, fmt.Sprintf("more than %v of work", compileWorkMax), "less", "less nesting and smaller functions compile faster"}
	case exited && code == childRefused:
		return &Refusal{StageCompile, said, "a valid module", "check it with wasm-validate"}
	case exited && code != childBroken:
		return &Refusal{StageCompile, "a compiler that ended: " + said, "a module that compiles within its limits", "smaller functions, less nesting"}
	}
	return fmt.Errorf("the compiling process: %w: %s", err, said)
}

// firstLine is what a child says; the rest is a stack.
func firstLine(said []byte) string {
	line, _, _ := bytes.Cut(said, []byte("\n"))
	return bounded(line, detailMax)
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	bytes []byte
	limit int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.bytes = append(f.bytes, p[:min(len(p), f.limit-len(f.bytes))]...)
	return len(p), nil
}
