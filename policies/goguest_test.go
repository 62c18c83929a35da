package policies

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// What testdata/moody is asked for.
const (
	goExit = 3_000_001 + iota
	goBlock
	goSleep
	goLeak
	goPanic
	goLoop
	goRecurse
	goAttributes
)

func TestAGoGuestThatEndsBlocksSleepsOrPanicsIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", goGuest(t, "moody"))
	v := h.policy("p").acquire()
	defer v.release()
	b, patient := &Binding{Policy: "p"}, &Binding{Policy: "p", Timeout: TimeoutMax}
	v.ask(patient, &Request{Requested: 1}) // so that an instance is there: what it takes to make one is not looked at
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := thisThread()
	for n, kinds := range map[int64][]FaultKind{
		goExit: {FaultExit}, goBlock: {FaultTimeout, FaultExit, FaultTrap}, goSleep: {FaultTimeout, FaultExit, FaultTrap}, goPanic: {FaultExit, FaultTrap},
		goLoop: {FaultTimeout}, goRecurse: {FaultTimeout}, goLeak: nil,
	} {
		began := thread.time()
		d := v.ask(b, &Request{Requested: n})
		took := thread.time() - began
		t.Logf("%d: %v after %v of a core, %v by the wall", n, d.Fault, took, d.Elapsed)
		if kinds == nil {
			if d.Fault != nil || d.Weight != 7 {
				t.Errorf("%d: %+v", n, d)
			}
		} else if d.Fault == nil || !strings.Contains(strings.Join(texts(kinds), " "), string(d.Fault.Kind)) {
			t.Errorf("%d: %+v", n, d)
		}
		if took > 2*TimeoutUsual { // what sleeps would not sleep less than an hour: the host lets no time pass
			t.Errorf("%d: it took %v of a core", n, took)
		}
		if d := v.ask(patient, &Request{Requested: 1}); d.Weight != 7 {
			t.Errorf("after %d: %+v", n, d)
		}
	}
}

func texts(kinds []FaultKind) (texts []string) {
	for _, k := range kinds {
		texts = append(texts, string(k))
	}
	return texts
}

func TestTheGoPackageReadsAllAttributes(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", goGuest(t, "moody"))
	r := &Request{Requested: goAttributes, Attributes: map[string]string{"tier": strings.Repeat("x", AttributeValueMax), "b": ""}}
	d, err := h.Evaluate(t.Context(), &Binding{Policy: "p", Timeout: TimeoutMax}, r)
	if err != nil || d.Weight != 6+100*AttributeValueMax {
		t.Errorf("%+v %v", d, err)
	}
}

func TestSwapsOfAGoGuestUnderLoad(t *testing.T) {
	// Not parallel: it measures the memory of the whole process.
	swapUnderLoad(t, 50/slowness)
}

// swapUnderLoad replaces a Go guest so often under the calls of eight.
func swapUnderLoad(t testing.TB, swaps int) {
	h := newHost(t, Config{})
	modules := [][]byte{goGuest(t, "moody"), goGuest(t, "gold")}
	for n := range 2 * len(modules) { // so that all is compiled, and what a process keeps for good is there
		put(t, h, "p", modules[n%2])
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	stop := make(chan struct{})
	var w sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); w.Wait() })
	defer end()
	var mu sync.Mutex
	var calls int
	faults := map[FaultKind]int{}
	for range 8 {
		w.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d, err := h.Evaluate(context.Background(), &Binding{Policy: "p", Timeout: TimeoutMax}, &Request{Requested: 1, Limit: 1, Available: 1})
				mu.Lock()
				calls++
				switch {
				case err != nil:
					t.Errorf("%v", err)
				case d.Fault != nil:
					faults[d.Fault.Kind]++
				case d.Weight != map[bool]int64{true: 7, false: 2}[d.Generation%2 == 1]: // odd generations are moody
					t.Errorf("%+v", d)
				}
				mu.Unlock()
				time.Sleep(time.Millisecond) // the work that the permit is for, so that the swaps get a turn
			}
		})
	}
	began := time.Now()
	for n := range swaps {
		s := put(t, h, "p", modules[n%2])
		if s.HereRev != s.Rev {
			t.Errorf("%+v", s)
		}
	}
	took := time.Since(began)
	end()
	runtime.GC()
	runtime.ReadMemStats(&after)
	m := h.Metrics()["p"]
	t.Logf("%d swaps in %v, %d calls beside, faults %v, heap %d -> %d KiB", swaps, took, calls, faults, before.HeapInuse>>10, after.HeapInuse>>10)
	if m.Runtimes != 1 || m.Swaps < uint64(swaps) {
		t.Errorf("%d runtimes open, %d swaps", m.Runtimes, m.Swaps)
	}
	delete(faults, FaultOverloaded)
	if usualEngine == Interpreter { // under the detector, interpreted: an answer may take longer than the longest deadline there is
		delete(faults, FaultTimeout)
		delete(faults, FaultBreakerOpen)
	}
	if len(faults) > 0 {
		t.Errorf("faults %v", faults)
	}
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("%d KiB more in use", grown>>10)
	}
}
