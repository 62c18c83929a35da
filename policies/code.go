package policies

import "fmt"

// Instructions that the rewriting looks for.
const (
	opCall         = 0x10
	opCallIndirect = 0x11
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	prefixBulk     = 0xfc
	prefixVector   = 0xfd
)

// What comes behind the byte of an instruction.
type operands uint8

const (
	unknown    operands = iota // refused: whoever compiles it might read on elsewhere
	none                       // nothing
	number                     // one
	numbers                    // two of them, as of memory: alignment and offset
	labels                     // numbers by count, and one more
	signed32                   // a signed number
	signed64                   // a longer one
	zero                       // the byte 0, an index of memory
	numberZero                 // a number and the byte 0
	zeros                      // twice the byte 0
	bytes1                     // so many bytes
	bytes4
	bytes8
	bytes16
	lane // of memory: two numbers and a byte
)

// span is a row of instructions that have the same operands, up to its last.
type span struct {
	last byte
	of   operands
}

// The instructions of WebAssembly 2.0 but for those about references, which are not served.
var (
	plainSpans = []span{
		{0x01, none}, {0x04, signed32}, {0x05, none}, {0x0a, unknown}, {0x0b, none}, // unreachable, nop; block, loop, if; else; end
		{0x0d, number}, {0x0e, labels}, {0x0f, none}, {0x10, number}, {0x11, numbers}, // br, br_if; br_table; return; call; call_indirect
		{0x19, unknown}, {0x1b, none}, {0x1f, unknown}, {0x24, number}, {0x27, unknown}, // drop, select; locals and globals
		{0x3e, numbers}, {0x40, zero}, {0x41, signed32}, {0x42, signed64}, {0x43, bytes4}, {0x44, bytes8}, // memory; constants
		{0xc4, none}, {0xff, unknown}, // arithmetic
	}
	bulkSpans = []span{
		{0x07, none}, {0x08, numberZero}, {0x09, number}, {0x0a, zeros}, {0x0b, zero}, // conversions; memory.init, data.drop, memory.copy, .fill
		{0x0c, numbers}, {0x0d, number}, {0x0e, numbers}, {0xff, unknown}, // table.init, elem.drop, table.copy
	}
	// The compiler takes the byte behind the prefix for the whole instruction, and a second one for a nop: so do we.
	vectorSpans = []span{
		{0x0b, numbers}, {0x0d, bytes16}, {0x14, none}, {0x22, bytes1}, {0x53, none}, {0x5b, lane}, {0x5d, numbers}, {0xff, none},
	}
)

// operandsOf are those of an instruction among spans.
func operandsOf(spans []span, op uint32) operands {
	for _, s := range spans {
		if op <= uint32(s.last) {
			return s.of
		}
	}
	return unknown
}

// instruction reads one, and tells its byte and a number: of a call which function, which global, behind prefixBulk which instruction.
func (r *reader) instruction() (op byte, which uint32) {
	op = r.byte()
	switch op {
	case opCall, opGlobalGet, opGlobalSet:
		which = r.u32()
	case prefixBulk:
		which = r.u32()
		r.operands(operandsOf(bulkSpans, which), op)
	case prefixVector:
		r.operands(operandsOf(vectorSpans, uint32(r.byte())), op)
	default:
		r.operands(operandsOf(plainSpans, uint32(op)), op)
	}
	return op, which
}

func (r *reader) operands(of operands, op byte) {
	switch of {
	case none:
	case number:
		r.u32()
	case numbers:
		r.u32()
		r.u32()
	case labels:
		for range r.count("labels", bodyMax) {
			r.u32()
		}
		r.u32()
	case signed32:
		r.leb(5)
	case signed64:
		r.leb(10)
	case zero:
		r.zero()
	case numberZero:
		r.u32()
		r.zero()
	case zeros:
		r.zero()
		r.zero()
	case bytes1:
		r.take(1)
	case bytes4:
		r.take(4)
	case bytes8:
		r.take(8)
	case bytes16:
		r.take(16)
	case lane:
		r.u32()
		r.u32()
		r.take(1)
	default:
		r.malformed(fmt.Sprintf("instruction %#x", op), "one of WebAssembly 2.0; references are not served")
	}
}

// zero reads an index that must be 0, in one byte.
func (r *reader) zero() {
	if b := r.byte(); b != 0 {
		r.malformed(fmt.Sprintf("memory %d", b), "memory 0")
	}
}

// isBulk reports whether an instruction works on a whole stretch of memory or of a table: up to a millisecond.
func isBulk(op byte, which uint32) bool {
	return op == prefixBulk && which >= 8 && which != 9 && which != 13 // those drop a segment
}
