package policies

import "fmt"

// reader reads the binary format of a module. After its first refusal everything it returns is zero.
type reader struct {
	bytes   []byte
	at      int
	refusal *Refusal
}

func (r *reader) ok() bool  { return r.refusal == nil }
func (r *reader) left() int { return len(r.bytes) - r.at }

// refuse notes the first reason.
func (r *reader) refuse(stage Stage, got, want, hint string) {
	if r.refusal == nil {
		r.refusal = &Refusal{Stage: stage, Got: got, Want: want, Hint: hint}
		r.at = len(r.bytes)
	}
}

// malformed is a refusal of bytes that are no module at all.
func (r *reader) malformed(got, want string) {
	r.refuse(StageSections, fmt.Sprintf("%s at byte %d", got, r.at), want, "the file is damaged, or not the output of a WebAssembly linker")
}

func (r *reader) byte() byte {
	if r.left() < 1 {
		r.malformed("the end", "one more byte")
		return 0
	}
	r.at++
	return r.bytes[r.at-1]
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if n < 0 || n > r.left() {
		r.malformed(fmt.Sprintf("%d bytes", r.left()), fmt.Sprintf("%d", n))
		return nil
	}
	r.at += n
	return r.bytes[r.at-n : r.at]
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	v := r.leb(5)
	if v > 1<<32-1 {
		r.malformed("a larger number", "at most 32 bits")
		return 0
	}
	return uint32(v)
}

// leb reads a LEB128 number of at most the given bytes; the sign of a signed one is not regarded.
func (r *reader) leb(bytes int) uint64 {
	var v uint64
	for i := range bytes {
		b := r.byte()
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v
		}
	}
	r.malformed("a longer number", fmt.Sprintf("at most %d bytes", bytes))
	return 0
}

// count reads how many entries follow: at most limit, and at most as many as bytes are left, since whoever decodes them makes
// room for as many as are declared.
func (r *reader) count(of string, limit int) int {
	n := r.u32()
	if !r.ok() {
		return 0
	}
	if uint64(n) > uint64(limit) {
		r.refuse(StageLimits, fmt.Sprintf("%d %s", n, of), fmt.Sprintf("at most %d", limit), "")
		return 0
	}
	if int(n) > r.left() {
		r.malformed(fmt.Sprintf("%d %s in %d bytes", n, of, r.left()), "a byte for each at least")
		return 0
	}
	return int(n)
}

// name reads a name.
func (r *reader) name() string { return string(r.take(r.count("bytes of a name", ModuleMax))) }
