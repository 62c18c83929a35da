package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// renew-after-validity (SIGSTOP): R1 sends a renewal, is stopped past its validity, M is granted; the renewal arrives -> no; on
// R1 lost.
func TestScheduleRenewAfterValidity(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.ask(engine.Ask{TTL: 2 * time.Second, Kept: true})
		id := l.mustHold().ID
		m := r2.ask(engine.Ask{Wait: time.Minute})
		r1.ways.Hold("renew") // nothing behind a renewal gets out either
		time.Sleep(1990 * time.Millisecond)
		l.mustBeLost("quorum_lost")
		m.mustWait()
		time.Sleep(20 * time.Millisecond)
		m.mustHold()
		for i, way := range r1.ways {
			if a := way.Next("renew", id).Deliver(); a.Says != engine.SaysNo {
				t.Errorf("%s says %s to the renewal", s.Servers[i].Name(), a.Says)
			}
		}
		r1.ways.Pass(enginetest.Any)
		s.everywhere(id, "", s.a, s.b, s.c)
		s.everywhere(m.mustHold().ID, "0", s.a, s.b, s.c)
	})
}

// renew-shorter-ttl: renewed with 60 s, then with 5 s -> the end promised first still holds.
func TestScheduleRenewShorterTTL(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		long, err := r1.renew(l, time.Minute).verdict()
		if err != nil || long.Validity < 59*time.Second {
			t.Fatalf("renewed for a minute: %v, %v", long.Validity, err)
		}
		time.Sleep(time.Second)
		short, err := r1.renew(l, 5*time.Second).verdict()
		if want := long.Validity - time.Second; err != nil || short.Validity != want {
			t.Errorf("renewed with 5 s its validity is %v, %v; %v was promised", short.Validity, err, want)
		}
		time.Sleep(short.Validity) // the end of what was promised
		r2.ask(engine.Ask{}).mustBeRefused()
		time.Sleep(time.Second)
		r2.acquire(engine.Ask{})
	})
}

// renew-on-a-losing-attempt: attempt a2 of L is granted on A, B; C still has a1; A is cut off; renew -> C says no until a1 is
// given back there.
func TestScheduleRenewOnALosingAttempt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		fullA, fullB := s.stray(s.a, 1, quorum.OneSlot(0)), s.stray(s.b, 1, quorum.OneSlot(0))
		r1.c.Hold("claim")
		r1.c.Hold("renew")
		request := r1.ask(engine.Ask{Wait: time.Minute})
		a1 := r1.c.Next("claim")
		a1.Execute() // granted, but R1 has not heard it: what A and B say is enough
		request.mustWait()
		s.do(s.a, fullA)
		s.do(s.b, fullB)
		l := request.mustHold()
		a2 := r1.c.Next("claim")
		if a := a2.Execute(); a.Says != engine.SaysExists {
			t.Fatalf("the second attempt is %s on C", a.Says)
		}
		r1.a.Disconnect()
		failed := r1.renew(l, 0)
		renew := r1.c.Next("renew", l.ID)
		if a := renew.Execute(); a.Says != engine.SaysNo {
			t.Errorf("C says %s to the renewal", a.Says)
		}
		answer(a1, a2, renew) // now a1 is given back
		if _, err := failed.verdict(); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("renewed with B alone: %v", err)
		}
		r1.c.Pass(enginetest.Any)
		if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Validity < 29*time.Second {
			t.Errorf("when a1 was given back: %v, %v", renewed.Validity, err)
		}
		if b, c := s.b.Record(db, l.ID), s.c.Record(db, l.ID); c == nil || c.By != b.By || c.Fence != b.Fence {
			t.Errorf("B has %+v, C %+v", b, c)
		}
	})
}

// renew-moves-onto-a-mend: L has slot 4 on A, B and 7 on C, where M has 4; renew L -> C does not put L on M's slot.
func TestScheduleRenewMovesOntoAMend(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 8})
		s.stray(s.a, 1, all(8).Minus(quorum.OneSlot(4)))
		s.stray(s.b, 1, all(8).Minus(quorum.OneSlot(4)))
		s.stray(s.c, 1, quorum.SlotsOf(0, 1, 2, 3, 5, 6))
		seven := s.stray(s.c, 1, quorum.OneSlot(7))
		r2.a.Hold("claim")
		r2.b.Hold("claim")
		m := r2.ask(engine.Ask{}) // C gives it slot 4; it is not decided
		id := r2.a.Next("claim").Lease()
		s.do(s.c, seven)
		l := r1.acquire(engine.Ask{})
		s.everywhere(l.ID, "4", s.a, s.b)
		s.everywhere(l.ID, "7", s.c)
		s.everywhere(id, "4", s.c)

		if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Slots.String() != "4" {
			t.Errorf("renewed by A and B: slot %v, %v", renewed.Slots, err)
		}
		s.everywhere(l.ID, "7", s.c)
		s.everywhere(id, "4", s.c)

		r2.ways.Pass(enginetest.Any) // A and B refuse M, which gives back on C
		m.mustBeRefused()
		if _, err := r1.renew(l, 0).verdict(); err != nil {
			t.Error(err)
		}
		s.everywhere(l.ID, "4", s.a, s.b, s.c)
	})
}

// partial-release-and-late-renew: L gives back slot 1 of {0,1}, M takes it; an older renewal of L with {0,1} arrives -> no.
func TestSchedulePartialReleaseAndLateRenew(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{Permits: 2})
		r1.c.Hold("renew")
		if _, err := r1.renew(l, 0).verdict(); err != nil { // by A and B
			t.Fatal(err)
		}
		old := r1.c.Next("renew", l.ID)
		r1.c.Cut()
		r1.c.Pass("renew")
		r1.release(l, 1)
		m := r2.acquire(engine.Ask{})
		if m.Slots.String() != "1" {
			t.Fatalf("M has slot %v; the schedule wants 1", m.Slots)
		}
		if a := old.Execute(); a.Says != engine.SaysNo {
			t.Errorf("the older renewal: %s", a.Says)
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		s.everywhere(m.ID, "1", s.a, s.b, s.c)
		if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Slots.String() != "0" || renewed.Weight != 1 {
			t.Errorf("renewed it has slots %v, weight %d, %v", renewed.Slots, renewed.Weight, err)
		}
	})
}

// renewal-after-the-tombstone: TTL 200 s; L released through R2, acknowledged; 70 s later its owner R1 renews -> no, also where
// no record is left.
func TestScheduleRenewalAfterTheTombstone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Hold("renew")
		l := r1.acquire(engine.Ask{TTL: 200 * time.Second}) // renewed from its first minute by A and B
		old := r1.c.Next("renew", l.ID).Op.(*engine.Renew)
		r1.c.Pass(enginetest.Any)
		r2.release(l, 0)
		time.Sleep(70 * time.Second)
		if _, err := r1.renew(l, 0).verdict(); !errors.Is(err, engine.ErrLeaseReleased) {
			t.Errorf("renewed: %v", err)
		}
		for _, server := range s.Servers { // as one asks that does not look whether the lease is still there
			late := *old
			late.Until = server.Time() + time.Minute.Microseconds()
			if a := s.do(server, &late); a.Says != engine.SaysNo {
				t.Errorf("%s says %s", server.Name(), a.Says)
			}
		}
		s.everywhere(l.ID, "", s.a, s.b, s.c)
		r2.acquire(engine.Ask{})
	})
}
