package policies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

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

// bomb is a module of 1.5 MB in which blocks are nested 500,000 deep in all: a fifth of it takes some 5 s of work.
func bomb() []byte {
	return policyOf(func(w *wasm) [][]byte {
		const deep = 20_000
		for range 25 {
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
	began, worked := time.Now(), childrenTime()
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
			if worked = childrenTime() - worked; worked > compileWorkMax+time.Second { // the kernel counts whole seconds
				t.Errorf("refused after %v of work", worked)
			}
			if took > compileTimeMax+childWaitMax {
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

func TestAnInstanceDoesNotKeepTheStackOfADeepRecursion(t *testing.T) {
	// Not parallel: it measures the memory of the whole process.
	h := newHost(t, Config{Engine: Compiler})
	put(t, h, "p", moodyLoop(func(w *wasm) []byte { return deep(w, 300_000, nil, nil) }))
	v := h.policy("p").acquire()
	defer v.release()
	memory := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := memory()
	for n := range 3 {
		if d := v.ask(&Binding{Policy: "p", Timeout: time.Minute}, &Request{Requested: askLoop}); d.Fault != nil || d.Weight != 1 {
			t.Fatalf("%d: %+v", n, d)
		}
		if grown := memory() - before; grown > 8<<20 {
			t.Errorf("%d bytes more are in use after a recursion that takes 20 MB", grown)
		}
	}
	if _, idle := v.pool.count(); idle != 1 {
		t.Errorf("%d instances are idle", idle)
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
