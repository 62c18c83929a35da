package policies

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// usable is the engine to run with: the one asked for, or the interpreter where the compiler can not run.
func usable(engine Engine, log *slog.Logger) Engine {
	if engine == Interpreter {
		return Interpreter
	}
	if err := probeCompiler(); err != nil {
		log.Warn("policies run interpreted: this machine allows no machine code made at run time", "error", err)
		return Interpreter
	}
	return Compiler
}

// probeCompiler makes and unmakes machine code as policies do. Where the kernel forbids it, as under MemoryDenyWriteExecute of
// systemd, the compiler panics.
func probeCompiler() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the compiler panicked: %.200v", r)
		}
	}()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return err
	}
	return r.Close(ctx)
}
