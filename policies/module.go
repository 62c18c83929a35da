package policies

import "strings"

// module is what a scan learns of a module: enough to refuse it, and to rewrite its code.
type module struct {
	types     []funcType
	imports   []imported
	functions []uint32 // the types of those defined here
	memory    *memorySize
	globals   uint32
	exports   []exported
	start     bool
	sections  []section // without custom ones
	bodies    []body
}

// funcType holds the value types of a function's parameters and results, a byte each.
type funcType struct{ params, results string }

// String writes a type as its author would: (i32, i64) -> i32.
func (t funcType) String() string {
	results := "()"
	if t.results != "" {
		results = valueTypes(t.results)
	}
	return "(" + valueTypes(t.params) + ") -> " + results
}

// Value types of the binary format.
const (
	typeI32  = 0x7f
	typeI64  = 0x7e
	typeF32  = 0x7d
	typeF64  = 0x7c
	typeV128 = 0x7b
)

func valueTypes(types string) string {
	names := make([]string, len(types))
	for i := range types {
		switch types[i] {
		case typeI32:
			names[i] = "i32"
		case typeI64:
			names[i] = "i64"
		case typeF32:
			names[i] = "f32"
		case typeF64:
			names[i] = "f64"
		default:
			names[i] = "v128"
		}
	}
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	return strings.Join(names, ", ")
}

// Kinds of imports and exports.
const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

type imported struct {
	module, name string
	kind         byte
	of           funcType // of a function
}

type exported struct {
	name  string
	kind  byte
	index uint32
}

type memorySize struct{ pages uint32 } // at the start

// section is a section's content, without its id and length.
type section struct {
	id         byte
	start, end int
}

// body is a function's body: its locals from start on, its code from code on.
type body struct{ start, code, end int }

// importedFunctions is how many functions come before those defined here.
func (m *module) importedFunctions() (n uint32) {
	for _, i := range m.imports {
		if i.kind == kindFunction {
			n++
		}
	}
	return n
}

// typeOf is the type of a function by its index, which counts imports first.
func (m *module) typeOf(index uint32) (funcType, bool) {
	for _, i := range m.imports {
		if i.kind != kindFunction {
			continue
		}
		if index == 0 {
			return i.of, true
		}
		index--
	}
	if int(index) >= len(m.functions) {
		return funcType{}, false
	}
	return m.types[m.functions[index]], true
}
