package policies

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// onAsk runs code if askTrap permits are requested, and answers 1 otherwise.
func onAsk(code ...[]byte) [][]byte { return [][]byte{when(askTrap, code...), i64(1)} }

func TestPointersAndLengthsBeyondMemoryAreFaults(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	far := []struct{ pointer, length int64 }{
		{math.MaxUint32, 1},
		{math.MaxUint32, math.MaxUint32},
		{0, math.MaxUint32},
		{pageSize, 1},
		{pageSize - 1, 2},
		{0, pageSize + 1},
		{1 << 31, 1 << 31},
	}
	for _, f := range far {
		p, l := i32c(f.pointer), i32c(f.length)
		for name, args := range map[string][]byte{
			"attr_get key": cat(p, l, i32c(0), i32c(0)), "attr_get buffer": cat(i32c(0), i32c(1), p, l),
			"attrs_all": cat(p, l), "config_get": cat(p, l), "set_reason": cat(p, l), "log": cat(i32c(0), p, l),
		} {
			put(t, h, "p", policyOf(func(w *wasm) [][]byte {
				function, _, _ := strings.Cut(name, " ")
				call := callTo(w.host(function))
				if of, _ := served(hostModule, function); of.results != "" {
					call = cat(call, drop)
				}
				return onAsk(args, call)
			}))
			if d := ask(t, h, &Binding{Policy: "p"}, askTrap); d.Fault == nil || d.Fault.Kind != FaultBadPointer {
				t.Errorf("%s (%d, %d): %+v", name, f.pointer, f.length, d)
			}
		}
	}
}

func TestAnEmptyTextMayPointAnywhereInMemory(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte {
		return [][]byte{i32c(pageSize), i32c(0), callTo(w.host("set_reason")), i64(1)}
	}))
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Fault != nil {
		t.Errorf("%+v", d)
	}
}

// attributePolicy answers what attr_get says of the key, plus 10, and the first byte of the buffer times 1000.
func attributePolicy(key string, capacity int64) []byte {
	return policyOf(func(w *wasm) [][]byte {
		w.datum(0, key)
		get := w.host("attr_get")
		return [][]byte{
			i32c(0), i32c(int64(len(key))), i32c(1024), i32c(capacity), callTo(get), extend, i64(10),
			{0x7c},
			i32c(1024), loadByte, extend, i64(1000),
			{0x7e},
			{0x7c},
		}
	})
}

func TestAttributesAreCopiedOnlyIfTheyFit(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	r := &Request{
		Semaphore: "db", Client: "ci", Holder: "anna", ID: "r-1", Requested: 1, Limit: 1,
		Attributes: map[string]string{"tier": "gold", "empty": ""},
	}
	for _, c := range []struct {
		key      string
		capacity int64
		want     int64
	}{
		{"tier", 4, 14 + 1000*'g'},
		{"tier", 3, 14},
		{"tier", 0, 14},
		{"empty", 8, 10},
		{"none", 8, 9},
		{"permitd.semaphore", 8, 12 + 1000*'d'},
		{"permitd.client", 8, 12 + 1000*'c'},
		{"permitd.holder", 8, 14 + 1000*'a'},
		{"permitd.request_id", 8, 13 + 1000*'r'},
		{"permitd.other", 8, 9},
		{strings.Repeat("k", 200), 8, 9},
	} {
		put(t, h, "p", attributePolicy(c.key, c.capacity))
		d, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, r)
		if err != nil || d.Weight != c.want {
			t.Errorf("%.20s with room for %d: weight %d, want %d (%v)", c.key, c.capacity, d.Weight, c.want, err)
		}
	}
}

func TestAllAttributesComeSortedByKey(t *testing.T) {
	t.Parallel()
	c := &call{request: &Request{Semaphore: "db", Client: "c", Attributes: map[string]string{"zone": "eu", "a": ""}}}
	encoded := c.appendAttributes(nil)
	if len(encoded) != c.attributesSize() {
		t.Errorf("%d bytes where %d were announced", len(encoded), c.attributesSize())
	}
	var got []string
	for len(encoded) > 0 {
		key, value := binary.LittleEndian.Uint16(encoded), binary.LittleEndian.Uint16(encoded[2:])
		encoded = encoded[4:]
		got = append(got, string(encoded[:key])+"="+string(encoded[key:key+value]))
		encoded = encoded[key+value:]
	}
	if want := "[a= permitd.client=c permitd.holder= permitd.request_id= permitd.semaphore=db zone=eu]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAttrsAllTellsTheLengthAndCopiesOnlyIfItFits(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for capacity, first := range map[int64]int64{0: 0, 10: 0, 4096: 1} {
		put(t, h, "p", policyOf(func(w *wasm) [][]byte {
			all := w.host("attrs_all")
			return [][]byte{
				i32c(1024), i32c(capacity), callTo(all), extend, i32c(1024), loadByte, extend, i64(1000), {0x7e}, {0x7c},
			}
		}))
		r := &Request{Requested: 1, Limit: 1, Attributes: map[string]string{"a": "x"}}
		size := int64((&call{request: r}).attributesSize())
		d, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, r)
		if err != nil || d.Weight != size+1000*first {
			t.Errorf("with room for %d: %d, want %d (%v)", capacity, d.Weight, size+1000*first, err)
		}
	}
}

