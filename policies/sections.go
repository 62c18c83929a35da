package policies

import (
	"bytes"
	"fmt"
)

func (m *module) readTypes(r *reader) {
	for range r.count("types", typesMax) {
		if form := r.byte(); form != 0x60 {
			r.malformed(fmt.Sprintf("type %#x", form), "a function type, 0x60")
		}
		m.types = append(m.types, funcType{readValueTypes(r), readValueTypes(r)})
		if !r.ok() {
			return
		}
	}
}

func readValueTypes(r *reader) string {
	types := r.take(r.count("parameters or results", arityMax))
	for _, t := range types {
		checkValueType(r, t)
	}
	return string(types)
}

func checkValueType(r *reader, t byte) {
	if t > typeI32 || t < typeV128 {
		r.malformed(fmt.Sprintf("value type %#x", t), "i32, i64, f32, f64 or v128; references are not served")
	}
}

func (m *module) readType(r *reader) uint32 {
	index := r.u32()
	if int(index) >= len(m.types) {
		r.malformed(fmt.Sprintf("type %d", index), fmt.Sprintf("one of %d", len(m.types)))
	}
	return index
}

func (m *module) readImports(r *reader) {
	for range r.count("imports", importsMax) {
		i := imported{module: r.name(), name: r.name(), kind: r.byte()}
		switch i.kind {
		case kindFunction:
			if t := m.readType(r); r.ok() {
				i.of = m.types[t]
			}
		case kindTable:
			r.byte()
			readSize(r)
		case kindMemory:
			readSize(r)
		case kindGlobal:
			r.take(2)
		default:
			r.malformed(fmt.Sprintf("an import of kind %d", i.kind), "a function")
		}
		if !r.ok() {
			return
		}
		m.imports = append(m.imports, i)
	}
}

func (m *module) readFunctions(r *reader) {
	for range r.count("functions", functionsMax) {
		m.functions = append(m.functions, m.readType(r))
		if !r.ok() {
			return
		}
	}
}

// readSize reads the limits of a table or a memory and returns what it has at the start.
func readSize(r *reader) uint32 {
	flags := r.byte()
	if flags > 1 {
		r.malformed(fmt.Sprintf("limits with flags %#x", flags), "0 or 1: neither shared nor of 64 bits")
		return 0
	}
	least := r.u32()
	if flags == 1 {
		r.u32()
	}
	return least
}

func (m *module) readTables(r *reader) {
	for range r.count("tables", tablesMax) {
		if t := r.byte(); t != 0x70 {
			r.malformed(fmt.Sprintf("a table of %#x", t), "functions, 0x70")
		}
		if n := readSize(r); n > tableMax {
			r.refuse(StageMemory, fmt.Sprintf("a table of %d elements", n), fmt.Sprintf("at most %d", tableMax), "")
		}
	}
}

func (m *module) readMemory(r *reader) {
	for range r.count("memories", 1) {
		m.memory = &memorySize{readSize(r)}
		if m.memory.pages > pagesMax {
			r.refuse(StageMemory, fmt.Sprintf("%d pages at the start", m.memory.pages), fmt.Sprintf("at most %d, %d MiB", pagesMax, memoryMax>>20),
				"a smaller stack or initial memory: -z stack-size=16384, --initial-memory")
		}
	}
}

func (m *module) readGlobals(r *reader) {
	for range r.count("globals", globalsMax) {
		checkValueType(r, r.byte())
		r.byte() // mutable or not
		m.readConstant(r)
		m.globals++
		if !r.ok() {
			return
		}
	}
}

func (m *module) readExports(r *reader) {
	for range r.count("exports", exportsMax) {
		e := exported{r.name(), r.byte(), r.u32()}
		if e.kind == kindGlobal {
			m.checkGlobal(r, e.index)
		}
		m.exports = append(m.exports, e)
		if !r.ok() {
			return
		}
	}
}

// checkGlobal refuses a global that there is not: behind those of a module stands one that the rewriting adds.
func (m *module) checkGlobal(r *reader, index uint32) {
	if index >= m.globals {
		r.malformed(fmt.Sprintf("global %d", index), fmt.Sprintf("one of %d", m.globals))
	}
}

