package engine_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
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
		for i := range names {
			s.nothingOf(fmt.Sprint("job ", i))
		}
	})
}

// Two replicas sweep at once: the one is about to write that a name is deleted when the other has taken it off the nodes. Its promise would be
// left there, where nobody lists it.
func TestTwoSweepsAtOnceLeaveNothing(t *testing.T) {
	for _, late := range []struct {
		name string
		hold string // what of the second does not get through while the first sweeps, and where
		at   []int
	}{
		{"its promise is made on what is blank", "prepare", []int{0, 1, 2}},
		{"its promise is made on one node before and on two behind", "prepare", []int{1, 2}},
		{"its promise is made on two nodes before and on one behind", "prepare", []int{2}},
		{"its tombstone comes late to one", "accept", []int{2}},
		{"its tombstone comes late to two", "accept", []int{1, 2}},
	} {
		t.Run(late.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				const name = "job"
				useOnce(t, r1.Engine, name)
				r1.ways.Hold("peek") // the sweeps that come by themselves
				r2.ways.Hold("peek")
				time.Sleep(6 * time.Minute)
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				time.Sleep(time.Second)

				for _, i := range late.at {
					r2.ways[i].Hold(late.hold)
				}
				swept := make(chan struct{})
				go func() { defer close(swept); r2.SweepNow(t.Context()) }()
				synctest.Wait()
				r1.SweepNow(t.Context())
				r2.ways.Pass(enginetest.Any)
				<-swept
				time.Sleep(10 * time.Minute)
				s.nothingOf(name)
			})
		})
	}
}

// Of two sweeps at once the one is promised the larger ballot after the other was told that its tombstone is accepted by a majority: the node
// that has not heard of it takes it no more.
func TestATombstoneThatALaterPromiseKeepsOutIsWrittenAnew(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} { // of one of them the second has the larger name
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				both := []*player{s.player(), s.player()}
				if both[0].Replica() > both[1].Replica() {
					both[0], both[1] = both[1], both[0]
				}
				first, second := both[order[0]], both[order[1]]
				const name = "job"
				useOnce(t, first.Engine, name)
				for _, r := range both {
					r.ways.Hold("peek") // the sweeps that come by themselves
				}
				time.Sleep(6 * time.Minute)
				for _, r := range both {
					r.ways.Pass(enginetest.Any)
				}
				time.Sleep(time.Second)

				var swept sync.WaitGroup
				second.ways.Hold("prepare")
				swept.Go(func() { second.SweepNow(t.Context()) })
				synctest.Wait()
				first.c.Hold("accept")
				swept.Go(func() { first.SweepNow(t.Context()) })
				synctest.Wait()
				second.ways.Pass(enginetest.Any)
				synctest.Wait()
				first.ways.Pass(enginetest.Any)
				swept.Wait()
				time.Sleep(10 * time.Minute)
				s.nothingOf(name)
			})
		})
	}
}

// nothingOf fails the test unless the nodes have nothing of a name, neither a definition nor a promise.
func (s *stage) nothingOf(name string) {
	s.t.Helper()
	for _, server := range s.Servers {
		smallest := engine.Ballot{Counter: 1, Replica: "test"} // a node that has promised or accepted anything refuses it
		if a := s.do(server, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: name, Ballot: smallest}); a.Says != engine.SaysPromised {
			s.t.Errorf("%s still has something: it says %s, promised %v", server.Name(), a.Says, a.Promise)
		}
	}
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
