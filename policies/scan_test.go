package policies

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// raw is a module of given sections.
func raw(sections ...[]byte) []byte { return cat([]byte(wasmHeader), cat(sections...)) }

// huge is a count that no file has entries for.
var huge = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

func TestWhatIsRefusedIsRefusedAtItsStage(t *testing.T) {
	t.Parallel()
	evaluate := func(w *wasm) { w.finish(w.function(evaluateType, i64(1))) }
	with := func(change func(w *wasm)) []byte {
		w := &wasm{memories: [][]byte{{0, 1}}}
		change(w)
		return w.bytes()
	}
	oneType, oneFunction := sec(sectionType, []byte{1, 0x60, 0, 0}), sec(sectionFunction, []byte{1, 0})
	body := func(code []byte) []byte { return sec(sectionCode, cat([]byte{1}, u(len(code)), code)) }
	for _, c := range []struct {
		name  string
		wasm  []byte
		stage Stage
		got   string // part of it
	}{
		{"nothing", nil, StageHeader, ""},
		{"text", []byte("(module)"), StageHeader, "286d6f64"},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), StageHeader, "a component"},
		{"too large", make([]byte, ModuleMax+1), StageSize, "more"},
		{"a section that goes on behind the end", raw([]byte{1, 100}), StageSections, "100 bytes"},
		{"sections out of order", raw(oneFunction, oneType), StageSections, "type 0"},
		{"a section twice", raw(oneType, oneType), StageSections, "section 1"},
		{"an unknown section", raw(sec(13, nil)), StageSections, "section 13"},
		{"bytes behind a section's content", raw(sec(sectionType, []byte{0, 0})), StageSections, "1 bytes behind"},
		{"a number too long", raw(sec(sectionType, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0})), StageSections, "longer number"},
		{"a number too large", raw(sec(sectionType, []byte{0xff, 0xff, 0xff, 0xff, 0x7f})), StageSections, "larger number"},
		{"types by count", raw(sec(sectionType, huge)), StageLimits, "4294967295 types"},
		{"parameters by count", raw(sec(sectionType, cat([]byte{1, 0x60}, huge))), StageLimits, "4294967295 parameters"},
		{"imports by count", raw(sec(sectionImport, huge)), StageLimits, "4294967295 imports"},
		{"a name by count", raw(sec(sectionImport, cat([]byte{1}, u(1000)))), StageSections, "1000 bytes of a name"},
		{"functions by count", raw(oneType, sec(sectionFunction, huge)), StageLimits, "4294967295 functions"},
		{"tables by count", raw(sec(sectionTable, huge)), StageLimits, "4294967295 tables"},
		{"memories by count", raw(sec(sectionMemory, huge)), StageLimits, "4294967295 memories"},
		{"globals by count", raw(sec(sectionGlobal, huge)), StageLimits, "4294967295 globals"},
		{"exports by count", raw(sec(sectionExport, huge)), StageLimits, "4294967295 exports"},
		{"60,000 exports", raw(sec(sectionExport, cat(u(60_000), bytes.Repeat([]byte{1, 'a', 0, 0}, 60_000)))), StageLimits, "60000 exports"},
		{"element segments by count", raw(sec(sectionElement, huge)), StageLimits, "4294967295 element segments"},
		{"elements by count", raw(sec(sectionElement, cat([]byte{1, 0, 0x41, 0, 0x0b}, huge))), StageLimits, "4294967295 elements"},
		{"bodies by count", raw(oneType, oneFunction, sec(sectionCode, huge)), StageLimits, "4294967295 function bodies"},
		{"data by count", raw(sec(sectionData, huge)), StageLimits, "4294967295 data segments"},
		{"bytes of data by count", raw(sec(sectionData, cat([]byte{1, 0, 0x41, 0, 0x0b}, huge))), StageLimits, "4294967295 bytes of data"},
		{"groups of locals by count", raw(oneType, oneFunction, body(huge)), StageLimits, "4294967295 groups"},
		{"locals by count", raw(oneType, oneFunction, body(cat([]byte{1}, huge, []byte{typeI32, 0x0b}))), StageLimits, "4294967295 locals"},
		{"2,001 locals", raw(oneType, oneFunction, body(cat([]byte{1}, u(2001), []byte{typeI32, 0x0b}))), StageLimits, "2001 locals"},
		{"a body of 65 KiB", raw(oneType, oneFunction, body(cat([]byte{0}, make([]byte, 65<<10), []byte{0x0b}))), StageLimits, "66562 bytes"},
		{"a body without an end", raw(oneType, oneFunction, body([]byte{0, 1})), StageSections, "without an end"},
		{"a function without a body", raw(oneType, oneFunction), StageSections, "0 bodies"},
		{"bulk operations without end", raw(oneType, oneFunction, body(cat([]byte{0}, bytes.Repeat([]byte{0xfc, 0x0b, 0}, 65), []byte{0x0b}))), StageLimits, "65 bulk"},
		{"bytes 0xfc", raw(oneType, oneFunction, body(cat([]byte{0}, bytes.Repeat([]byte{0xfc, 0x00}, 513), []byte{0x0b}))), StageLimits, "513 bytes"},
		{"a table of 2^27", raw(sec(sectionTable, cat([]byte{1, 0x70, 0}, u(1<<27)))), StageMemory, "134217728 elements"},
		{"two tables", raw(sec(sectionTable, []byte{2, 0x70, 0, 1, 0x70, 0, 1})), StageLimits, "2 tables"},
		{"a table of references", raw(sec(sectionTable, []byte{1, 0x6f, 0, 1})), StageSections, "0x6f"},
		{"a memory of 17 MiB", raw(sec(sectionMemory, cat([]byte{1, 0}, u(257)))), StageMemory, "257 pages"},
		{"a shared memory", raw(sec(sectionMemory, []byte{1, 3, 1, 1})), StageSections, "flags 0x3"},
		{"no memory", with(func(w *wasm) { w.memories = nil; evaluate(w) }), StageExports, "no memory"},
		{"nothing exported", with(func(*wasm) {}), StageExports, "no memory"},
		{"no evaluate", with(func(w *wasm) {
			w.export(exportMemory, kindMemory, 0)
			w.export(versionMark, kindFunction, w.function(funcType{}))
		}), StageExports, "no function evaluate"},
		{"no version mark", with(func(w *wasm) {
			w.export(exportMemory, kindMemory, 0)
			w.export(exportEvaluate, kindFunction, w.function(evaluateType, i64(1)))
		}), StageExports, "no function permitd_abi_v1"},
		{"evaluate of another type", with(func(w *wasm) { w.finish(w.function(funcType{i64x1, i64x1}, i64(1))) }), StageExports, "evaluate (i64) -> i64"},
		{"a command", with(func(w *wasm) { evaluate(w); w.export(exportStart, kindFunction, w.function(funcType{})) }), StageExports, "a command"},
		{"configure of another type", with(func(w *wasm) { evaluate(w); w.export(exportConfigure, kindFunction, w.function(funcType{})) }), StageExports, "configure () -> ()"},
		{"an import of another type", with(func(w *wasm) { w.imported(hostModule, "now_ms", funcType{"", i32x1}); evaluate(w) }), StageImports, "() -> i32"},
		{"an unknown import of ours", with(func(w *wasm) { w.imported(hostModule, "shell", funcType{}); evaluate(w) }), StageImports, `"permitd_v1" "shell"`},
		{"the next version", with(func(w *wasm) { w.imported("permitd_v2", "attr_get", funcType{}); evaluate(w) }), StageImports, "permitd_v2"},
		{"an unknown module", with(func(w *wasm) { w.imported("env", "malloc", funcType{}); evaluate(w) }), StageImports, "malloc"},
		{"WASI of another type", with(func(w *wasm) { w.imported(wasiModule, "random_get", funcType{}); evaluate(w) }), StageImports, "() -> ()"},
		{"an imported memory", with(func(w *wasm) {
			w.imports = [][]byte{cat(str("env"), str("memory"), []byte{2, 0, 1})}
			evaluate(w)
		}), StageImports, "the memory"},
		{"an imported global", with(func(w *wasm) {
			w.imports = [][]byte{cat(str("env"), str("g"), []byte{3, typeI32, 0})}
			evaluate(w)
		}), StageImports, "the global"},
		{"an imported table", with(func(w *wasm) {
			w.imports = [][]byte{cat(str("env"), str("t"), []byte{1, 0x70, 0, 1})}
			evaluate(w)
		}), StageImports, "the table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, _, refusal := inspect(c.wasm)
			if refusal == nil {
				t.Fatal("it was taken")
			}
			if refusal.Stage != c.stage || !strings.Contains(refusal.Got, c.got) || refusal.Want == "" {
				t.Errorf("stage %s: %v", refusal.Stage, refusal)
			}
			if kind := refusal.Kind(); (kind == "too_large") != (c.stage == StageSize) {
				t.Errorf("kind %s", kind)
			}
		})
	}
}

