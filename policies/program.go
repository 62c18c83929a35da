package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Engine is how modules run.
type Engine string

// The engines. The interpreter takes no part in compile bombs and long pauses, and takes 1 to 7 times as long.
const (
	Compiler    Engine = "compiler"
	Interpreter Engine = "interpreter"
)

// program is a module in a runtime of its own: code compiled in one runtime can not be instantiated in another, and a runtime
// is closed as a whole.
type program struct {
	runtime     wazero.Runtime
	cache       wazero.CompilationCache // nil with the interpreter
	compiled    wazero.CompiledModule
	initializes bool
	configures  bool
}

// runtimeConfig is the configuration under which code is compiled; the child compiles with the same one as the parent, or
// the parent would not find the code.
func runtimeConfig(engine Engine, cache wazero.CompilationCache) wazero.RuntimeConfig {
	config := wazero.NewRuntimeConfigInterpreter()
	if engine == Compiler {
		config = wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache)
	}
	return config.
		WithCloseOnContextDone(true).
		WithMemoryLimitPages(pagesMax).
		WithDebugInfoEnabled(false).
		WithCoreFeatures(api.CoreFeaturesV2 &^ api.CoreFeatureReferenceTypes)
}

// load makes a program of a rewritten module. With the compiler it takes the code from directory, where the child has put it.
// Calls of load exclude each other: concurrent loads of one module from a directory panic in the runtime.
func load(ctx context.Context, engine Engine, directory string, m *module, rewritten []byte) (_ *program, err error) {
	p := &program{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if engine == Compiler {
		if p.cache, err = wazero.NewCompilationCacheWithDir(directory); err != nil {
			return nil, err
		}
	}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, runtimeConfig(engine, p.cache))
	if err = serve(ctx, p.runtime, m); err != nil {
		return nil, err
	}
	if p.compiled, err = p.runtime.CompileModule(ctx, rewritten); err != nil {
		return nil, err
	}
	_, p.initializes = m.export(exportInitialize)
	_, p.configures = m.export(exportConfigure)
	return p, nil
}

// close ends the program with all its instances. Nothing may run in it any more.
func (p *program) close() {
	ctx := context.Background()
	var err error
	if p.runtime != nil {
		err = p.runtime.Close(ctx)
	}
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(ctx))
	}
	if err != nil {
		panic(fmt.Sprintf("a runtime without files can not be closed: %v", err))
	}
}
