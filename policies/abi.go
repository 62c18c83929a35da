package policies

import (
	"context"

	"github.com/tetratelabs/wazero/api"
)

// Names of the ABI.
const (
	hostModule   = "permitd_v1"
	versionMark  = "permitd_abi_v1"
	wasiModule   = "wasi_snapshot_preview1"
	abortModule  = "env"
	abiVersion   = 1
	absent       = -1        // what attr_get answers for a key that is not there
	hostValueMax = 1<<16 - 1 // bytes of a value that attrs_all can tell
)

// hostFunction is an import that the host serves.
type hostFunction struct {
	name string
	of   funcType
	call func(*call, api.Memory, []uint64)
	from phase // the first phase in which it may be called
}

// Shorthands of signatures.
const (
	i32x1 = "\x7f"
	i32x2 = "\x7f\x7f"
	i32x3 = "\x7f\x7f\x7f"
	i32x4 = "\x7f\x7f\x7f\x7f"
	i64x1 = "\x7e"
)

// hostFunctions are the imports of module permitd_v1.
var hostFunctions = [...]hostFunction{
	{"attr_get", funcType{i32x4, i32x1}, attrGet, evaluating},
	{"attrs_all", funcType{i32x2, i32x1}, attrsAll, evaluating},
	{"config_get", funcType{i32x2, i32x1}, configGet, configuring},
	{"set_reason", funcType{i32x2, ""}, setReason, evaluating},
	{"set_priority", funcType{i32x1, ""}, setPriority, evaluating},
	{"set_ttl_ms", funcType{i64x1, ""}, setTTL, evaluating},
	{"log", funcType{i32x3, ""}, writeLog, configuring},
	{"now_ms", funcType{"", i64x1}, nowMS, evaluating},
}

// abortFunction is what AssemblyScript calls when an assertion fails.
var abortFunction = hostFunction{"abort", funcType{i32x4, ""}, abort, starting}

// goFunction wraps a host function for the runtime: it looks at the deadline and refuses what is out of turn.
func (f *hostFunction) goFunction() api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, module api.Module, stack []uint64) {
		c := callOf(ctx)
		c.look()
		if c.phase < f.from {
			c.end(FaultBadCall, f.name+" in "+phaseNames[c.phase])
		}
		f.call(c, module.Memory(), stack)
	})
}

// ended is what a host function panics with to end a call; the runtime turns it into an error, and the call knows why.
type ended struct{}

func (ended) Error() string { return "ended by the host" }

func (c *call) end(kind FaultKind, detail string) {
	c.fault = &Fault{kind, bounded([]byte(detail), detailMax)}
	panic(ended{})
}

// look ends a call whose time is over. Compiled code looks only where it loops.
func (c *call) look() {
	if c.over.Load() {
		c.end(FaultTimeout, "stopped in "+phaseNames[c.phase])
	}
}

// text is a view of a stretch of the guest's memory.
func (c *call) text(memory api.Memory, pointer, length uint64) []byte {
	b, there := memory.Read(uint32(pointer), uint32(length))
	if !there {
		c.end(FaultBadPointer, "")
	}
	return b
}

// room is the guest's buffer; it has to lie in its memory even where nothing is written.
func (c *call) room(memory api.Memory, pointer, capacity uint64) []byte {
	if uint32(capacity) == 0 {
		return nil
	}
	return c.text(memory, pointer, capacity)
}

func i32(v int) uint64 { return uint64(uint32(int32(v))) }

// fill copies a value if it fits and answers its length in any case.
func fill(buffer []byte, value string) uint64 {
	if len(value) <= len(buffer) {
		copy(buffer, value)
	}
	return i32(len(value))
}

func attrGet(c *call, memory api.Memory, stack []uint64) {
	key := c.text(memory, stack[0], stack[1])
	buffer := c.room(memory, stack[2], stack[3])
	stack[0] = i32(absent)
	if len(key) > AttributeKeyMax {
		return
	}
	if value, there := c.attribute(string(key)); there {
		stack[0] = fill(buffer, value)
	}
}

func attrsAll(c *call, memory api.Memory, stack []uint64) {
	buffer := c.room(memory, stack[0], stack[1])
	size := c.attributesSize()
	if size <= len(buffer) {
		c.appendAttributes(buffer[:0])
	}
	stack[0] = i32(size)
}

func configGet(c *call, memory api.Memory, stack []uint64) {
	stack[0] = fill(c.room(memory, stack[0], stack[1]), c.config)
}

func setReason(c *call, memory api.Memory, stack []uint64) {
	c.said.reason = bounded(c.text(memory, stack[0], stack[1]), ReasonMax)
}

func setPriority(c *call, _ api.Memory, stack []uint64) {
	c.said.priority = min(max(int32(uint32(stack[0])), -PriorityMax), PriorityMax)
	c.said.hasPriority = true
}

func setTTL(c *call, _ api.Memory, stack []uint64) {
	c.said.ttl = c.request.clampTTL(int64(stack[0]))
}

func writeLog(c *call, memory api.Memory, stack []uint64) {
	text := c.text(memory, stack[1], stack[2])
	if len(c.said.logs) < LogLinesMax {
		c.said.logs = append(c.said.logs, LogLine{int32(uint32(stack[0])), bounded(text, LogLineMax)})
	}
}

func nowMS(c *call, _ api.Memory, stack []uint64) { stack[0] = uint64(c.now) }

// abort ends the call with the message of an AssemblyScript string: UTF-16, its length in bytes before it.
func abort(c *call, memory api.Memory, stack []uint64) {
	c.end(FaultTrap, "abort: "+scriptString(memory, uint32(stack[0])))
}

// scriptString reads an AssemblyScript string, or nothing where there is none.
func scriptString(memory api.Memory, pointer uint32) string {
	if pointer < 4 || memory == nil {
		return ""
	}
	length, there := memory.ReadUint32Le(pointer - 4)
	if !there {
		return ""
	}
	units, there := memory.Read(pointer, min(length, 2*detailMax)&^1)
	if !there {
		return ""
	}
	return utf16le(units)
}
