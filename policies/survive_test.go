package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stopTries is how often code may miss its bound: on a busy machine anything may, but a fault of the host does each time. They are
// fewer than open a breaker.
const stopTries = 4

// stopsInTime runs code that never ends, each time beside a loop that never ends, until it stops within twice the time of that, or
// of what the longest stretch between two looks at the deadline takes besides.
func stopsInTime(t *testing.T, name string, loop, code func() Decision, stretch func()) {
	t.Helper()
	var told []string
	for range stopTries {
		began := time.Now()
		stretch()
		between := time.Since(began)
		yardstick := max(loop().Elapsed, TimeoutUsual)
		bound := max(2*yardstick, yardstick+2*between)
		d := code()
		if d.Fault == nil || d.Fault.Kind != FaultTimeout {
			t.Errorf("%s: %+v", name, d)
			return
		}
		told = append(told, fmt.Sprintf("%v of %v", d.Elapsed, bound))
		if d.Elapsed <= bound {
			t.Logf("%s: stopped after %v", name, told)
			return
		}
	}
	t.Errorf("%s: stopped after %v", name, told)
}

// pauses are how often the collector has stopped everything, by how long.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
}

// longestPause is how long the collector has stopped everything at the longest since before, at least.
func longestPause(before *metrics.Float64Histogram) time.Duration {
	now := pauses()
	for at := len(now.Counts) - 1; at >= 0; at-- {
		if now.Counts[at] > before.Counts[at] {
			return time.Duration(now.Buckets[at] * float64(time.Second))
		}
	}
	return 0
}

// collecting runs the collector all the time until stop is called.
func collecting() (stop func()) {
	done := make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	})
	return func() { close(done); w.Wait() }
}

func TestCodeWithoutLoopsStopsAtTheDeadlineAndHoldsUpNoCollector(t *testing.T) {
	// Not parallel: it measures pauses of the whole process.
	h, loops := newHost(t, Config{Engine: Compiler}), newHost(t, Config{Engine: Compiler})
	nop, memory := bytes.Repeat([]byte{0x01}, 100), make([]byte, memoryMax)
	for name, wasm := range map[string][]byte{
		"doubling recursion": moodyLoop(func(w *wasm) []byte { return cat(i64(60), callTo(doubling(w)), drop) }),
		"a tower of calls": moodyLoop(func(w *wasm) []byte {
			f := w.function(funcType{}, nop)
			for range 6 { // 100^6 calls
				f = w.function(funcType{}, bytes.Repeat(callTo(f), 100))
			}
			return callTo(f)
		}),
		"a long leaf called often": moodyLoop(func(w *wasm) []byte {
			divide := cat(localGet(0), localGet(0), []byte{0x80}, localSet(0)) // i64.div_u
			f := w.function(funcType{i64x1, ""}, bytes.Repeat(divide, 9000))
			g := w.function(funcType{}, bytes.Repeat(cat(i64(7), callTo(f)), 10_000))
			return cat(callTo(g), callTo(g), callTo(g), callTo(g))
		}),
		"bulk operations": moodyLoop(func(w *wasm) []byte {
			w.memories = [][]byte{{0, 0x80, 0x02}}
			f := w.function(funcType{}, bytes.Repeat(cat(i32c(0), i32c(7), i32c(16<<20), []byte{0xfc, 0x0b, 0}), 60))
			return bytes.Repeat(callTo(f), 1000)
		}),
	} {
		fillMemory := func() {}
		if name == "bulk operations" {
			fillMemory = func() {
				for range 60 {
					clear(memory)
				}
			}
		}
		put(t, h, name, wasm)
		put(t, loops, name, moody())
		stop := collecting()
		var longest []time.Duration // pauses of each try
		stopsInTime(t, name, func() Decision { return ask(t, loops, &Binding{Policy: name}, askLoop) }, func() Decision {
			before := pauses()
			d := ask(t, h, &Binding{Policy: name}, askLoop)
			longest = append(longest, longestPause(before))
			return d
		}, fillMemory)
		stop()
		if slices.Min(longest) > 100*time.Millisecond*slowness {
			t.Errorf("%s: the collector paused for %v", name, longest)
		}
	}
}

// moodyLoop is a policy that runs code when it is asked for askLoop permits.
func moodyLoop(code func(w *wasm) []byte) []byte {
	return policyOf(func(w *wasm) [][]byte { return [][]byte{when(askLoop, code(w)), i64(1)} })
}

