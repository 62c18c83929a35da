package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// claim-after-release-on-a-closed-connection: claim L sits in a closed socket's buffer; L is released over a new connection;
// the old claim runs 4 s later -> gone, later than 5 s late.
func TestScheduleClaimAfterReleaseOnAClosedConnection(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Hold("claim")
		l := r1.acquire(engine.Ask{}) // by A and B
		claim := r1.c.Next("claim", l.ID)
		r1.c.Cut()
		r1.release(l, 0)
		time.Sleep(4 * time.Second)
		if a := claim.Execute(); a.Says != engine.SaysGone {
			t.Errorf("after 4 s the claim is %s", a.Says)
		}
		time.Sleep(1001 * time.Millisecond)
		if a := claim.Repeat(); a.Says != engine.SaysLate {
			t.Errorf("after more than 5 s the claim is %s", a.Says)
		}
		s.everywhere(l.ID, "", s.a, s.b, s.c)
	})
}

// foreign-release-before-claim: a release of L reaches C before its claim does -> C answers gone, holds nothing.
func TestScheduleForeignReleaseBeforeClaim(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Hold("claim")
		l := r1.acquire(engine.Ask{}) // by A and B
		r2.release(l, 0)              // on all
		if a := r1.c.Next("claim", l.ID).Deliver(); a.Says != engine.SaysGone {
			t.Errorf("the claim is %s", a.Says)
		}
		time.Sleep(time.Second) // nor may any mend of R1 put it there
		s.everywhere(l.ID, "", s.a, s.b, s.c)
	})
}

// stale-mend-after-reconnect: a mend of L waits in a cut connection; L is released, M granted its slot; the mend runs -> no.
func TestScheduleStaleMendAfterReconnect(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		full := s.stray(s.c, 1, quorum.OneSlot(0))
		r1.c.Hold("mend")
		l := r1.acquire(engine.Ask{}) // by A and B; C was full
		mend := r1.c.Next("mend", l.ID)
		s.do(s.c, full)
		r1.c.Disconnect()
		r1.release(l, 0) // C does not hear it yet
		m := r2.acquire(engine.Ask{})
		if a := mend.Execute(); a.Says != engine.SaysNo { // M has the slot
			t.Errorf("the mend onto M's slot: %s", a.Says)
		}
		s.everywhere(l.ID, "", s.a, s.b, s.c)
		s.everywhere(m.ID, "0", s.a, s.b, s.c)

		r1.c.Connect()
		time.Sleep(time.Second) // C hears of L's release
		r2.release(m, 0)
		if a := mend.Repeat(); a.Says != engine.SaysNo { // the slot is free, but L is over
			t.Errorf("the mend after the release: %s", a.Says)
		}
		s.everywhere(l.ID, "", s.a, s.b, s.c)
	})
}

// retried-give-back-of-another-attempt: a1 is given back, a2 granted; a1's give-back is repeated -> a2 stays.
func TestScheduleRetriedGiveBackOfAnotherAttempt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		fullA, fullB := s.stray(s.a, 1, quorum.OneSlot(0)), s.stray(s.b, 1, quorum.OneSlot(0))
		r1.c.Hold("release")
		request := r1.ask(engine.Ask{Wait: time.Minute}) // a1: granted by C alone
		giveBack := r1.c.Next("release", engine.WhyGivenBack)
		first := giveBack.Op.(*engine.Release).By
		giveBack.Deliver()
		request.mustWait()
		s.do(s.a, fullA)
		s.do(s.b, fullB)
		l := request.mustHold()
		for _, server := range s.Servers {
			if r := server.Record(db, l.ID); r == nil || r.By == first {
				t.Fatalf("%s has %+v; the schedule wants a second attempt", server.Name(), r)
			}
		}
		if a := giveBack.Repeat(); a.Says != engine.SaysReleased {
			t.Errorf("the give-back is answered %s", a.Says)
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// lapsed-lease-late-claim: L lapses unreleased at R1, whose release still goes out; a late claim of the same attempt runs after
// it -> gone.
func TestScheduleLapsedLeaseLateClaim(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Hold("claim")
		request := r1.ask(engine.Ask{TTL: time.Second, Kept: true}) // by A and B
		l := request.mustHold()
		claim := r1.c.Next("claim", l.ID)
		r1.c.Cut()
		r1.a.Disconnect() // no renewal gets through
		r1.b.Disconnect()
		time.Sleep(time.Second)
		request.mustBeLost("quorum_lost")
		if a := claim.Execute(); a.Says != engine.SaysGone {
			t.Errorf("the late claim is %s", a.Says)
		}
		s.everywhere(l.ID, "", s.a, s.b, s.c)
	})
}

// claim-resent-after-its-attempt-ended: a claim answered stale is resent long after its attempt was given back -> late.
func TestScheduleClaimResentAfterItsAttemptEnded(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows the definition
		s.stray(s.a, 1, quorum.OneSlot(0))
		s.stray(s.b, 1, quorum.OneSlot(0))
		r1.ways.Hold("claim")
		request := r1.ask(engine.Ask{})
		stale := r1.c.Next("claim")
		s.newEra(s.c)
		if a := stale.Execute(); a.Says != engine.SaysStale {
			t.Fatalf("the claim is %s; the schedule wants stale", a.Says)
		}
		time.Sleep(100 * time.Millisecond)
		stale.Answer()
		resent := r1.c.Next("claim") // at once, since its attempt is not decided
		if resent.Lease() != stale.Lease() || resent.At != stale.At {
			t.Errorf("resent was the claim of %s at %d; want %s, at the start of the attempt, %d",
				resent.Lease(), resent.At, stale.Lease(), stale.At)
		}
		for _, way := range []*enginetest.Node{r1.a, r1.b} {
			way.Next("claim").Deliver() // full: the attempt is over
		}
		request.mustBeRefused()
		r1.c.Cut() // the resent claim stays in the buffer; C hears the give-back
		time.Sleep(70 * time.Second)
		if a := resent.Execute(); a.Says != engine.SaysLate { // its tombstone is forgotten by now
			t.Errorf("the resent claim is %s", a.Says)
		}
		s.everywhere(resent.Lease(), "", s.a, s.b, s.c)
	})
}
