package policies

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
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
		{"nothing", nil, StageHeader, "nothing"},
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
		{"bytes 0xfc", raw(oneType, oneFunction, body(cat([]byte{0}, bytes.Repeat([]byte{0xfc, 0x00}, 513), []byte{0x0b}))), StageLimits, "513 bytes"},
		{"a table of 2^27", raw(sec(sectionTable, cat([]byte{1, 0x70, 0}, u(1<<27)))), StageMemory, "134217728 elements"},
		{"two tables", raw(sec(sectionTable, []byte{2, 0x70, 0, 1, 0x70, 0, 1})), StageLimits, "2 tables"},
		{"a table of references", raw(sec(sectionTable, []byte{1, 0x6f, 0, 1})), StageSections, "0x6f"},
		{"a memory of 17 MiB", raw(sec(sectionMemory, cat([]byte{1, 0}, u(257)))), StageMemory, "257 pages"},
		{"a shared memory", raw(sec(sectionMemory, []byte{1, 3, 1, 1})), StageSections, "flags 0x3"},
		{"calls that grow beyond what is compiled", with(func(w *wasm) {
			evaluate(w)
			for range 30 {
				w.function(funcType{}, bytes.Repeat(callTo(0), 32_000))
			}
		}), StageLimits, "more than 16777216 bytes of code"},
		{"a global behind the last, where the rewriting has its own", with(func(w *wasm) { evaluate(w); w.function(funcType{}, i32c(1), []byte{opGlobalSet, 0}) }), StageSections, "global 0"},
		{"an export of that global", with(func(w *wasm) { evaluate(w); w.export("g", kindGlobal, 0) }), StageSections, "global 0"},
		{"an instruction about references", with(func(w *wasm) { evaluate(w); w.function(funcType{}, []byte{0xd2, 0}, drop) }), StageSections, "0xd2"},
		{"an operation on tables of references", with(func(w *wasm) { evaluate(w); w.function(funcType{}, []byte{0xfc, 0x10, 0}, drop) }), StageSections, "0xfc"},
		{"an instruction that goes on behind its body", with(func(w *wasm) { evaluate(w); w.function(funcType{}, []byte{0x44}) }), StageSections, "1 bytes"},
		{"an index of memory in two bytes", with(func(w *wasm) { evaluate(w); w.function(funcType{}, []byte{0xfc, 0x0b, 0x80, 0}) }), StageSections, "memory 128"},
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
			if refusal.Stage != c.stage || !strings.Contains(refusal.Got, c.got) || refusal.Got == "" || refusal.Want == "" {
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

func TestCodeLooksAtTheDeadlineWhereItMayRunLong(t *testing.T) {
	t.Parallel()
	w := &rewriting{module: &module{globals: 3}, theirs: 2, tick: []byte("TICK")}
	const T = "TICK"
	L := string(look[:])
	fill, longCall := "\xfc\x0b\x00", "\x10\x82\x80\x00"
	for _, c := range []struct{ name, code, want string }{
		{"a constant", "\x41\x01\x1a", "\x41\x01\x1a"},
		{"a call", "\x10\x02\x01", T + "\x10\x02" + T + "\x01"},
		{"a call with a long number", longCall, T + longCall + T},
		{"a call of the host", "\x10\x01\x01", T + "\x10\x01\x01"},
		{"an indirect call", "\x11\x00\x00", T + "\x11\x00\x00" + T},
		{"a fill", "\x01" + fill + fill, "\x01" + L + fill + L + fill},
		{
			"a copy, an init and those of tables", "\xfc\x0a\x00\x00\xfc\x08\x07\x00\xfc\x0c\x00\x00\xfc\x8e\x00\x00\x00",
			L + "\xfc\x0a\x00\x00" + L + "\xfc\x08\x07\x00" + L + "\xfc\x0c\x00\x00" + L + "\xfc\x8e\x00\x00\x00",
		},
		{"a dropped segment", "\xfc\x09\x00\xfc\x0d\x00", "\xfc\x09\x00\xfc\x0d\x00"},
		{"constants that look like calls", "\x42\x10\x41\x11\x44\xfc\x0b\x00\xfc\x0b\x00\xfc\x0b", T + "\x42\x10\x41\x11\x44\xfc\x0b\x00\xfc\x0b\x00\xfc\x0b"},
		{"a vector that looks like calls", "\xfd\x0c" + strings.Repeat("\x10", 16), T + "\xfd\x0c" + strings.Repeat("\x10", 16)},
		{"a call behind a vector", "\xfd\x80\x01\x10\x02", T + "\xfd\x80\x01\x10\x02" + T},
		{"a call that a vector hides from whoever reads its number to the end", "\xfd\x80\x10\x02", T + "\xfd\x80\x10\x02" + T},
	} {
		r := &reader{bytes: []byte(c.code)}
		if got := string(w.body(nil, r)); got != c.want || !r.ok() {
			t.Errorf("%s: %x, want %x; %v", c.name, got, c.want, r.refusal)
		}
	}
}

func TestTicksCountInAGlobalBehindThoseOfTheModule(t *testing.T) {
	t.Parallel()
	mine := cat([]byte{typeI64, 1}, i64(5), []byte{0x0b})
	for _, globals := range [][][]byte{nil, {mine}, slices.Repeat([][]byte{mine}, 200)} {
		wasm := policyOf(func(w *wasm) [][]byte {
			w.globals = globals
			return [][]byte{callTo(w.function(funcType{}, nil)), i64(7)}
		})
		_, rewritten, refusal := inspect(wasm)
		if refusal != nil {
			t.Fatal(refusal)
		}
		m, refusal := scan(rewritten)
		if refusal != nil || int(m.globals) != len(globals)+1 || bytes.Count(rewritten, tick(uint32(len(globals)))) != 2 {
			t.Errorf("%d globals became %d, with %d ticks; %v", len(globals), m.globals, bytes.Count(rewritten, tick(uint32(len(globals)))), refusal)
		}
		h := newHost(t, Config{})
		put(t, h, "p", wasm)
		if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 7 {
			t.Errorf("%+v", d)
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
		if len(rewritten) > 15*len(wasm)+len(m.bodies)*(len(tick(m.globals))+5)+100 {
			t.Errorf("%d bytes became %d", len(wasm), len(rewritten))
		}
		again, _, refusal := inspect(rewritten)
		if refusal != nil && refusal.Stage != StageLimits { // a body at its limit grows by the looks
			t.Fatalf("rewritten, it is refused: %v", refusal)
		}
		if refusal == nil && fmt.Sprint(again.types, again.imports, again.exports) != fmt.Sprint(m.types, m.imports, m.exports) {
			t.Error("rewritten, it is another module")
		}
	})
}

// FuzzRewrite looks whether the compiler and we read instructions alike: it takes what is rewritten exactly if it takes what was uploaded.
func FuzzRewrite(f *testing.F) {
	for _, code := range []string{
		"\x00", "\x10\x00\x41\x80\x10\x1a", "\x41\x00\x41\x00\x41\x00\xfc\x0b\x00\x10\x01", "\x41\x00\x11\x00\x00", "\x41\x00\xfd\x0f\xfd\x80\x01\x1a\x10\x01",
		"\x02\x40\x41\x00\x0e\x01\x00\x00\x0b\x10\x01", "\x41\x00\xfd\x00\x04\x80\x08\x1a\x10\x01", "\x00\xfd\x54\x00\x00\x01\x10\x01", "\x44\x10\x10\x10\x10\x10\x10\x10\x10\x1a",
	} {
		f.Add([]byte(code))
	}
	ctx := context.Background()
	compiler := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(Compiler, nil))
	f.Cleanup(func() { _ = compiler.Close(ctx) })
	takes := func(wasm []byte) error {
		compiled, err := compiler.CompileModule(ctx, wasm)
		if err == nil {
			err = compiled.Close(ctx)
		}
		return err
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		wasm := policyOf(func(w *wasm) [][]byte {
			w.tables = [][]byte{{0x70, 0, 1}}
			w.host("log")
			w.function(funcType{}, code)
			return [][]byte{i64(1)}
		})
		_, rewritten, refusal := inspect(wasm)
		if refusal != nil && refusal.Stage == StageLimits {
			return // nobody decodes by its counts
		}
		before := takes(wasm)
		if before == nil && refusal != nil {
			t.Errorf("the compiler takes %x, we do not: %v", code, refusal)
		}
		if refusal != nil {
			return
		}
		if after := takes(rewritten); (before == nil) != (after == nil) {
			t.Errorf("%x: %v, rewritten: %v", code, before, after)
		}
	})
}
