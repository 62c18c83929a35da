package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// cleaned-leftover-cools: what a clean-up removes may have been granted -> it cools.
func TestScheduleCleanedLeftoverCools(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 2, MinHold: time.Minute})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.b, claim, 0, 0)
		r2.ask(engine.Ask{Key: "k"}).mustFail(engine.ErrInProgress)
		s.everywhere(claim.Lease, "0", s.b)
		time.Sleep(10*time.Second + time.Millisecond)
		again := r2.acquire(engine.Ask{Key: "k"})
		if again.Replayed {
			t.Errorf("the answer is %+v", again)
		}
		s.cools("0", s.b)
	})
}

// cleaning-against-a-take-over: R2 has seen L on B only, and cleans it away; meanwhile A was told of it when it was readmitted, and R3
// has taken it over -> R3's lease stays.
func TestScheduleCleaningAgainstATakeOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2, r3 := s.player(), s.player()
		r2.declare(engine.Definition{Limit: 1})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.b, claim, 0, 0)
		time.Sleep(11 * time.Second)
		r2.ways.Hold("release")
		cleaning := r2.ask(engine.Ask{Key: "k"})
		releases := []*enginetest.Message{
			r2.a.Next("release", engine.WhyCleaned), r2.b.Next("release", engine.WhyCleaned), r2.c.Next("release", engine.WhyCleaned),
		}
		s.reseed(s.a, s.c, s.record(s.b, claim.Lease))
		l := r3.acquire(engine.Ask{Key: "k"})
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		for _, m := range releases {
			if a := m.Repeat(); a.Says == engine.SaysReleased {
				t.Errorf("the clean-up is %s", a.Says)
			}
		}
		for _, way := range r2.ways {
			way.Cut()
		}
		r2.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		cleaning.mustFail(engine.ErrInProgress)
		if _, err := r3.renew(l, 0).verdict(); err != nil {
			t.Error(err)
		}
	})
}

// take-over-does-not-drop-a-copy: on C, where the slot is another's too, what a take-over can not have stays as it is.
func TestScheduleTakeOverDoesNotDropACopy(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 2})
		ask := engine.Ask{Key: "k", Permits: 2}
		l := s.partOnOneNode(ask)
		s.reseed(s.c, s.b, engine.Record{
			Lease: "another", By: "another", Slots: quorum.OneSlot(0), Fence: 1, Left: time.Minute, Ballot: s.record(s.b, l.ID).Ballot,
		})
		if again := r2.acquire(ask); again.Slots.String() != "0" {
			t.Errorf("the answer is %+v", again)
		}
		s.everywhere(l.ID, "0", s.a, s.b)
		if c := s.record(s.c, l.ID); !c.Copy || c.Slots.String() != "0-1" {
			t.Errorf("C has %+v", c)
		}
	})
}

// take-over-does-not-widen: a node that has the attempt on other slots does not get those that are taken over.
func TestScheduleTakeOverDoesNotWiden(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 2})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.c, claim, 0, 0)
		s.grants(s.a, claim, 1, 0)
		s.grants(s.b, claim, 1, claim.Fence+5)
		r2.c.Hold("mend", "renewal") // it holds the lease by then
		l := r2.acquire(engine.Ask{Key: "k"})
		if l.Slots.String() != "1" || l.Fence < claim.Fence+5 {
			t.Errorf("the answer is %+v", l)
		}
		s.everywhere(l.ID, "1", s.a, s.b)
		s.everywhere(l.ID, "0", s.c)
		r2.c.Pass("mend", "renewal")
		s.everywhere(l.ID, "1", s.c)
	})
}

func TestEveryReplicaCleansUpWhatTheDeadHaveLeft(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 3})
		held := r2.ask(engine.Ask{Kept: true}).mustHold()
		claim := s.claimOfOneThatDied(engine.Ask{})
		views, finds := s.count(s.a, "view"), s.count(s.a, "find")
		s.grants(s.b, claim, 0, 0)
		time.Sleep(10 * time.Second)
		s.record(s.b, claim.Lease)
		time.Sleep(20*time.Second + time.Millisecond)
		s.everywhere(claim.Lease, "", s.b)
		time.Sleep(10 * time.Second)
		if v, f := views.Load(), finds.Load(); v != 2 || f != 1 { // 20 s apart
			t.Errorf("in 40 s there were %d views, and %d finds for one leftover", v, f)
		}
		s.everywhere(held.ID, held.Slots.String(), s.a, s.b, s.c)
	})
}

func TestNobodyLooksForLeftoversWhereNothingIs(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 3})
		r2.release(r2.acquire(engine.Ask{}), 0)
		time.Sleep(21 * time.Second)
		views := s.count(s.b, "view")
		time.Sleep(30 * time.Second) // before the next sweep
		if n := views.Load(); n != 0 {
			t.Errorf("there were %d views", n)
		}
	})
}
