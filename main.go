// Command permitd leases permits of counting semaphores to programs on many machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/permitd/permitd/policies"
)

func main() {
	policies.CompileIfAsked() // then it is the child of a permitd, and ends there
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal(ctx)
	defer stop()

	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(stderr, "permitd:", line)
		}
		return exitCode(err)
	}
	return 0
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. Before that, the second is left to do what it does to
// any program: end the process at once.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // a terminal that is closed sends the last
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

// newRoot is the command without a subcommand, which serves.
func newRoot() *cobra.Command {
	root := newServe()
	root.Use = "permitd"
	root.Short = "Lease permits of counting semaphores to programs on many machines"
	root.Long = root.Short + ".\n\nWithout a subcommand it serves, as permitd serve does."
	root.Version = version
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newHealth(), newNodes(), newPolicy(), newVersion())
	return root
}

// Exit codes, of sysexits.h.
const (
	exitUsage         = 64
	exitUnavailable   = 69
	exitInternal      = 70
	exitConfiguration = 78
)

// exitError is an error that says how the process ends.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// misconfigured is an error that trying again will not mend.
func misconfigured(format string, args ...any) error {
	return &exitError{exitConfiguration, fmt.Errorf(format, args...)}
}

// internal is an error that is nobody's mistake at the command line.
func internal(err error) error { return &exitError{exitInternal, err} }

// exitCode is that of an error; what does not say is a mistake in the command line, found by cobra.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitUsage
}
