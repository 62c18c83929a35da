package policies

import "encoding/binary"

// Bytes of instructions that the rewriting looks for or writes.
const (
	opCall         = 0x10
	opCallIndirect = 0x11
	prefixBulk     = 0xfc
)

// look is an empty loop: loop, no type, end. At the head of a loop, and nowhere else, the compiled code looks whether its
// deadline has passed.
var look = [...]byte{0x03, 0x40, 0x0b}

// rewrite returns the module as it is compiled: custom sections left out, and a look at the deadline at the head of every
// function that may call. Without it a recursion that has no loop runs on past its deadline, and holds up the garbage
// collector for as long. A short function without calls goes without.
func (m *module) rewrite(wasm []byte) []byte {
	out := make([]byte, 0, len(wasm)+len(m.bodies)*len(look)+1024)
	out = append(out, wasm[:8]...)
	for _, s := range m.sections {
		content := wasm[s.start:s.end]
		if s.id == sectionCode {
			content = m.rewriteCode(wasm)
		}
		out = append(out, s.id)
		out = binary.AppendUvarint(out, uint64(len(content)))
		out = append(out, content...)
	}
	return out
}

func (m *module) rewriteCode(wasm []byte) []byte {
	var out []byte
	out = binary.AppendUvarint(out, uint64(len(m.bodies)))
	for _, b := range m.bodies {
		locals, code := wasm[b.start:b.code], wasm[b.code:b.end]
		size := len(locals) + len(code)
		looks := needsLook(code)
		if looks {
			size += len(look)
		}
		out = binary.AppendUvarint(out, uint64(size))
		out = append(out, locals...)
		if looks {
			out = append(out, look[:]...)
		}
		out = append(out, code...)
	}
	return out
}

// needsLook goes by bytes and not by instructions: a byte that only looks like a call costs a nanosecond, a call that was
// overlooked would cost the deadline. A long body without calls needs it too, since 20,000 calls of it fit in another.
func needsLook(code []byte) bool {
	if len(code) > shortBodyMax {
		return true
	}
	for _, c := range code {
		if c == opCall || c == opCallIndirect || c == prefixBulk {
			return true
		}
	}
	return false
}
