package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// retry-validity: a repeated acquire rests on what is left, not on a new TTL.
func TestScheduleRetryValidity(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", TTL: 40 * time.Second}
		r1.acquire(ask)
		time.Sleep(15 * time.Second)
		again := r2.acquire(ask)
		if again.Validity >= 25*time.Second || again.Validity < 24*time.Second {
			t.Errorf("after 15 of 40 s the second answer is good for %v", again.Validity)
		}
		next := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(again.Validity)
		next.mustWait()
		time.Sleep(2 * time.Second)
		next.mustHold()
	})
}

// failed-retry-gives-back: R2's retry cannot get Q -> what R2 put is given back, R1's grant stays.
func TestScheduleFailedRetryGivesBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		ask := engine.Ask{Key: "k"}
		r1.ways.Hold("claim")
		r2.ways.Hold("claim")
		first := r1.ask(ask)
		synctest.Wait()
		again := r2.ask(ask) // finds nothing
		execute(r1.a.Next("claim"), r1.c.Next("claim"), r2.b.Next("claim"))
		mine, other := s.record(s.a, r2.a.Next("claim").Lease()), s.record(s.b, r2.c.Next("claim").Lease())
		if mine.Lease != other.Lease || mine.By == other.By {
			t.Fatalf("A has %+v, B %+v; the schedule wants two attempts of one lease", mine, other)
		}
		r1.ways.Pass(enginetest.Any)
		r2.ways.Pass(enginetest.Any)
		l := first.mustHold()
		if got := again.mustHold(); got.Fence != l.Fence || !got.Replayed {
			t.Errorf("the first answer is %+v, the second %+v", l, got)
		}
		time.Sleep(time.Second)
		for _, server := range s.Servers {
			if r := s.record(server, l.ID); r.By != mine.By || !r.Slots.Equal(l.Slots) {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
		s.uses(r1, 1)
	})
}

// retry-of-a-first-minute-lease: R1 claimed with 60 s and died before the renewal; ttl 0 -> the retry renews before it answers.
func TestScheduleRetryOfAFirstMinuteLease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", TTL: engine.Never}
		r1.ways.Hold("renew")
		r1.ask(ask).mustWait()
		r1.a.Next("renew")
		r1.dies()
		r2.ways.Hold("renew")
		again := r2.ask(ask)
		again.mustWait()
		r2.a.Next("renew").Deliver()
		again.mustWait() // one is not enough
		r2.ways.Pass(enginetest.Any)
		l := again.mustHold()
		if l.TTL != engine.Never {
			t.Errorf("the answer is %+v", l)
		}
		time.Sleep(2 * time.Minute)
		for _, server := range s.Servers {
			if r := s.record(server, l.ID); r.First || r.Left != engine.Never {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
	})
}

// over-limit-votes-found-by-a-retry: Q records beyond a shrunken limit whose coordinator discarded them -> the retry is not
// answered with them.
func TestScheduleOverLimitVotesFoundByARetry(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 3})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.a, claim, 2, 0)
		s.grants(s.b, claim, 2, claim.Fence+5) // it would have been mended, or given back
		r2.declare(engine.Definition{Limit: 2})
		refusal := r2.ask(engine.Ask{Key: "k"}).mustBeRefused()
		if refusal.Limit != 2 {
			t.Errorf("the refusal is %+v", refusal)
		}
		s.everywhere(claim.Lease, "2", s.a, s.b)
		s.everywhere(claim.Lease, "", s.c)
	})
}

// two-definitions-found-by-a-retry: Q alike, claimed under two definitions -> taken over, not answered as they are.
func TestScheduleTwoDefinitionsFoundByARetry(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 3})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.a, claim, 1, 0)
		r2.declare(engine.Definition{Limit: 3, Description: "another"})
		s.grants(s.b, claim, 1, 0)
		a, b := s.record(s.a, claim.Lease), s.record(s.b, claim.Lease)
		if a.Fence != b.Fence || !a.Slots.Equal(b.Slots) || a.Ballot == b.Ballot {
			t.Fatalf("A has %+v, B %+v; the schedule wants them alike, under two definitions", a, b)
		}
		l := r2.acquire(engine.Ask{Key: "k"})
		if !l.Replayed || l.Slots.String() != "1" {
			t.Errorf("the answer is %+v", l)
		}
		for _, server := range s.Servers {
			if r := s.record(server, l.ID); r.Ver != 1 || r.Ballot != b.Ballot || r.Owner.Gen != 1 || r.Fence != l.Fence {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
	})
}