func TestHostFunctionsInARowStopAtTheDeadline(t *testing.T) {
	t.Parallel()
	h, loops := newHost(t, Config{Engine: Compiler}), newHost(t, Config{Engine: Compiler})
	for name, code := range map[string]func(w *wasm) []byte{
		"attrs_all": func(w *wasm) []byte {
			all := w.host("attrs_all")
			return bytes.Repeat(cat(i32c(0), i32c(60_000), callTo(all), drop), 5000)
		},
		"random_get": func(w *wasm) []byte {
			of, _ := served(wasiModule, "random_get")
			random := w.imported(wasiModule, "random_get", of)
			return bytes.Repeat(cat(i32c(0), i32c(60_000), callTo(random), drop), 5000)
		},
	} {
		put(t, h, name, policyOf(func(w *wasm) [][]byte {
			row := code(w)
			f := w.function(funcType{}, row)
			return [][]byte{when(askLoop, bytes.Repeat(callTo(f), 100)), i64(1)}
		}))
		attributes := map[string]string{}
		for i := range 15 {
			attributes[strings.Repeat("k", i+1)] = strings.Repeat("v", AttributeValueMax)
		}
		put(t, loops, name, moody())
		loop := func() Decision { return ask(t, loops, &Binding{Policy: name}, askLoop) }
		stopsInTime(t, name, loop, func() Decision {
			d, err := h.Evaluate(t.Context(), &Binding{Policy: name}, &Request{Requested: askLoop, Limit: 1, Attributes: attributes})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return d
		}, func() {})
	}
}

