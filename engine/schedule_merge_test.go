package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// merge-two-leases-one-slot: B has L on slot 0, C has M on slot 0; A is reseeded from both -> both block, neither votes on A,
// until one ends.
func TestScheduleMergeTwoLeasesOneSlot(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		s.put(s.c, "M", "b", quorum.OneSlot(0))
		forgets(s.a)
		s.heal()
		s.everywhere("L", "0", s.a)
		s.everywhere("M", "0", s.a)
		for lease, by := range map[string]string{"L": "a", "M": "b"} {
			s.says(engine.SaysNo, s.a, renewalOf(s.a, s.a.Record(db, lease)))
			s.says(engine.SaysFull, s.a, claimOf(lease, by))
		}
		s.says(engine.SaysFull, s.a, claimOf("N", "c"))
		s.end(s.a, "M", "b", engine.WhyGivenBack)
		s.says(engine.SaysFull, s.a, claimOf("N", "c"))
		s.says(engine.SaysRenewed, s.a, renewalOf(s.a, s.a.Record(db, "L")))
	})
}

// attempt-tombstone-in-reseed: a1 given back at B, a2 of the same lease granted on B, C; A reseeded -> a2 is copied, a1 barred.
func TestScheduleAttemptTombstoneInReseed(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.c, "L", "a1", quorum.OneSlot(1)) // C has not heard that it was given back
		s.end(s.b, "L", "a1", engine.WhyGivenBack)
		s.put(s.b, "L", "a2", quorum.OneSlot(0))
		forgets(s.a)
		s.heal()
		if list := s.attempts(s.a, "L"); len(list) != 1 || !list["a2"].Copy {
			t.Errorf("A has %+v", list)
		}
		s.says(engine.SaysGone, s.a, claimOf("L", "a1"))
	})
}

// two-attempts-in-a-merge: B has a1, C has a2 of one lease -> both are copied; the granted one can still be renewed.
func TestScheduleTwoAttemptsInAMerge(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a1", quorum.OneSlot(0))
		s.put(s.c, "L", "a2", quorum.OneSlot(1))
		forgets(s.a)
		s.heal()
		list := s.attempts(s.a, "L")
		if len(list) != 2 || list["a1"].Slots.String() != "0" || list["a2"].Slots.String() != "1" {
			t.Fatalf("A has %+v", list)
		}
		s.says(engine.SaysFull, s.a, claimOf("M", "b"))
		for _, r := range list {
			s.says(engine.SaysRenewed, s.a, renewalOf(s.a, &r))
		}
		s.end(s.a, "L", "a1", engine.WhyGivenBack)
		if list := s.attempts(s.a, "L"); len(list) != 1 || list["a2"].Copy {
			t.Errorf("then A has %+v", list)
		}
	})
}

// merge-release-cools: C executed the release, B has not, A lost its memory -> A's merge cools what the tombstone removes.
func TestScheduleMergeReleaseCools(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1, MinHold: time.Hour}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		time.Sleep(time.Second)
		s.end(s.c, "L", "a", engine.WhyReleased)
		forgets(s.a)
		s.heal()
		page, leases := s.a.View(db)
		if len(leases) != 0 || len(page.Cooling) != 1 || page.Cooling[0].Slots.String() != "0" || page.Cooling[0].Left < 59*time.Minute {
			t.Errorf("A has %+v, and cools %+v", leases, page.Cooling)
		}
	})
}

// cooling-and-reseed: L released with min_hold left on A, C; B lost its memory and is reseeded -> the slots cool on all three until
// the same time.
func TestScheduleCoolingAndReseed(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1, MinHold: time.Minute}, func(t *testing.T, s *stage) {
		r1 := s.player()
		l := r1.acquire(engine.Ask{})
		time.Sleep(time.Second)
		r1.release(l, 0)
		forgets(s.b)
		s.healed(r1)
		for _, server := range s.Servers {
			page, _ := server.View(db)
			if len(page.Cooling) != 1 || page.Cooling[0].Left.Round(time.Second) != 55*time.Second {
				t.Errorf("on %s there cools %+v", server.Name(), page.Cooling)
			}
		}
		time.Sleep(55*time.Second - time.Millisecond)
		r1.ask(engine.Ask{}).mustBeRefused()
		time.Sleep(100 * time.Millisecond)
		r1.acquire(engine.Ask{})
	})
}

// A part that was given back on one of the sources is gone in what is merged.
func TestAMergeTakesTheSlotsOfTheLargestVer(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		both := quorum.Slots{{First: 0, Last: 1}}
		for _, server := range []*enginetest.Server{s.b, s.c} {
			s.put(server, "L", "a", both, func(m *engine.Mend) { m.First = true })
		}
		part := &engine.Release{Semaphore: db, Lease: "L", By: "a", Owner: engine.Owner{Nonce: "a"}, Slots: quorum.OneSlot(1), Ver: 1, Left: time.Minute, Why: engine.WhyReleased}
		s.says(engine.SaysReleased, s.c, part)
		forgets(s.a)
		s.heal()
		s.everywhere("L", "0", s.a, s.c)
	})
}