func TestPriorityAndTTLAreClamped(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for _, c := range []struct {
		priority, ttl int64
		wantPriority  int
		wantTTL       time.Duration
	}{
		{5, 30_000, 5, 30 * time.Second},
		{101, math.MaxInt64, 100, time.Minute},
		{-101, 1, -100, 2 * time.Second},
		{math.MaxInt32, -1, 100, 2 * time.Second},
		{math.MinInt32, math.MinInt64, -100, 2 * time.Second},
		{0, 0, 0, 0},
	} {
		put(t, h, "p", policyOf(func(w *wasm) [][]byte {
			priority, ttl := w.host("set_priority"), w.host("set_ttl_ms")
			return [][]byte{i32c(c.priority), callTo(priority), i64(c.ttl), callTo(ttl), i64(1)}
		}))
		d, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, &Request{Requested: 1, Limit: 1, TTLMin: 2 * time.Second, TTLMax: time.Minute})
		if err != nil || !d.HasPriority || d.Priority != c.wantPriority || d.TTL != c.wantTTL {
			t.Errorf("%d, %d: %+v %v", c.priority, c.ttl, d, err)
		}
	}
}

func TestReasonAndLogAreBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte {
		reason, log := w.host("set_reason"), w.host("log")
		w.datum(0, strings.Repeat("ä\x1b[2J\n", 500))
		code := [][]byte{i32c(0), i32c(3000), callTo(reason)}
		for level := range int64(12) {
			code = append(code, i32c(level), i32c(0), i32c(3000), callTo(log))
		}
		return append(code, i64(-1))
	}))
	d := ask(t, h, &Binding{Policy: "p"}, 1)
	if d.Act != ActDeny || len(d.Reason) > ReasonMax || len(d.Reason) < ReasonMax-4 || !clean(d.Reason) {
		t.Errorf("reason %q", d.Reason)
	}
	if len(d.Logs) != LogLinesMax {
		t.Errorf("%d lines", len(d.Logs))
	}
	for level, line := range d.Logs {
		if line.Level != int32(level) || len(line.Text) > LogLineMax || !clean(line.Text) {
			t.Errorf("%+v", line)
		}
	}
}

// clean tells whether text may be shown.
func clean(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}

func TestBoundedTextIsValidAndKeepsWhatItCan(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"exactly ten":                "exactly te",
		"tab\tand\n":                 "tab and ",
		"\xff\xfe":                   "\ufffd\ufffd",
		"grün":                       "grün",
		"ääääää":                     "äääää",
		"12345678€":                  "12345678",
		"1234567€":                   "1234567€",
		"a\u202eb\u2028c\u0085":      "a b c ",
		strings.Repeat("\u2028", 20): strings.Repeat(" ", 10),
	} {
		if got := bounded([]byte(in), 10); got != want || !clean(got) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzBounded(f *testing.F) {
	f.Add([]byte("ä\x1b\u202e"), 5)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = limit & 0xfff
		if got := bounded(text, limit); len(got) > limit || !clean(got) {
			t.Errorf("%q", got)
		}
	})
}

func TestNowIsFixedForACall(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte { return [][]byte{callTo(w.host("now_ms"))} }))
	at := time.UnixMilli(1_764_517_261_123)
	d, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, &Request{Requested: 1, Limit: 1, Now: at})
	if err != nil || d.Weight != at.UnixMilli() {
		t.Errorf("%+v %v", d, err)
	}
	before := time.Now().UnixMilli()
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight < before || d.Weight > time.Now().UnixMilli() {
		t.Errorf("%d is not now", d.Weight)
	}
}

func TestAFaultDropsWhatTheModuleSet(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte {
		w.datum(0, "because")
		reason, priority, ttl := w.host("set_reason"), w.host("set_priority"), w.host("set_ttl_ms")
		return append([][]byte{
			i32c(0), i32c(7), callTo(reason), i32c(9), callTo(priority), i64(5000), callTo(ttl),
		}, onAsk(unreachable)...)
	}))
	for onFault, want := range map[OnFault]Decision{
		"": {Act: ActDeny}, OnFaultDeny: {Act: ActDeny}, OnFaultUnavailable: {Act: ActUnavailable},
		OnFaultAllowRequested: {Act: ActAllow, Weight: askTrap},
	} {
		d := ask(t, h, &Binding{Policy: "p", OnFault: onFault}, askTrap)
		if d.Reason != "" || d.HasPriority || d.TTL != 0 || d.Act != want.Act || d.Weight != want.Weight || d.Fault.Kind != FaultTrap {
			t.Errorf("%q: %+v", onFault, d)
		}
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Reason != "because" || d.Priority != 9 || d.TTL != 5*time.Second {
		t.Errorf("without a fault: %+v", d)
	}
}

