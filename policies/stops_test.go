package policies

import (
	"bytes"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
)

// pauseMax is how long a module may hold up the garbage collector, and with it the whole process.
const pauseMax = 100 * time.Millisecond

// stopsInTime runs code that never ends. What it is held to is the time that its thread has a core: that is what the host answers for, on
// whatever machine, while by the wall a thread that waits for a core is not stopped either.
func stopsInTime(t *testing.T, name string, code func() Decision) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := thisThread()
	stop := collecting(thread)
	began := thread.time()
	d := code()
	took := thread.time() - began
	held := stop()
	t.Logf("%s: stopped after %v of a core, %v by the wall; it held up the collector for %v", name, took, d.Elapsed, held)
	if d.Fault == nil || d.Fault.Kind != FaultTimeout {
		t.Errorf("%s: %+v", name, d)
	}
	if took > 2*TimeoutUsual {
		t.Errorf("%s: stopped after %v of a core", name, took)
	}
	if held > pauseMax {
		t.Errorf("%s: it held up the collector for %v", name, held)
	}
}

// collecting runs the collector all the time until stop is called. That returns how long a thread went on at the longest while
// everything was to stop: not more than its own time during the collection, nor than the pause, either of which a busy machine may stretch.
func collecting(beside thread) (stop func() time.Duration) {
	done := make(chan struct{})
	var longest time.Duration
	var w sync.WaitGroup
	w.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			before, began := pauses().Counts, beside.time()
			runtime.GC()
			longest = max(longest, min(beside.time()-began, longestPause(before)))
		}
	})
	return func() time.Duration {
		close(done)
		w.Wait()
		return longest
	}
}

// pauses are how often the collector has stopped everything, by how long.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longestPause is how long the collector has stopped everything at the longest since before, at least.
func longestPause(before []uint64) time.Duration {
	now := pauses()
	for at := len(now.Counts) - 1; at >= 0; at-- {
		if now.Counts[at] > before[at] {
			return time.Duration(now.Buckets[at] * float64(time.Second))
		}
	}
	return 0
}

// bulk are 500 operations on whole stretches of memory in a row.
func bulk(w *wasm, operation ...[]byte) []byte {
	w.memories = [][]byte{{0, 0x80, 0x02}}
	return bytes.Repeat(cat(operation...), 500)
}

// deep calls itself n deep, and works before each call, on the way down, and behind it, on the way back.
func deep(w *wasm, n int64, down, back []byte) []byte {
	self := len(w.imports) + len(w.functions)
	w.function(funcType{i64x1, ""},
		localGet(0), []byte{0x50, 0x04, 0x40, 0x0f, 0x0b}, // if n == 0 return
		down, localGet(0), i64(1), []byte{0x7d}, callTo(self), back)
	return cat(i64(n), callTo(self))
}

func TestCodeWithoutLoopsStopsAtTheDeadlineAndHoldsUpNoCollector(t *testing.T) {
	// Not parallel: it measures pauses of the whole process.
	h := newHost(t, Config{Engine: Compiler})
	nop := bytes.Repeat([]byte{0x01}, 100)
	divide := bytes.Repeat(cat(localGet(0), localGet(0), []byte{0x80}, localSet(0)), 9000) // i64.div_u
	stores := bytes.Repeat(cat(i32c(0), i32c(0), []byte{0x36, 2, 0}), 9000)
	fill := cat(i32c(0), i32c(7), i32c(16<<20), []byte{0xfc, 0x0b, 0})
	move := cat(i32c(1), i32c(0), i32c(16<<20-1), []byte{0xfc, 0x0a, 0, 0})
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
			f := w.function(funcType{i64x1, ""}, divide)
			g := w.function(funcType{}, bytes.Repeat(cat(i64(7), callTo(f)), 1000))
			return bytes.Repeat(callTo(g), 100)
		}),
		"fills":                  moodyLoop(func(w *wasm) []byte { return bytes.Repeat(callTo(w.function(funcType{}, bulk(w, fill))), 1000) }),
		"moves":                  moodyLoop(func(w *wasm) []byte { return bytes.Repeat(callTo(w.function(funcType{}, bulk(w, move))), 1000) }),
		"moves on the way back":  moodyLoop(func(w *wasm) []byte { return deep(w, 1000, nil, bulk(w, move)) }),
		"stores on the way down": moodyLoop(func(w *wasm) []byte { return deep(w, 200_000, stores, nil) }),
		"stores on the way back": moodyLoop(func(w *wasm) []byte { return deep(w, 200_000, nil, stores) }),
	} {
		put(t, h, name, wasm)
		stopsInTime(t, name, func() Decision { return ask(t, h, &Binding{Policy: name}, askLoop) })
	}
}

// moodyLoop is a policy that runs code when it is asked for askLoop permits.
func moodyLoop(code func(w *wasm) []byte) []byte {
	return policyOf(func(w *wasm) [][]byte { return [][]byte{when(askLoop, code(w)), i64(1)} })
}

func TestHostFunctionsInARowStopAtTheDeadline(t *testing.T) {
	// Not parallel: it measures pauses of the whole process.
	h := newHost(t, Config{Engine: Compiler})
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
		stopsInTime(t, name, func() Decision {
			d, err := h.Evaluate(t.Context(), &Binding{Policy: name}, &Request{Requested: askLoop, Limit: 1, Attributes: attributes})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return d
		})
	}
}

// Where code answers at the moment at which its deadline passes, its answer counts; but whoever had its instance next would be stopped in
// its place, and the deadline would pass twice.
func TestAnInstanceWhoseDeadlineHasPassedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", answers(3))
	v := h.policy("p").acquire()
	defer v.release()
	i, err := v.pool.take("", false)
	if err != nil {
		t.Fatal(err)
	}
	fired, goOn := make(chan struct{}), make(chan struct{})
	i.call.deadline = &deadline{done: make(chan struct{}), timer: time.AfterFunc(0, func() { close(fired); <-goOn })}
	<-fired // but what it does has not got to be done
	if i.call.stop() || i.call.Err() == nil || i.spent(time.Now()) != discardClosed {
		t.Errorf("it is not over: %v, %q", i.call.Err(), i.spent(time.Now()))
	}
	close(goOn)
	v.pool.put(i)
	if _, idle := v.pool.count(); idle != 0 || h.Metrics()["p"].Discards[discardClosed] != 1 {
		t.Errorf("%d are idle, %v", idle, h.Metrics()["p"].Discards)
	}
	for n := range 200 {
		d := v.ask(&Binding{Policy: "p", Timeout: time.Nanosecond}, &Request{Requested: 1})
		if d.Fault != nil && d.Fault.Kind != FaultTimeout || d.Fault == nil && d.Weight != 3 {
			t.Fatalf("%d: %+v", n, d)
		}
		if d := v.ask(&Binding{Policy: "p", Timeout: TimeoutMax}, &Request{Requested: 1}); d.Fault != nil || d.Weight != 3 {
			t.Fatalf("%d, behind it: %+v", n, d)
		}
	}
}