func TestARefusalNamesWhatWasWanted(t *testing.T) {
	t.Parallel()
	w := &wasm{memories: [][]byte{{0, 1}}}
	w.imported(hostModule, "attr_get", funcType{i32x2, i32x1})
	w.finish(w.function(evaluateType, i64(1)))
	_, _, refusal := inspect(w.bytes())
	want := &Refusal{
		StageImports, `"permitd_v1" "attr_get" (i32, i32) -> i32`, "(i32, i32, i32, i32) -> i32", "declare the import with this type",
	}
	if refusal == nil || *refusal != *want {
		t.Errorf("got %+v, want %+v", refusal, want)
	}
}

func TestHugeCountsCostNoMemory(t *testing.T) {
	// Not parallel: it measures what it allocates.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for id := byte(1); id <= 12; id++ {
		if _, _, refusal := inspect(raw(sec(id, huge))); refusal == nil && id != sectionStart && id != sectionDataCount {
			t.Errorf("section %d was taken", id)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
}

func TestWordsOfAModuleAreBoundedInARefusal(t *testing.T) {
	t.Parallel()
	w := &wasm{memories: [][]byte{{0, 1}}}
	w.imported("env", strings.Repeat("\x1b[31m\n", 1000), funcType{})
	w.finish(w.function(evaluateType, i64(1)))
	_, _, refusal := inspect(w.bytes())
	if refusal == nil || len(refusal.Got) > 2*descriptorMax+100 || strings.ContainsAny(refusal.Got, "\x1b\n") {
		t.Errorf("%v", refusal)
	}
}

func TestCustomSectionsAreNotCompiled(t *testing.T) {
	t.Parallel()
	wasm := cat(answers(1), sec(sectionCustom, cat(str("name"), []byte{1, 6}, huge)))
	_, rewritten, refusal := inspect(wasm)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if bytes.Contains(rewritten, []byte("name")) {
		t.Error("the name section is still there")
	}
}

func TestOnlyFunctionsThatMayRunLongLookAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code []byte
		want bool
	}{
		{"a constant", i64(1), false},
		{"a call", callTo(0), true},
		{"an indirect call", []byte{opCallIndirect, 0, 0}, true},
		{"a fill", []byte{0xfc, 0x0b, 0}, true},
		{"a constant that looks like a call", i64(16), true},
		{"a long one", bytes.Repeat([]byte{0x01}, 200), true},
	} {
		if got := needsLook(c.code); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(answers(1))
	f.Add(moody())
	f.Add(raw(sec(sectionType, huge)))
	for id := byte(1); id <= 12; id++ {
		f.Add(raw(sec(id, []byte{1, 0, 0x41, 0, 0x0b, 1, 1})))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, rewritten, refusal := inspect(wasm)
		if refusal != nil {
			if refusal.Stage == "" || refusal.Want == "" || len(refusal.Error()) > 2000 {
				t.Errorf("%+v", refusal)
			}
			return
		}
		if len(rewritten) > len(wasm)+len(m.bodies)*(len(look)+5)+100 {
			t.Errorf("%d bytes became %d", len(wasm), len(rewritten))
		}
		again, _, refusal := inspect(rewritten)
		if refusal != nil && refusal.Stage != StageLimits { // a body at its limit grows by the look
			t.Fatalf("rewritten, it is refused: %v", refusal)
		}
		if refusal == nil && fmt.Sprint(again.types, again.imports, again.exports) != fmt.Sprint(m.types, m.imports, m.exports) {
			t.Error("rewritten, it is another module")
		}
	})
}
