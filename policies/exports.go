package policies

// wanted is a function that a module exports, or may export.
type wanted struct {
	name     string
	of       funcType
	required bool
	hint     string
}

// Names of exported functions that the host calls.
const (
	exportEvaluate   = "evaluate"
	exportConfigure  = "configure"
	exportInitialize = "_initialize"
	exportStart      = "_start"
	exportMemory     = "memory"
)

var wantedExports = [...]wanted{
	{versionMark, funcType{}, true, "export an empty function of this name: it says which ABI the module was written for"},
	{exportEvaluate, funcType{"\x7e\x7e\x7e\x7e", i64x1}, true, "requested, limit, available and waiting in, the weight out"},
	{exportConfigure, funcType{"", i32x1}, false, "0 says that the configuration is fine"},
	{exportInitialize, funcType{}, false, ""},
}

// checkExports refuses a module that lacks what the host calls, or has it under another type.
func (m *module) checkExports() *Refusal {
	if m.memory == nil || !m.exportsMemory() {
		return &Refusal{StageExports, "no memory", "one memory, exported as " + quote(exportMemory), "linkers export it unless told otherwise"}
	}
	if _, there := m.export(exportStart); there {
		return &Refusal{
			StageExports, "a command, with " + exportStart, "a reactor, with " + exportInitialize + " or none",
			"Go: -buildmode=c-shared; clang: -nostdlib -Wl,--no-entry; Rust: --crate-type cdylib",
		}
	}
	for _, w := range wantedExports {
		of, there := m.export(w.name)
		if !there && w.required {
			return &Refusal{StageExports, "no function " + w.name, w.name + " " + w.of.String(), w.hint}
		}
		if there && of != w.of {
			return &Refusal{StageExports, w.name + " " + of.String(), w.name + " " + w.of.String(), w.hint}
		}
	}
	return nil
}

func (m *module) exportsMemory() bool {
	for _, e := range m.exports {
		if e.name == exportMemory && e.kind == kindMemory && e.index == 0 && !m.importsMemory() {
			return true
		}
	}
	return false
}

func (m *module) importsMemory() bool {
	for _, i := range m.imports {
		if i.kind == kindMemory {
			return true
		}
	}
	return false
}

// export is the type of an exported function.
func (m *module) export(name string) (funcType, bool) {
	for _, e := range m.exports {
		if e.name == name && e.kind == kindFunction {
			return m.typeOf(e.index)
		}
	}
	return funcType{}, false
}

// inspect is all that is checked before anything is compiled. It returns what is compiled.
func inspect(wasm []byte) (*module, []byte, *Refusal) {
	m, refusal := scan(wasm)
	if refusal == nil {
		refusal = m.checkImports()
	}
	if refusal == nil {
		refusal = m.checkExports()
	}
	if refusal != nil {
		return nil, nil, refusal
	}
	rewritten, refusal := m.rewrite(wasm)
	if refusal != nil {
		return nil, nil, refusal
	}
	return m, rewritten, nil
}