func TestImportsOutOfTurnAreFaults(t *testing.T) {
	t.Parallel()
	arguments := map[string][]byte{
		"attr_get": cat(i32c(0), i32c(0), i32c(0), i32c(0)), "attrs_all": cat(i32c(0), i32c(0)), "config_get": cat(i32c(0), i32c(0)),
		"set_reason": cat(i32c(0), i32c(0)), "set_priority": i32c(0), "set_ttl_ms": i64(0), "log": cat(i32c(0), i32c(0), i32c(0)), "now_ms": nil,
	}
	for _, f := range hostFunctions {
		for _, when := range []string{exportInitialize, exportConfigure} {
			w := &wasm{memories: [][]byte{{0, 1}}}
			call := cat(arguments[f.name], callTo(w.host(f.name)))
			if f.of.results != "" {
				call = cat(call, drop)
			}
			of := funcType{}
			if when == exportConfigure {
				of = funcType{"", i32x1}
				call = cat(call, i32c(0))
			}
			w.export(when, kindFunction, w.function(of, call))
			w.finish(w.function(evaluateType, i64(1)))
			_, err := Load(t.Context(), Interpreter, strings.NewReader(string(w.bytes())))
			refusal, refused := errors.AsType[*Refusal](err)
			legal := when == exportConfigure && f.from == configuring
			if refused == legal || refused && (refusal.Stage != StageInstantiate || !strings.Contains(refusal.Got, "bad_call: "+f.name)) {
				t.Errorf("%s in %s: %v", f.name, when, err)
			}
		}
	}
}

func TestConfigureSeesTheConfigurationAndMayRefuseIt(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	w := &wasm{memories: [][]byte{{0, 1}}}
	get := w.host("config_get")
	w.export(exportConfigure, kindFunction, w.function(funcType{"", i32x1}, i32c(0), i32c(64), callTo(get), i32c(4), []byte{0x47})) // != 4
	w.finish(w.function(evaluateType, i32c(0), loadByte, extend))
	s := put(t, h, "p", w.bytes())
	if fmt.Sprint(s.Report.Warnings) != "["+WarningConfiguration+"]" {
		t.Errorf("warnings %v", s.Report.Warnings)
	}
	if d := ask(t, h, &Binding{Policy: "p", Config: "1234"}, 1); d.Weight != '1' {
		t.Errorf("%+v", d)
	}
	if d := ask(t, h, &Binding{Policy: "p", Config: "5678"}, 1); d.Weight != '5' {
		t.Errorf("another configuration has instances of its own: %+v", d)
	}
	if d := ask(t, h, &Binding{Policy: "p", Config: "x"}, 1); d.Fault == nil || d.Fault.Kind != FaultBadResult {
		t.Errorf("%+v", d)
	}
	if err := h.CheckBinding(t.Context(), Binding{Policy: "p", Config: "1234"}); err != nil {
		t.Error(err)
	}
	if _, wrong := errors.AsType[*BindingError](h.CheckBinding(t.Context(), Binding{Policy: "p", Config: "x"})); !wrong {
		t.Error("a configuration that the module refuses was taken")
	}
}

func TestAbortTellsItsMessage(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte {
		abort := w.imported(abortModule, "abort", abortFunction.of)
		w.datum(0, "\x08\x00\x00\x00"+"o\x00h\x00 \x00\n\x00")
		return onAsk(i32c(4), i32c(0), i32c(0), i32c(0), callTo(abort))
	}))
	d := ask(t, h, &Binding{Policy: "p"}, askTrap)
	if d.Fault == nil || *d.Fault != (Fault{FaultTrap, "abort: oh  "}) {
		t.Errorf("%+v", d.Fault)
	}
}

func TestNoFaultCarriesAStack(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	for _, n := range []int64{askTrap, askLoop, askBadResult, askRecurse} {
		d := ask(t, h, &Binding{Policy: "p"}, n)
		if strings.Contains(d.Fault.Error(), "stack") || strings.Contains(d.Fault.Error(), ".go:") || !clean(d.Fault.Error()) {
			t.Errorf("%q", d.Fault.Error())
		}
	}
}

func TestAttributesOfAClientAreHeldToLimits(t *testing.T) {
	t.Parallel()
	many, heavy := map[string]string{}, map[string]string{}
	for i := range AttributesMax + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for i := range 17 {
		heavy[fmt.Sprint(i)] = strings.Repeat("x", AttributeValueMax)
	}
	for name, wrong := range map[string]map[string]string{
		"too many": many, "too heavy": heavy, "an empty key": {"": "x"}, "a reserved key": {"permitd.client": "root"},
		"a long key": {strings.Repeat("k", AttributeKeyMax+1): ""}, "a long value": {"k": strings.Repeat("x", AttributeValueMax+1)},
		"not UTF-8": {"k": "\xff"},
	} {
		if _, is := errors.AsType[*AttributeError](CheckAttributes(wrong)); !is {
			t.Errorf("%s: taken", name)
		}
	}
	right := maps.Clone(many)
	delete(right, "0")
	right["1"] = strings.Repeat("x", AttributeValueMax)
	if err := CheckAttributes(right); err != nil {
		t.Error(err)
	}
}