// readConstant reads an expression that sets a global or says where a segment goes.
func (m *module) readConstant(r *reader) {
	switch op := r.byte(); op {
	case 0x41: // i32.const
		r.leb(5)
	case 0x42: // i64.const
		r.leb(10)
	case 0x43: // f32.const
		r.take(4)
	case 0x44: // f64.const
		r.take(8)
	case opGlobalGet:
		m.checkGlobal(r, r.u32())
	case 0xfd: // v128.const
		if sub := r.u32(); sub != 12 {
			r.malformed(fmt.Sprintf("instruction 0xfd %d", sub), "a constant")
		}
		r.take(16)
	default:
		r.malformed(fmt.Sprintf("instruction %#x", op), "a constant")
	}
	if end := r.byte(); end != 0x0b {
		r.malformed(fmt.Sprintf("instruction %#x", end), "the end of a constant")
	}
}

// readElements reads the segments of a table. Flags: 1 passive or declared, 2 with a table or declared, 4 expressions.
func (m *module) readElements(r *reader) {
	all := 0
	for range r.count("element segments", elementsMax) {
		flags := r.u32()
		if flags > 3 {
			r.malformed(fmt.Sprintf("an element segment with flags %d", flags), "indexes of functions; references are not served")
			return
		}
		if flags == 2 {
			r.u32()
		}
		if flags&1 == 0 {
			m.readConstant(r)
		}
		if flags != 0 {
			if kind := r.byte(); kind != 0 {
				r.malformed(fmt.Sprintf("elements of kind %#x", kind), "functions, 0")
			}
		}
		n := r.count("elements", elementsMax-all)
		for range n {
			r.u32()
		}
		if all += n; !r.ok() {
			return
		}
	}
}

func (m *module) readCode(r *reader) {
	for i := range r.count("function bodies", functionsMax) {
		size := r.count("bytes of a function's body", ModuleMax)
		if size > bodyMax {
			r.refuse(StageLimits, fmt.Sprintf("%d bytes in function %d", size, i), fmt.Sprintf("at most %d", bodyMax), "inline less, or split the function")
		}
		if !r.ok() {
			return
		}
		in := &reader{bytes: r.bytes[:r.at+size], at: r.at}
		b := readBody(in, i)
		if r.refusal = in.refusal; !r.ok() {
			return
		}
		m.bodies = append(m.bodies, b)
		r.at += size
	}
}

// readBody reads a body's locals and leaves its code.
func readBody(r *reader, i int) body {
	b := body{start: r.at, end: len(r.bytes)}
	locals := uint64(0)
	for range r.count("groups of locals", localsMax) {
		locals += uint64(r.u32())
		checkValueType(r, r.byte())
		if locals > localsMax {
			r.refuse(StageLimits, fmt.Sprintf("%d locals in function %d", locals, i), fmt.Sprintf("at most %d", localsMax), "")
			return b
		}
	}
	b.code = r.at
	if r.ok() && (r.left() == 0 || r.bytes[b.end-1] != 0x0b) {
		r.malformed("a body without an end", "0x0b")
		return b
	}
	checkBulk(r, b, i)
	return b
}

// checkBulk bounds the bytes that could be operations on whole stretches of memory.
func checkBulk(r *reader, b body, i int) {
	if n := bytes.Count(r.bytes[b.code:b.end], []byte{prefixBulk}); n > bulkBytesMax {
		r.refuse(StageLimits, fmt.Sprintf("%d bytes 0xfc in function %d", n, i), fmt.Sprintf("at most %d", bulkBytesMax), "")
	}
}

// readData reads data segments. Flags: 1 passive, 2 with a memory.
func (m *module) readData(r *reader) {
	for range r.count("data segments", dataMax) {
		switch flags := r.u32(); flags {
		case 0:
			m.readConstant(r)
		case 1:
		case 2:
			r.u32()
			m.readConstant(r)
		default:
			r.malformed(fmt.Sprintf("a data segment with flags %d", flags), "0, 1 or 2")
		}
		r.take(r.count("bytes of data", ModuleMax))
		if !r.ok() {
			return
		}
	}
}
