package policies

import (
	"bytes"
	"encoding/binary"
)

// look is an empty loop: loop, no type, end. At the head of a loop, and nowhere else, the compiled code looks whether its
// deadline has passed.
var look = [...]byte{0x03, 0x40, 0x0b}

// rewrite returns the module as it is compiled: custom sections left out, and looks at the deadline where code without a loop could run
// on for long: at the head of functions that call, behind each call, and before each operation on a whole stretch of memory. Without
// them a recursion that has no loop runs on past its deadline, down or on its way back up, and holds up the garbage collector for as long.
func (m *module) rewrite(wasm []byte) ([]byte, *Refusal) {
	out := make([]byte, 0, len(wasm)+len(wasm)/8+1024)
	out = append(out, wasm[:8]...)
	for _, s := range m.sections {
		content := wasm[s.start:s.end]
		if s.id == sectionCode {
			var refusal *Refusal
			if content, refusal = m.rewriteCode(wasm); refusal != nil {
				return nil, refusal
			}
		}
		out = append(out, s.id)
		out = binary.AppendUvarint(out, uint64(len(content)))
		out = append(out, content...)
	}
	return out, nil
}

func (m *module) rewriteCode(wasm []byte) ([]byte, *Refusal) {
	out := binary.AppendUvarint(nil, uint64(len(m.bodies)))
	theirs := m.importedFunctions()
	var code []byte
	for _, b := range m.bodies {
		r := &reader{bytes: wasm[:b.end], at: b.code}
		if code = rewriteBody(code[:0], r, theirs); !r.ok() {
			return nil, r.refusal
		}
		locals := wasm[b.start:b.code]
		out = binary.AppendUvarint(out, uint64(len(locals)+len(code)))
		out = append(out, locals...)
		out = append(out, code...)
	}
	return out, nil
}

// rewriteBody appends the code of a body with the looks it needs. Host functions, which are those below theirs, look at the deadline
// themselves.
func rewriteBody(out []byte, r *reader, theirs uint32) []byte {
	if mayCall(r.bytes[r.at:]) {
		out = append(out, look[:]...)
	}
	for r.ok() && r.left() > 0 {
		at := r.at
		op, which := r.instruction()
		if isBulk(op, which) {
			out = append(out, look[:]...)
		}
		out = append(out, r.bytes[at:r.at]...)
		if op == opCallIndirect || op == opCall && which >= theirs {
			out = append(out, look[:]...)
		}
	}
	return out
}

// mayCall reports whether a body has a byte that could be a call: where it is none, a look in vain costs nanoseconds.
func mayCall(code []byte) bool {
	return bytes.IndexByte(code, opCall) >= 0 || bytes.IndexByte(code, opCallIndirect) >= 0
}
