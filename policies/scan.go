package policies

import (
	"bytes"
	"fmt"
)

// Ids of sections.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// place is where a section belongs among the others; 0 means that there is none of that id.
func place(id byte) int {
	order := [...]byte{
		sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory, sectionGlobal, sectionExport, sectionStart,
		sectionElement, sectionDataCount, sectionCode, sectionData,
	}
	return bytes.IndexByte(order[:], id) + 1
}

// scan reads a module's sections without compiling or allocating anything by a count that the module declares, and refuses
// what would hurt whoever does. It reads no instructions: those are bounded by the size of a body, looked through by rewrite, and checked
// by the compiler, which runs in a process of its own.
func scan(wasm []byte) (*module, *Refusal) {
	if len(wasm) > ModuleMax {
		return nil, tooLarge()
	}
	if refusal := header(wasm); refusal != nil {
		return nil, refusal
	}
	m, r := &module{}, &reader{bytes: wasm, at: 8}
	for last := 0; r.ok() && r.left() > 0; {
		id := r.byte()
		size := int(r.u32())
		if size > r.left() {
			r.malformed(fmt.Sprintf("a section of %d bytes where %d are left", size, r.left()), "a section that ends in the file")
		}
		if !r.ok() {
			break
		}
		content := section{id, r.at, r.at + size}
		r.at = content.end
		if id == sectionCustom {
			continue // names and debug information: left out of what is compiled, so nobody decodes them
		}
		at := place(id)
		if at <= last {
			r.malformed(fmt.Sprintf("section %d", id), "each section once, and in order")
			break
		}
		last = at
		m.sections = append(m.sections, content)
		r.refusal = m.read(wasm, content)
	}
	if r.ok() && len(m.functions) != len(m.bodies) {
		r.malformed(fmt.Sprintf("%d bodies", len(m.bodies)), fmt.Sprintf("one for each of %d functions", len(m.functions)))
	}
	return m, r.refusal
}

func tooLarge() *Refusal {
	return &Refusal{StageSize, "more", fmt.Sprintf("at most %d bytes", ModuleMax), "strip symbols and debug information"}
}

// header checks the first eight bytes.
func header(wasm []byte) *Refusal {
	const core, component = "\x00asm\x01\x00\x00\x00", "\x00asm\x0d\x00\x01\x00"
	switch {
	case bytes.HasPrefix(wasm, []byte(core)):
		return nil
	case bytes.HasPrefix(wasm, []byte(component)):
		return &Refusal{StageHeader, "a component", "a core module", "build for wasm32-unknown-unknown or wasip1, not for wasip2"}
	}
	got := "nothing"
	if len(wasm) > 0 {
		got = fmt.Sprintf("%x", wasm[:min(len(wasm), 8)])
	}
	hint := "upload the .wasm file itself, not its text form and not an archive"
	return &Refusal{StageHeader, got, fmt.Sprintf("%x", core), hint}
}

// read reads one section.
func (m *module) read(wasm []byte, s section) *Refusal {
	r := &reader{bytes: wasm[:s.end], at: s.start}
	switch s.id {
	case sectionType:
		m.readTypes(r)
	case sectionImport:
		m.readImports(r)
	case sectionFunction:
		m.readFunctions(r)
	case sectionTable:
		m.readTables(r)
	case sectionMemory:
		m.readMemory(r)
	case sectionGlobal:
		m.readGlobals(r)
	case sectionExport:
		m.readExports(r)
	case sectionStart:
		r.u32()
		m.start = true
	case sectionElement:
		m.readElements(r)
	case sectionCode:
		m.readCode(r)
	case sectionData:
		m.readData(r)
	case sectionDataCount:
		r.u32() // the segments are counted where they are
	}
	if r.ok() && r.left() > 0 {
		r.malformed(fmt.Sprintf("%d bytes behind section %d", r.left(), s.id), "none")
	}
	return r.refusal
}
