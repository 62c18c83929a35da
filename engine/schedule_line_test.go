package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// two-claims-of-one-replica: W1 (weight 5), W2 (weight 1) of R1 in one pipeline, 2 free -> W2 is not served before W1.
func TestScheduleTwoClaimsOfOneReplica(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 7})
		l := r2.acquire(engine.Ask{Permits: 5})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows the definition
		r1.ways.Hold("claim")
		w1 := r1.ask(engine.Ask{Permits: 5, Wait: time.Minute})
		w2 := r1.ask(engine.Ask{Permits: 1, Wait: time.Minute})
		for _, way := range r1.ways {
			first, second := way.Next("claim").Op.(*engine.Claim), way.Next("claim").Op.(*engine.Claim)
			if first.Weight != 5 || second.Weight != 1 {
				t.Fatalf("the claims weigh %d and %d; the schedule wants 5 and 1", first.Weight, second.Weight)
			}
		}
		r1.ways.Pass(enginetest.Any)
		for range 20 { // also when they claim again by themselves
			w1.mustWait()
			w2.mustWait()
			time.Sleep(100 * time.Millisecond)
		}
		r2.release(l, 0)
		if first, second := w1.mustHold(), w2.mustHold(); first.Fence >= second.Fence {
			t.Errorf("W1 has fence %d, W2 %d; W1 was first", first.Fence, second.Fence)
		}
	})
}

// give-back-wakes-itself: two replicas, one permit held for 2 s -> fewer than 20 claims meanwhile. (It is held on A and B
// only: C grants what others claim, and they give it back.)
func TestScheduleGiveBackWakesItself(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Disconnect()
		l := r1.acquire(engine.Ask{})
		claims := s.count(s.c, "claim")
		first := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r3.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(1999 * time.Millisecond)
		if n := claims.Load(); n >= 20 {
			t.Errorf("in 2 s there were %d claims", n)
		}
		r1.release(l, 0)
		r2.release(first.mustHold(), 0)
		second.mustHold()
	})
}

// split-on-a-full-semaphore: limit 2; L on A, B (C away), M on B, C (A away), both for an hour; a third asks -> refused and
// waits, no claims every few ms; wait=0 ends.
func TestScheduleSplitOnAFullSemaphore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.c.Disconnect()
		r2.a.Disconnect()
		l := r1.acquire(engine.Ask{TTL: time.Hour})
		second := r2.ask(engine.Ask{TTL: time.Hour, Wait: time.Second})
		time.Sleep(100 * time.Millisecond) // where both began with the same slot M is mended, or tried anew
		m := second.mustHold()
		s.everywhere(l.ID, "", s.c)
		s.everywhere(m.ID, "", s.a)

		claims := s.count(s.a, "claim")
		third := r3.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(10 * time.Second)
		third.mustWait()
		if n := claims.Load(); n > 100 { // four tries each half second
			t.Errorf("in 10 s it claimed %d times", n)
		}
		try := r2.ask(engine.Ask{})
		time.Sleep(50 * time.Millisecond)
		try.mustBeRefused()
		r1.release(l, 0)
		third.mustHold()
	})
}