// merge-first-and-renewed: C has a first-minute record of L on slot 1, B the renewed on slot 0 -> the renewed slots win.
func TestScheduleMergeFirstAndRenewed(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		s.put(s.c, "L", "a", quorum.OneSlot(1), func(m *engine.Mend) { m.First = true })
		forgets(s.a)
		s.heal()
		s.everywhere("L", "0", s.a)
	})
}

// reseed-without-fence-counter: the highest fence was granted and released before A's loss -> A's counter is not lower after the reseed.
func TestScheduleReseedWithoutFenceCounter(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		far := s.b.Time() + time.Hour.Microseconds()
		s.put(s.b, "L", "a", quorum.OneSlot(0), func(m *engine.Mend) { m.Fence = far })
		s.end(s.b, "L", "a", engine.WhyReleased)
		forgets(s.a)
		s.heal()
		if a := s.says(engine.SaysGranted, s.a, claimOf("M", "b")); a.Fence <= far {
			t.Errorf("A grants with fence %d; %d was granted before", a.Fence, far)
		}
	})
}

// stale-memory-with-a-larger-ballot: A accepted ballot 5 (not chosen), is reseeded; 3:v3 is tried on A, C -> A refuses (its
// promise was copied).
func TestScheduleStaleMemoryWithALargerBallot(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		chosen := s.says(engine.SaysDone, s.a, &engine.Peek{Kind: engine.RegisterSemaphore, Name: db}).Definition.Counter
		five, three := engine.Ballot{Counter: chosen + 5, Replica: "x"}, engine.Ballot{Counter: chosen + 3, Replica: "x"}
		for _, server := range s.Servers[:2] {
			s.says(engine.SaysPromised, server, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: db, Ballot: five})
		}
		s.says(engine.SaysAccepted, s.a, &engine.Accept{Kind: engine.RegisterSemaphore, Name: db, Ballot: five, Value: engine.Value{Limit: 5}})
		forgets(s.a)
		s.heal()
		if a := s.says(engine.SaysNo, s.a, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: db, Ballot: three}); a.Promise != five {
			t.Errorf("A has promised %v; B has %v", a.Promise, five)
		}
	})
}

// never-leftover-reseed-after-60-s: a lease without TTL released on A, C; B has not heard it, the releaser is dead; 70 s later A is
// reseeded from B -> not revived.
func TestScheduleNeverLeftoverReseedAfter60s(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0), func(m *engine.Mend) { m.TTL = engine.Never })
		release := &engine.Release{Semaphore: db, Lease: "L", By: "a", Owner: engine.Owner{Nonce: "a"}, Left: engine.Never, Why: engine.WhyReleased}
		s.says(engine.SaysReleased, s.a, release)
		s.says(engine.SaysReleased, s.c, release)
		time.Sleep(70 * time.Second)
		forgets(s.a)
		r1 := s.heal()
		s.everywhere("L", "", s.a, s.c)
		r1.acquire(engine.Ask{}) // on A and C
	})
}

// renewal-mend-keeps-a-valid-record: L valid on A, B; M alone on C; A is reseeded with both; L's renewal mends A -> refused, but
// L's record there stays.
func TestScheduleRenewalMendKeepsAValidRecord(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		s.put(s.c, "M", "b", quorum.OneSlot(0))
		forgets(s.a)
		s.heal()
		for _, slots := range []quorum.Slots{quorum.OneSlot(0), quorum.SlotsOf(0, 1)} {
			s.says(engine.SaysNo, s.a, &engine.Mend{
				Semaphore: db, Lease: "L", By: "a", Owner: engine.Owner{Nonce: "a"}, Ver: 1, Slots: slots, Fence: s.a.Time(), TTL: time.Minute,
				Until: s.a.Time() + time.Minute.Microseconds(),
			})
			s.everywhere("L", "0", s.a)
		}
	})
}

// attach-on-a-copy: L ungranted on one node, copied to all by a merge; R2 attaches by its attempt -> no.
func TestScheduleAttachOnACopy(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		forgets(s.a)
		s.heal()
		forgets(s.c)
		s.heal()
		for _, server := range s.Servers {
			want := engine.SaysNo
			if server == s.b {
				want = engine.SaysAttached // alone it is no quorum
			}
			s.says(want, server, &engine.Attach{
				Semaphore: db, Lease: "L", By: "a", Owner: engine.Owner{Gen: 1, Nonce: "r2"}, Slots: quorum.OneSlot(0), Left: time.Minute,
			})
		}
	})
}

// copied-ballot-raises-fence: L copied to A, claimed again there -> with a fence larger than any granted since.
func TestScheduleCopiedBallotRaisesFence(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		forgets(s.a)
		s.heal()
		m := s.says(engine.SaysGranted, s.a, claimOf("M", "b"))
		l := s.says(engine.SaysGranted, s.a, claimOf("L", "a"))
		if l.Fence <= m.Fence || l.Slots.String() != "0" {
			t.Errorf("L has fence %d on slot %v; M was granted with %d", l.Fence, l.Slots, m.Fence)
		}
	})
}
