package engine_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

func TestAllThatIsFreeIsTaken(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 10})
		held := r2.acquire(engine.Ask{Permits: 3})
		l := r1.acquire(engine.Ask{AllFree: true, Key: "k"})
		if l.Weight != 7 || l.Requested != 7 || l.Slots.Len() != 7 {
			t.Errorf("granted %+v", l)
		}
		for _, r := range []*player{r1, r2} {
			if refusal := r.ask(engine.Ask{AllFree: true}).mustBeRefused(); refusal.InUse != 10 || refusal.Limit != 10 || refusal.Ticket != "" {
				t.Errorf("nothing is free: %+v", refusal)
			}
		}
		if again := r2.acquire(engine.Ask{AllFree: true, Key: "k"}); again.ID != l.ID || !again.Replayed || again.Weight != 7 {
			t.Errorf("asked again: %+v", again)
		}
		r1.ask(engine.Ask{Permits: 1, Key: "k"}).mustFail(engine.ErrKeyReused)
		r1.release(l, 0)
		r1.release(held, 0)
		waiter := r2.ask(engine.Ask{Permits: 10, Wait: time.Minute})
		waiter.mustHold()
		next := r2.ask(engine.Ask{Wait: time.Minute})
		next.mustWait()
		r1.ask(engine.Ask{AllFree: true}).mustBeRefused() // it waits for nothing, and overtakes nobody
		invalid, ok := errors.AsType[*engine.InvalidError](r1.ask(engine.Ask{AllFree: true, Wait: time.Second}).look().err)
		if !ok || invalid.Field != "wait" {
			t.Errorf("with a wait: %v", invalid)
		}
		if l := r1.acquireOf("made", engine.Ask{AllFree: true, Create: &engine.Definition{Limit: 4}}); l.Weight != 4 {
			t.Errorf("created with %+v", l)
		}
	})
}

func TestWhereMoreIsInUseThanTheLimitNothingIsFreeAndItIsTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5})
		r1.acquire(engine.Ask{Permits: 3})
		last := r1.acquire(engine.Ask{Permits: 2})
		r1.declare(engine.Definition{Limit: 2})
		for _, r := range []*player{r1, r2} {
			if refusal := r.ask(engine.Ask{AllFree: true}).mustBeRefused(); refusal.InUse != 5 || refusal.Limit != 2 {
				t.Errorf("refused with %+v", refusal)
			}
		}
		r1.release(last, 0)
		for _, r := range []*player{r1, r2} {
			if refusal := r.ask(engine.Ask{AllFree: true}).mustBeRefused(); refusal.InUse != 3 || refusal.Limit != 2 {
				t.Errorf("refused with %+v", refusal)
			}
		}
	})
}

func TestAPolicyIsAskedAboutAllThatIsFreeAndItsWeightIsTakenOrNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 6, Policy: heavy})
		available := -1
		all := func(weight int, err error) engine.Ask {
			return engine.Ask{AllFree: true, Weigh: func(standing engine.Standing) (engine.Weighed, error) {
				available = standing.Available
				return engine.Weighed{Weight: weight}, err
			}}
		}
		held := r1.acquire(all(2, nil))
		if held.Weight != 2 || available != 6 {
			t.Errorf("with 6 free the policy saw %d, and the lease is %+v", available, held)
		}
		denied := errors.New("denied")
		r1.ask(all(0, denied)).mustFail(denied)
		if refusal := r1.ask(all(5, nil)).mustBeRefused(); refusal.InUse != 2 || available != 4 {
			t.Errorf("with 4 free the policy saw %d, and 5 are refused with %+v", available, refusal)
		}
		if l := r1.acquire(all(0, nil)); l.Weight != 4 || l.Requested != 4 { // no opinion
			t.Errorf("the lease is %+v", l)
		}
		if refusal := r1.ask(all(1, nil)).mustBeRefused(); refusal.InUse != 6 || available != 0 {
			t.Errorf("with nothing free the policy saw %d, and it is refused with %+v", available, refusal)
		}
		if e, ok := errors.AsType[*engine.WeightError](r1.ask(all(7, nil)).look().err); !ok || e.Weight != 7 || e.Limit != 6 {
			t.Errorf("7 of 6: %v", e)
		}
	})
}

// acquireOf takes permits of another semaphore.
func (p *player) acquireOf(semaphore string, ask engine.Ask) engine.Lease {
	p.t.Helper()
	o, err := p.Acquire(p.t.Context(), semaphore, ask)
	if err != nil || o.Refusal != nil {
		p.t.Fatal(o.Refusal, err)
	}
	return o.Lease
}

// What several take at once is no more than there is, and somebody gets something.
func TestSeveralWhoTakeAllThatIsFreeShareIt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		faults := enginetest.Faults{LatencyMin: time.Millisecond, LatencyMax: 3 * time.Millisecond}
		r1, r2 := open(t, s.Cluster, faults), open(t, s.Cluster, faults)
		if _, _, err := r1.Put(t.Context(), db, engine.Definition{Limit: 20}, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			var all sync.WaitGroup
			leases := make([]engine.Lease, 4)
			for i := range leases {
				all.Go(func() {
					o, err := []*engine.Engine{r1, r2}[i%2].Acquire(t.Context(), db, engine.Ask{AllFree: true})
					if err != nil {
						t.Error(err)
					}
					leases[i] = o.Lease
				})
			}
			all.Wait()
			total := 0
			for _, l := range leases {
				total += l.Weight
			}
			if sem, err := r1.Semaphore(t.Context(), db); err != nil || total > 20 || sem.Status.InUse != total {
				t.Errorf("%d are held: %+v, %v", total, sem.Status, err)
			}
			if total == 0 {
				t.Log("nobody got anything")
			}
			for _, l := range leases {
				if l.Weight > 0 {
					if _, err := r1.Release(t.Context(), db, l.Capability, 0); err != nil {
						t.Error(err)
					}
				}
			}
			synctest.Wait()
		}
	})
}
