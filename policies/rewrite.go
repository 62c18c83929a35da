package policies

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// look is an empty loop: loop, no type, end. At the head of a loop, and nowhere else, the compiled code looks whether its
// deadline has passed. That takes 22 ns.
var look = [...]byte{0x03, 0x40, 0x0b}

// tickMask is how many ticks are without a look before one that has it. The code between two ticks takes 50 µs at most: a body that calls nothing.
const tickMask = 63

// tick counts in a global that the rewriting adds, and looks at the deadline when enough was counted. That takes 2 ns.
func tick(global uint32) []byte {
	index := binary.AppendUvarint(nil, uint64(global))
	code := append([]byte{opGlobalGet}, index...)
	code = append(code, 0x41, 0x01, 0x6a, opGlobalSet) // i32.const 1, i32.add
	code = append(append(code, index...), opGlobalGet)
	code = append(append(code, index...), 0x41, tickMask, 0x71, 0x45, 0x04, 0x40) // i32.const, i32.and, i32.eqz, if
	return append(append(code, look[:]...), 0x0b)
}

// rewrite returns the module as it is compiled: custom sections left out, and looks at the deadline where code without a loop could run
// on for long: a tick at the head of functions that call and behind each call, and a look before each operation on a whole stretch of memory.
// Without them a recursion that has no loop runs on past its deadline, down or on its way back up, and holds up the garbage collector
// for as long.
func (m *module) rewrite(wasm []byte) ([]byte, *Refusal) {
	out := make([]byte, 0, len(wasm)+len(wasm)/4+1024)
	out = append(out, wasm[:8]...)
	counted := false
	for _, s := range m.sections {
		if !counted && place(s.id) >= place(sectionGlobal) {
			out = m.appendGlobals(out, wasm, s)
			counted = true
		}
		content := wasm[s.start:s.end]
		switch s.id {
		case sectionGlobal:
			continue
		case sectionCode:
			var refusal *Refusal
			if content, refusal = m.rewriteCode(wasm); refusal != nil {
				return nil, refusal
			}
		}
		out = appendSection(out, s.id, content)
	}
	return out, nil
}

func appendSection(out []byte, id byte, content []byte) []byte {
	out = binary.AppendUvarint(append(out, id), uint64(len(content)))
	return append(out, content...)
}

// appendGlobals appends the globals of a module and the one that ticks count in. at is their section, or the one before which it belongs.
func (m *module) appendGlobals(out, wasm []byte, at section) []byte {
	content := binary.AppendUvarint(nil, uint64(m.globals)+1)
	if at.id == sectionGlobal {
		r := &reader{bytes: wasm[:at.end], at: at.start}
		r.u32() // their number
		content = append(content, r.take(r.left())...)
	}
	content = append(content, typeI32, 0x01, 0x41, 0x00, 0x0b) // mutable, i32.const 0
	return appendSection(out, sectionGlobal, content)
}

func (m *module) rewriteCode(wasm []byte) ([]byte, *Refusal) {
	out := binary.AppendUvarint(nil, uint64(len(m.bodies)))
	w := rewriting{module: m, theirs: m.importedFunctions(), tick: tick(m.globals)}
	var code []byte
	for _, b := range m.bodies {
		r := &reader{bytes: wasm[:b.end], at: b.code}
		if code = w.body(code[:0], r); len(out)+len(code) > rewrittenMax {
			r.refuse(StageLimits, fmt.Sprintf("more than %d bytes of code with a look at the deadline at each call", rewrittenMax), "less", "inline functions of a few bytes")
		}
		if !r.ok() {
			return nil, r.refusal
		}
		locals := wasm[b.start:b.code]
		out = binary.AppendUvarint(out, uint64(len(locals)+len(code)))
		out = append(out, locals...)
		out = append(out, code...)
	}
	return out, nil
}

// rewriting is what bodies are rewritten with.
type rewriting struct {
	module *module
	theirs uint32 // functions of the host, which look at the deadline themselves, come before those of the module
	tick   []byte
}

// body appends the code of a body with the looks it needs.
func (w *rewriting) body(out []byte, r *reader) []byte {
	if mayCall(r.bytes[r.at:]) {
		out = append(out, w.tick...)
	}
	for r.ok() && r.left() > 0 {
		at := r.at
		op, which := r.instruction()
		switch {
		case op == opGlobalGet || op == opGlobalSet:
			w.module.checkGlobal(r, which)
		case isBulk(op, which):
			out = append(out, look[:]...)
		}
		out = append(out, r.bytes[at:r.at]...)
		if op == opCallIndirect || op == opCall && which >= w.theirs {
			out = append(out, w.tick...)
		}
	}
	return out
}

// mayCall reports whether a body has a byte that could be a call: where it is none, a tick in vain costs nanoseconds.
func mayCall(code []byte) bool {
	return bytes.IndexByte(code, opCall) >= 0 || bytes.IndexByte(code, opCallIndirect) >= 0
}
