package policies

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// wasm builds modules byte by byte, so that tests need no toolchain.
type wasm struct {
	types     [][]byte
	imports   [][]byte
	functions [][]byte // indexes of types
	tables    [][]byte
	memories  [][]byte
	globals   [][]byte
	exports   [][]byte
	start     []byte
	elements  [][]byte
	bodies    [][]byte
	data      [][]byte
	custom    []byte
}

func u(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// s is a signed LEB128 number.
func s(n int64) (out []byte) {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func str(text string) []byte { return append(u(len(text)), text...) }

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func vec(entries [][]byte) []byte { return append(u(len(entries)), cat(entries...)...) }

func sec(id byte, content []byte) []byte {
	return cat([]byte{id}, u(len(content)), content)
}

const wasmHeader = "\x00asm\x01\x00\x00\x00"

// typeIndex returns the index of a type, which is added if need be.
func (w *wasm) typeIndex(t funcType) int {
	encoded := cat([]byte{0x60}, str(t.params), str(t.results))
	if at := slices.IndexFunc(w.types, func(b []byte) bool { return bytes.Equal(b, encoded) }); at >= 0 {
		return at
	}
	w.types = append(w.types, encoded)
	return len(w.types) - 1
}

// imported adds an imported function and returns its index. Imports come before functions.
func (w *wasm) imported(module, name string, t funcType) int {
	w.imports = append(w.imports, cat(str(module), str(name), []byte{0}, u(w.typeIndex(t))))
	return len(w.imports) - 1
}

// host adds a function of the host.
func (w *wasm) host(name string) int {
	t, there := served(hostModule, name)
	if !there {
		panic(name)
	}
	return w.imported(hostModule, name, t)
}

// function adds a function without locals and returns its index; the end is added.
func (w *wasm) function(t funcType, code ...[]byte) int {
	return w.functionWith(t, []byte{0}, code...)
}

func (w *wasm) functionWith(t funcType, locals []byte, code ...[]byte) int {
	w.functions = append(w.functions, u(w.typeIndex(t)))
	body := cat(locals, cat(code...), []byte{0x0b})
	w.bodies = append(w.bodies, cat(u(len(body)), body))
	return len(w.imports) + len(w.functions) - 1
}

func (w *wasm) export(name string, kind byte, index int) {
	w.exports = append(w.exports, cat(str(name), []byte{kind}, u(index)))
}

// datum adds a data segment at an offset.
func (w *wasm) datum(offset int, content string) {
	w.data = append(w.data, cat([]byte{0, 0x41}, s(int64(offset)), []byte{0x0b}, str(content)))
}

// bytes is the module as it is uploaded.
func (w *wasm) bytes() []byte {
	out := []byte(wasmHeader)
	for _, part := range []struct {
		id      byte
		entries [][]byte
	}{
		{sectionType, w.types},
		{sectionImport, w.imports},
		{sectionFunction, w.functions},
		{sectionTable, w.tables},
		{sectionMemory, w.memories},
		{sectionGlobal, w.globals},
		{sectionExport, w.exports},
	} {
		if len(part.entries) > 0 {
			out = append(out, sec(part.id, vec(part.entries))...)
		}
	}
	if w.start != nil {
		out = append(out, sec(sectionStart, w.start)...)
	}
	if len(w.elements) > 0 {
		out = append(out, sec(sectionElement, vec(w.elements))...)
	}
	if len(w.bodies) > 0 {
		out = append(out, sec(sectionCode, vec(w.bodies))...)
	}
	if len(w.data) > 0 {
		out = append(out, sec(sectionData, vec(w.data))...)
	}
	return append(out, w.custom...)
}

// evaluateType is the type of evaluate.
var evaluateType = funcType{"\x7e\x7e\x7e\x7e", i64x1}

// policyOf is a module whose evaluate has this code; build adds what it needs before.
func policyOf(build func(w *wasm) [][]byte) []byte {
	w := &wasm{memories: [][]byte{{0, 1}}}
	code := build(w)
	w.finish(w.functionWith(evaluateType, []byte{0}, code...))
	return w.bytes()
}

// finish exports what every policy exports.
func (w *wasm) finish(evaluate int) {
	w.export(exportMemory, kindMemory, 0)
	w.export(versionMark, kindFunction, w.function(funcType{}))
	w.export(exportEvaluate, kindFunction, evaluate)
}

// answers is a policy that always answers n.
func answers(n int64) []byte { return policyOf(func(*wasm) [][]byte { return [][]byte{i64(n)} }) }

// Instructions.
func i64(n int64) []byte        { return cat([]byte{0x42}, s(n)) }
func i32c(n int64) []byte       { return cat([]byte{0x41}, s(int64(int32(n)))) }
func callTo(index int) []byte   { return cat([]byte{opCall}, u(index)) }
func localGet(index int) []byte { return cat([]byte{0x20}, u(index)) }
func localSet(index int) []byte { return cat([]byte{0x21}, u(index)) }

var (
	unreachable = []byte{0x00}
	drop        = []byte{0x1a}
	loopForever = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b} // loop, br 0, end
	extend      = []byte{0xac}                         // i64.extend_i32_s
	loadByte    = []byte{0x2d, 0, 0}                   // i32.load8_u
)

// when runs code if n permits are requested.
func when(n int64, code ...[]byte) []byte {
	return cat(localGet(0), i64(n), []byte{0x51, 0x04, 0x40}, cat(code...), []byte{0x0b})
}

// Numbers of permits that make a module misbehave; the trial of an upload asks for fewer.
const (
	askLoop = 2_000_001 + iota
	askTrap
	askBadResult
	askRecurse
	askGrow
)

// moody answers 3, unless it is asked for one of the numbers above.
func moody() []byte {
	return policyOf(func(w *wasm) [][]byte {
		recurse := doubling(w)
		return [][]byte{
			when(askLoop, loopForever),
			when(askTrap, unreachable),
			when(askBadResult, i64(-2), []byte{0x0f}),
			when(askRecurse, i64(60), callTo(recurse), drop),
			when(askGrow, i32c(1), []byte{0x40, 0}, drop),
			i64(3),
		}
	})
}

// doubling calls itself twice, n deep, without a loop.
func doubling(w *wasm) int {
	self := len(w.imports) + len(w.functions)
	t := funcType{i64x1, i64x1}
	again := cat(localGet(0), i64(1), []byte{0x7d}, callTo(self))
	return w.function(t,
		localGet(0), []byte{0x50, 0x04, 0x40}, i64(0), []byte{0x0f, 0x0b}, // if n == 0 return 0
		again, again, []byte{0x7c})
}
