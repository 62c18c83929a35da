package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// checkImports refuses whatever the host does not serve, under its exact type.
func (m *module) checkImports() *Refusal {
	for _, i := range m.imports {
		got := quote(i.module) + " " + quote(i.name)
		if i.kind != kindFunction {
			kind := [...]string{kindTable: "table", kindMemory: "memory", kindGlobal: "global"}[i.kind]
			return &Refusal{StageImports, "the " + kind + " " + got, "functions only", "define the " + kind + " in the module: no --import-" + kind}
		}
		want, there := served(i.module, i.name)
		if !there {
			return &Refusal{StageImports, "the function " + got, servedBy(i.module), importHint(i)}
		}
		if want != i.of {
			return &Refusal{StageImports, got + " " + i.of.String(), want.String(), "declare the import with this type"}
		}
	}
	return nil
}

// served is the type of a function that modules may import.
func served(module, name string) (funcType, bool) {
	switch module {
	case hostModule:
		for i := range hostFunctions {
			if hostFunctions[i].name == name {
				return hostFunctions[i].of, true
			}
		}
	case abortModule:
		return abortFunction.of, name == abortFunction.name
	case wasiModule:
		of, there := wasiFunctions()[name]
		return of, there
	}
	return funcType{}, false
}

// servedBy names what a module could have imported.
func servedBy(module string) string {
	switch module {
	case hostModule:
		names := make([]string, len(hostFunctions))
		for i := range hostFunctions {
			names[i] = hostFunctions[i].name
		}
		return "one of " + strings.Join(names, ", ")
	case wasiModule:
		return "a function of WASI preview 1"
	}
	return fmt.Sprintf("functions of %s, %s, or %s.%s", hostModule, wasiModule, abortModule, abortFunction.name)
}

// importHint tells what usually lies behind an import that is not served.
func importHint(i imported) string {
	switch {
	case i.module == "gojs" || i.module == "go":
		return "build with GOOS=wasip1, not GOOS=js"
	case i.module == abortModule && i.name == "seed":
		return "seed comes from Math.random, which policies do not have"
	case i.module == abortModule:
		return "a function that the linker did not find: is a source or a library missing?"
	case strings.HasPrefix(i.module, "wasi:"), i.module == "wasi_unstable":
		return "build for WASI preview 1"
	case strings.HasPrefix(i.module, "permitd_v"):
		return fmt.Sprintf("this server speaks version %d of the ABI", abiVersion)
	}
	return ""
}

// wasiFunctions are the types of what the runtime serves of WASI.
var wasiFunctions = sync.OnceValue(func() map[string]funcType {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	compiled, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		panic(fmt.Sprintf("the runtime's own WASI does not compile: %v", err))
	}
	functions := map[string]funcType{}
	for name, f := range compiled.ExportedFunctions() {
		functions[name] = funcType{string(f.ParamTypes()), string(f.ResultTypes())}
	}
	if err := r.Close(ctx); err != nil {
		panic(fmt.Sprintf("the runtime's own WASI does not close: %v", err))
	}
	return functions
})

// hasImports tells whether anything is imported from a module.
func (m *module) hasImports(from string) bool {
	return slices.ContainsFunc(m.imports, func(i imported) bool { return i.module == from })
}

// serve makes the imports of a module available in a runtime.
func serve(ctx context.Context, r wazero.Runtime, m *module) error {
	if m.hasImports(wasiModule) {
		if err := serveWASI(ctx, r); err != nil {
			return err
		}
	}
	if m.hasImports(hostModule) {
		if err := serveFunctions(ctx, r, hostModule, hostFunctions[:]); err != nil {
			return err
		}
	}
	if m.hasImports(abortModule) {
		return serveFunctions(ctx, r, abortModule, []hostFunction{abortFunction})
	}
	return nil
}

func serveFunctions(ctx context.Context, r wazero.Runtime, module string, functions []hostFunction) error {
	builder := r.NewHostModuleBuilder(module)
	for i := range functions {
		f := &functions[i]
		builder.NewFunctionBuilder().WithGoModuleFunction(f.goFunction(), apiTypes(f.of.params), apiTypes(f.of.results)).Export(f.name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

func apiTypes(types string) []api.ValueType { return []api.ValueType(types) }