// minority-copy-old-fence: a copy of a minority's record is taken over -> with a new fence.
func TestScheduleMinorityCopyOldFence(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 1})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.b, claim, 0, 0)
		m := r2.acquire(engine.Ask{}) // by A and C
		r2.release(m, 0)
		if old := s.record(s.b, claim.Lease); old.Fence >= m.Fence {
			t.Fatalf("the record has fence %d, what was granted since %d; the schedule wants more", old.Fence, m.Fence)
		}
		s.reseed(s.a, s.c, s.record(s.b, claim.Lease))
		l := r2.acquire(engine.Ask{Key: "k"})
		if l.Fence <= m.Fence {
			t.Errorf("taken over with fence %d; %d was granted before", l.Fence, m.Fence)
		}
		for _, server := range []*enginetest.Server{s.a, s.b} {
			if r := s.record(server, l.ID); r.Fence != l.Fence || r.Copy {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
	})
}

// minority-copy-taken-over-under-a-smaller-limit: a copy of a minority's record is taken over -> under today's limit.
func TestScheduleMinorityCopyTakenOverUnderASmallerLimit(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 3})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		s.grants(s.b, claim, 2, 0)
		r2.declare(engine.Definition{Limit: 2})
		s.reseed(s.a, s.c, s.record(s.b, claim.Lease))
		r2.ask(engine.Ask{Key: "k"}).mustBeRefused()
		if r := s.record(s.a, claim.Lease); !r.Copy {
			t.Errorf("A has %+v", r)
		}
	})
}

// replay-keeps-the-longest-end: the first answer rests on A, B (end 98), the replay on B, C (69) -> expiry becomes 98 there.
func TestScheduleReplayKeepsTheLongestEnd(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", TTL: 100 * time.Second}
		l := r1.acquire(ask)
		time.Sleep(30 * time.Second)
		r1.c.Hold("renew")
		first, err := r1.renew(l, 0).verdict()
		if err != nil {
			t.Fatal(err)
		}
		r1.c.Cut()
		r1.dies()
		r2.a.Disconnect()
		time.Sleep(time.Second)
		again := r2.acquire(ask)
		b, c := s.record(s.b, l.ID), s.record(s.c, l.ID)
		if again.Validity < first.Validity-2*time.Second || again.Validity > b.Left || c.Left != b.Left {
			t.Errorf("the first answer is good for %v, the second, a second later, for %v; B has %+v, C %+v",
				first.Validity, again.Validity, b, c)
		}
	})
}

// find-resent-after-stale: one read at 0 s, its repeat on another node at 12 s -> not taken as one view.
func TestScheduleFindResentAfterStale(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 1})
		claim := s.claimOfOneThatDied(engine.Ask{Key: "k"})
		r2.ways.Hold("find")
		again := r2.ask(engine.Ask{Key: "k"})
		r2.a.Next("find").Deliver()
		r2.c.Next("find").Execute()
		stale := r2.b.Next("find")
		s.newEra(s.b)
		s.heardOf(s.b)
		if a := stale.Execute(); a.Says != engine.SaysStale {
			t.Fatalf("the find is %s; the schedule wants stale", a.Says)
		}
		stale.Answer()
		resent := r2.b.Next("find")
		if resent.At != stale.At {
			t.Errorf("it was resent at %d; its round began at %d", resent.At, stale.At)
		}
		s.grants(s.a, claim, 0, 0) // after A was read
		s.grants(s.b, claim, 0, 0)
		time.Sleep(12 * time.Second)
		if a := resent.Execute(); a.Says != engine.SaysLate {
			t.Errorf("the find is %s", a.Says)
		}
		r2.ways.Pass(enginetest.Any)
		again.mustFail(engine.ErrQuorumUnavailable)
		s.everywhere(claim.Lease, "0", s.a, s.b)
	})
}

// part-on-one-node-then-crash: a part executed on A only, never -> the retry completes it.
func TestSchedulePartOnOneNodeThenCrash(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 2})
		ask := engine.Ask{Key: "k", Permits: 2, TTL: engine.Never}
		l := s.partOnOneNode(ask)
		if again := r2.retry(ask); again.ID != l.ID || again.Weight != 1 || again.Slots.String() != "0" {
			t.Errorf("the answer is %+v", again)
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		r2.acquire(engine.Ask{})
	})
}

// part-completed-by-a-retry-cools: what a take-over removes may have been granted -> it cools.
func TestSchedulePartCompletedByARetryCools(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r2 := s.player()
		r2.declare(engine.Definition{Limit: 2, MinHold: time.Minute})
		ask := engine.Ask{Key: "k", Permits: 2}
		s.partOnOneNode(ask)
		r2.retry(ask)
		s.cools("1", s.a, s.b, s.c)
		r2.ask(engine.Ask{}).mustBeRefused()
	})
}
