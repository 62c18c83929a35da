package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// TestACancelledRequestLeavesNothingBehind cancels at every moment of a request's life, told by what is held back.
func TestACancelledRequestLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  engine.Ask
		hold string // what does not get through before the cancellation
		ran  bool   // it is executed, and only its answer does not
		full bool   // all permits are in use
	}{
		{"while its definition is read", engine.Ask{Wait: time.Minute}, "peek", false, false},
		{"while its claim is under way", engine.Ask{Wait: time.Minute}, "claim", false, false},
		{"when its claim is granted and it has not heard it", engine.Ask{Wait: time.Minute}, "claim", true, false},
		{"when its claim is refused and it has not heard it", engine.Ask{Wait: time.Minute}, "claim", true, true},
		{"while it waits", engine.Ask{Wait: time.Minute}, "", false, true},
		{"a try, when its claim is granted and it has not heard it", engine.Ask{}, "claim", true, false},
		{"while its real TTL is under way", engine.Ask{TTL: 10 * time.Minute, Wait: time.Minute}, "renew", false, false},
		{"when it has its real TTL and has not heard it", engine.Ask{TTL: 10 * time.Minute, Wait: time.Minute}, "renew", true, false},
		{"when it holds its lease", engine.Ask{Wait: time.Minute}, "", false, false},
		{"when it holds a lease that is kept", engine.Ask{Wait: time.Minute, Kept: true}, "", false, false},
		{"when it holds a lease without an end", engine.Ask{TTL: engine.Never}, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r2.declare(engine.Definition{Limit: 2})
				inUse := 0
				if c.full {
					r2.acquire(engine.Ask{Permits: 2})
					inUse = 2
				}
				if c.hold != "" {
					r1.ways.Hold(c.hold)
				}
				request := r1.ask(c.ask)
				if c.ran {
					for _, way := range r1.ways {
						way.Next(c.hold).Execute()
					}
				}
				before := request.look()
				request.Cancel()
				request.Cancel() // no harm
				r1.ways.Pass(enginetest.Any)
				time.Sleep(20 * time.Millisecond)
				if after := request.look(); after.told != before.told {
					t.Errorf("it was told %q, and %q after its cancellation", before.told, after.told)
				}
				s.uses(r2, inUse)
				s.noPlaces()
				if st := r1.status(); st.Waiting != 0 {
					t.Errorf("%d wait", st.Waiting)
				}
			})
		})
	}
}

func TestACallerWhoGoesAwayHoldsNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if o, err := r1.Acquire(ctx, db, engine.Ask{Wait: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquired %+v, %v", o, err)
		}
		if o, err := r1.Acquire(ctx, db, engine.Ask{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquired %+v, %v with a context that is over", o, err)
		}
		r1.release(l, 0)
		s.uses(r1, 0)
		o, err := r1.Acquire(t.Context(), db, engine.Ask{})
		if err != nil || o.Refusal != nil || o.Lease.Weight != 1 {
			t.Errorf("acquired %+v, %v", o, err)
		}
		if o, err = r1.Acquire(t.Context(), db, engine.Ask{}); err != nil || o.Refusal == nil || o.Refusal.InUse != 1 {
			t.Errorf("acquired %+v, %v", o, err)
		}
	})
}

func TestWhoeverWaitsHearsThatTheServerIsDraining(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		waiter := r1.ask(engine.Ask{Wait: time.Minute})
		r1.Drain(t.Context())
		for _, r := range []*asked{waiter, r1.ask(engine.Ask{})} {
			if got := r.look(); !errors.Is(got.err, engine.ErrDraining) {
				t.Errorf("told: %s %v", got.told, got.err)
			}
		}
		s.noPlaces()
		r1.release(l, 0)
		synctest.Wait()
		s.empty()
	})
}

func TestATicketOfOneThatDrainsResumesThePlaceElsewhere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r2.ask(engine.Ask{Wait: time.Minute})
		r1.Drain(t.Context())
		drained, ok := errors.AsType[*engine.DrainingError](first.look().err)
		if !ok {
			t.Fatal(first.look().err)
		}
		again := r2.ask(engine.Ask{Wait: time.Minute, Ticket: drained.Ticket})
		again.mustWait()
		r2.release(l, 0)
		again.mustHold()
		second.mustWait()
	})
}
