package engine_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

// faults.md 22: names that were used once leave nothing. (Of what the scripts drop no key is left: redisnode
// TestNothingIsLeftOfWhatWasDropped.)
func TestNamesThatWereUsedOnceLeaveNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		names := oftenIn(t, 2000)
		r1, r2 := s.player(), s.player()
		before := memory()
		for i := range names {
			r := []*player{r1, r2}[i%2]
			useOnce(t, r.Engine, fmt.Sprint("job ", i))
		}
		full := memory()
		time.Sleep(10*time.Minute + 10*time.Duration(names)*2*time.Millisecond) // a sweep rests 2 ms at each name
		left := memory()
		t.Logf("%d names took %d bytes each, and leave %d in all", names, (full-before)/int64(names), left-before)
		if took := full - before; *rounds > 0 && left-before > took/20+1<<20 { // it is alone then; maps keep room for what there was
			t.Errorf("%d bytes more are in use than before; the names took %d", left-before, took)
		}
		for _, r := range []*player{r1, r2} {
			if n := r.Remembered(); n != 0 {
				t.Errorf("a replica still remembers %d names", n)
			}
		}
		for _, server := range s.Servers {
			for _, deleted := range []bool{false, true} {
				if a := s.do(server, &engine.Names{Count: 1000, Deleted: deleted}); len(a.Names) > 0 {
					t.Errorf("%s still has %d names, deleted: %t", server.Name(), len(a.Names), deleted)
				}
			}
		}
	})
}

// memory is how many bytes are in use. Other tests use some, too.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// useOnce creates a semaphore by its first use, and leaves it.
func useOnce(t *testing.T, e *engine.Engine, name string) {
	t.Helper()
	o, err := e.Acquire(t.Context(), name, engine.Ask{Create: &engine.Definition{Limit: 1}})
	if err != nil || o.Refusal != nil {
		t.Fatalf("acquired %s: %+v, %v", name, o, err)
	}
	if _, err := e.Release(t.Context(), name, o.Lease.Capability, 0); err != nil {
		t.Fatal(err)
	}
}

// faults.md 10: 1,000 contended names, then all cancelled: no place, no record and no goroutine is left, and the replicas forget the
// names.
func TestContendedNamesThatAreGivenUpLeaveNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		synctest.Wait()
		goroutines := runtime.NumGoroutine() // of other tests, too, but they are few
		const names, waiters = 1000, 4
		var requests []*engine.Request
		ask := func(r *player, name string) {
			a := &asked{t: t, start: time.Now()}
			requests = append(requests, r.Ask(name, engine.Ask{Wait: time.Hour, Create: &engine.Definition{Limit: 1}}, a))
		}
		for i := range names {
			for n := range waiters {
				ask([]*player{r1, r2}[n%2], fmt.Sprint("job ", i))
			}
		}
		time.Sleep(3 * time.Second)
		for _, r := range requests {
			r.Cancel()
		}
		time.Sleep(time.Second)
		for _, server := range s.Servers {
			for i := range names {
				if page := server.Look(fmt.Sprint("job ", i)); len(page.Leases)+len(page.Places) > 0 {
					t.Fatalf("%s has of a name that nobody wants %+v", server.Name(), page)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		if n := runtime.NumGoroutine(); n > goroutines+names/10 {
			t.Errorf("there are %d goroutines; before there were %d", n, goroutines)
		}
		for _, r := range []*player{r1, r2} {
			if n := r.Remembered(); n != 0 {
				t.Errorf("a replica still remembers %d names", n)
			}
		}
	})
}

// faults.md 9: the nodes that should wake the next are restarted, or cut off, just then: it claims within its recheck interval.
func TestAWakeThatIsLostWithItsNodeCostsHalfASecond(t *testing.T) {
	for what, lose := range map[string]func(*stage, *player){
		"cut off": func(_ *stage, waiting *player) {
			for _, way := range waiting.ways {
				way.Cut()
			}
		},
		"one is restarted, the others are cut off": func(s *stage, waiting *player) {
			s.a.Kill()
			waiting.b.Cut()
			waiting.c.Cut()
		},
	} {
		t.Run(what, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.acquire(engine.Ask{})
				waiter := r2.ask(engine.Ask{Wait: time.Minute})
				time.Sleep(100 * time.Millisecond)
				r2.ways.Hold("wake")
				r1.giveBack(l)
				lose(s, r2)
				r2.ways.Pass("wake")
				time.Sleep(600 * time.Millisecond)
				waiter.mustHold()
			})
		})
	}
}