func TestWASIWorksOffNoLongListsInOneGo(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for name, code := range map[string][]byte{
		"random_get": cat(i32c(0), i32c(16<<20)), "fd_write": cat(i32c(1), i32c(0), i32c(2<<20), i32c(0)),
		"poll_oneoff": cat(i32c(0), i32c(8<<20), i32c(150_000), i32c(0)),
	} {
		put(t, h, name, policyOf(func(w *wasm) [][]byte {
			w.memories = [][]byte{{0, 0x80, 0x02}}
			of, _ := served(wasiModule, name)
			return onAsk(code, callTo(w.imported(wasiModule, name, of)), drop)
		}))
		if d := ask(t, h, &Binding{Policy: name}, askTrap); d.Fault == nil || d.Fault.Kind != FaultBadCall {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestAnEndlessLoopOpensTheBreakerAndLeavesNoGoroutine(t *testing.T) {
	// Not parallel: it counts goroutines.
	before := runtime.NumGoroutine()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	kinds := map[FaultKind]int{}
	began := time.Now()
	for range 100 {
		kinds[ask(t, h, &Binding{Policy: "p"}, askLoop).Fault.Kind]++
	}
	t.Logf("%v in %v", kinds, time.Since(began))
	if kinds[FaultTimeout] < breakerFaults || kinds[FaultTimeout] > breakerFaults+2 || kinds[FaultTimeout]+kinds[FaultBreakerOpen] != 100 {
		t.Errorf("%v", kinds)
	}
	if !h.Metrics()["p"].BreakerOpen {
		t.Error("the breaker is closed")
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // goroutines of the runtime's deadlines end on their own
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

func TestEndlessLoopsAtTheStartAreRefusedAtUpload(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for name, wasm := range map[string][]byte{
		"start": policyOf(func(w *wasm) [][]byte {
			w.start = u(w.function(funcType{}, loopForever))
			return [][]byte{i64(1)}
		}),
		"_initialize": policyOf(func(w *wasm) [][]byte {
			w.export(exportInitialize, kindFunction, w.function(funcType{}, loopForever))
			return [][]byte{i64(1)}
		}),
		"configure": policyOf(func(w *wasm) [][]byte {
			w.export(exportConfigure, kindFunction, w.function(funcType{"", i32x1}, loopForever, i32c(0)))
			return [][]byte{i64(1)}
		}),
	} {
		_, _, err := h.Put(t.Context(), name, bytes.NewReader(wasm), Change{})
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || refusal.Stage != StageInstantiate || !strings.Contains(refusal.Got, "timeout") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.Get(t.Context(), name); !errors.Is(err, ErrUnknownPolicy) {
			t.Errorf("%s: it is there: %v", name, err)
		}
	}
	_, _, err := h.Put(t.Context(), "evaluate", bytes.NewReader(policyOf(func(*wasm) [][]byte { return [][]byte{loopForever, i64(1)} })), Change{})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Stage != StageEvaluate {
		t.Errorf("evaluate: %v", err)
	}
	_, _, err = h.Put(t.Context(), "trap", bytes.NewReader(policyOf(func(*wasm) [][]byte { return [][]byte{unreachable} })), Change{})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Stage != StageEvaluate {
		t.Errorf("trap: %v", err)
	}
}

// bomb is a module of 300 KB in which blocks are nested 100,000 deep in all.
func bomb() []byte {
	return policyOf(func(w *wasm) [][]byte {
		const deep = 20_000
		for range 5 {
			w.function(funcType{}, bytes.Repeat([]byte{0x02, 0x40}, deep), bytes.Repeat([]byte{0x0b}, deep))
		}
		return [][]byte{i64(1)}
	})
}

func TestACompileBombIsRefusedAndHarmsNobody(t *testing.T) {
	// Not parallel: it measures the memory of the whole process.
	h := newHost(t, Config{Engine: Compiler})
	put(t, h, "p", moody())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	refused := make(chan error, 1)
	began := time.Now()
	go func() {
		_, _, err := h.Put(context.WithoutCancel(t.Context()), "bomb", bytes.NewReader(bomb()), Change{})
		refused <- err
	}()
	var calls, slow int
	for {
		select {
		case err := <-refused:
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			t.Logf("%v after %v, with %d calls beside, %d of them over 10 ms", err, took, calls, slow)
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Stage != StageCompile {
				t.Errorf("%v", err)
			}
			if took > compileTimeMax+5*time.Second {
				t.Errorf("refused after %v", took)
			}
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
				t.Errorf("%d bytes more are in use", grown)
			}
			put(t, h, "other", answers(5))
			return
		default:
		}
		asked := time.Now()
		if d := ask(t, h, &Binding{Policy: "p", Timeout: TimeoutMax}, 1); d.Weight != 3 {
			t.Fatalf("%+v", d)
		}
		if calls++; time.Since(asked) > 10*time.Millisecond {
			slow++
		}
		time.Sleep(time.Millisecond) // the child comes last, and has to get on too
	}
}

func TestManyNestedBlocksInOneFunctionAreRefusedOrHarmless(t *testing.T) {
	t.Parallel()
	_, _, refusal := inspect(policyOf(func(w *wasm) [][]byte {
		w.function(funcType{}, bytes.Repeat([]byte{0x02, 0x40}, 100_000), bytes.Repeat([]byte{0x0b}, 100_000))
		return [][]byte{i64(1)}
	}))
	if refusal == nil || refusal.Stage != StageLimits {
		t.Errorf("%v", refusal)
	}
}

func TestMemoryGrowsToItsCapAndNoFurther(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte { // grows by 16 pages and answers how many pages there were, or -1, plus 2
		return [][]byte{when(askGrow, i32c(16), []byte{0x40, 0}, extend, i64(2), []byte{0x7c, 0x0f}), i64(1)}
	}))
	last := int64(0)
	for range 40 {
		d := ask(t, h, &Binding{Policy: "p"}, askGrow)
		if d.Fault != nil || d.Weight > pagesMax {
			t.Fatalf("%+v", d)
		}
		last = max(last, d.Weight)
	}
	m := h.Metrics()["p"]
	if last < 100 || m.Discards[discardMemory] == 0 {
		t.Errorf("grown to %d pages; %v", last, m.Discards)
	}
	put(t, h, "q", policyOf(func(w *wasm) [][]byte {
		return [][]byte{i32c(math.MaxUint32), {0x40, 0}, extend, i64(2), {0x7c}}
	}))
	if d := ask(t, h, &Binding{Policy: "q"}, 1); d.Weight != 1 {
		t.Errorf("a memory of 4 GiB: %+v", d)
	}
}

func TestGoodCallsSucceedBetweenTraps(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	// The breaker is not what is looked at: a pool is asked directly.
	put(t, h, "p", moody())
	v := h.policy("p").acquire()
	defer v.release()
	b := &Binding{Policy: "p"}
	for n := range 1000 {
		if d := v.ask(b, &Request{Requested: askTrap}); d.Fault == nil || d.Fault.Kind != FaultTrap {
			t.Fatalf("%d: %+v", n, d)
		}
		if d := v.ask(b, &Request{Requested: 1}); d.Weight != 3 {
			t.Fatalf("%d: %+v", n, d)
		}
	}
}

// endless gives n bytes without telling their number first.
func endless(n int64) io.Reader {
	return io.LimitReader(io.MultiReader(strings.NewReader(wasmHeader), neverEnding{}), n)
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func TestNineMiBWithoutALengthAreTooLarge(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	_, _, err := h.Put(t.Context(), "p", endless(9<<20), Change{})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Kind() != "too_large" {
		t.Errorf("%v", err)
	}
}

// counting answers -1 to each third call of an instance.
func counting() []byte {
	return policyOf(func(w *wasm) [][]byte {
		w.globals = [][]byte{cat([]byte{typeI64, 1}, i64(0), []byte{0x0b})}
		count := []byte{0x23, 0}
		return [][]byte{
			count, i64(1), {0x7c, 0x24, 0}, // global 0 += 1
			count, i64(3), {0x82, 0x50}, {0x04, 0x40}, i64(-1), {0x0f, 0x0b}, // if count % 3 == 0 return -1
			i64(1),
		}
	})
}

func TestAPolicyThatCountsIsWarnedOfAndStableWhenFresh(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	s := put(t, h, "p", counting())
	if len(s.Report.Warnings) != 1 || s.Report.Warnings[0] != WarningNondeterministic {
		t.Errorf("warnings %v", s.Report.Warnings)
	}
	denied := func(isolation Isolation) (n int) {
		for range 30 {
			if ask(t, h, &Binding{Policy: "p", Isolation: isolation}, 1).Act == ActDeny {
				n++
			}
		}
		return n
	}
	if n := denied(IsolationPooled); n != 10 {
		t.Errorf("pooled: %d of 30 denied", n)
	}
	if n := denied(IsolationFresh); n != 0 {
		t.Errorf("fresh: %d of 30 denied", n)
	}
	if s := put(t, h, "q", answers(1)); len(s.Report.Warnings) != 0 {
		t.Errorf("warnings %v", s.Report.Warnings)
	}
}

func TestUploadsDeletionsAndCallsOfTheSameBytesAtOnce(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	h := newHost(t, Config{Store: store})
	wasm := moody()
	var w sync.WaitGroup
	for n := range 8 {
		w.Go(func() {
			name := string(rune('a' + n%3))
			for range 5 {
				if _, _, err := h.Put(t.Context(), name, bytes.NewReader(wasm), Change{}); err != nil {
					t.Errorf("put: %v", err)
				}
				d, err := h.Evaluate(t.Context(), &Binding{Policy: name}, &Request{Requested: 1, Limit: 1})
				if err != nil && !errors.Is(err, ErrUnavailable) || err == nil && d.Weight != 3 {
					t.Errorf("evaluate: %+v %v", d, err)
				}
				if err := h.Delete(t.Context(), name, 0); err != nil && !errors.Is(err, ErrUnknownPolicy) {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	w.Wait()
	if err := h.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := h.List(t.Context()); len(all) != 0 || err != nil || len(store.Blobs()) != 0 || len(h.Metrics()) != 0 {
		t.Errorf("left over: %v %v %v", all, store.Blobs(), err)
	}
}

func TestManyGoroutinesShareFourSlots(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{Slots: 4})
	put(t, h, "p", policyOf(func(w *wasm) [][]byte {
		get := w.host("attr_get")
		w.datum(0, "n")
		return [][]byte{i32c(0), i32c(1), i32c(64), i32c(8), callTo(get), drop, i32c(64), loadByte, extend}
	}))
	var w sync.WaitGroup
	var mu sync.Mutex
	faults := map[FaultKind]int{}
	for n := range 64 {
		w.Go(func() {
			for i := range 50 {
				letter := string(rune('a' + (n+i)%26))
				b := &Binding{Policy: "p", Isolation: []Isolation{IsolationPooled, IsolationFresh}[i%2], Timeout: TimeoutMax}
				d, err := h.Evaluate(t.Context(), b, &Request{Requested: 1, Limit: 1, Attributes: map[string]string{"n": letter}})
				switch {
				case err != nil:
					t.Error(err)
				case d.Fault != nil:
					mu.Lock()
					faults[d.Fault.Kind]++
					mu.Unlock()
				case d.Weight != int64(letter[0]):
					t.Errorf("asked with %s, answered to %c", letter, rune(d.Weight))
				}
			}
		})
	}
	w.Wait()
	t.Logf("faults %v", faults)
	delete(faults, FaultOverloaded)
	if len(faults) > 0 {
		t.Errorf("%v", faults)
	}
	if busy, idle := h.policy("p").current.Load().pool.count(); busy != 0 || idle > idleMax {
		t.Errorf("%d busy, %d idle", busy, idle)
	}
}
