package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// begin lets a new replica begin to declare a definition, and returns what it sends to make nodes accept it, in the order of the
// servers; nil where it asks for no promise, which is server number without (-1: it asks all).
func (s *stage) begin(def engine.Definition, without int) (writer *player, accepts []*enginetest.Message) {
	s.t.Helper()
	writer = s.player()
	writer.ways.Hold("accept")
	if without >= 0 {
		writer.ways[without].Hold("prepare")
	}
	go func() { _, _, _ = writer.Put(s.t.Context(), db, def, engine.Condition{}, "test") }() // it may stay half done
	accepts = make([]*enginetest.Message, len(s.Servers))
	for i, way := range writer.ways {
		if i != without {
			accepts[i] = way.NextWithin(2*time.Second, "accept") // it may have to ask for promises again
		}
	}
	return writer, accepts
}

// dies lets a replica lose all its nodes for good: what it has sent and was not executed never will be.
func (p *player) dies() {
	for _, way := range p.ways {
		way.Disconnect()
	}
}

// change lets a definition be accepted by these servers, of A, B and C, and by no other: its writer is dead. By two of them it
// is in force.
func (s *stage) change(def engine.Definition, on ...int) {
	s.t.Helper()
	writer, accepts := s.begin(def, -1)
	for _, i := range on {
		if a := accepts[i].Execute(); a.Says != engine.SaysAccepted {
			s.t.Fatalf("%s says %s to %+v", s.Servers[i].Name(), a.Says, def)
		}
	}
	writer.dies()
}

// hide lets a server answer too late to whoever views the semaphore, as long as what is returned is true.
func (s *stage) hide(server *enginetest.Server) *atomic.Bool {
	hidden := &atomic.Bool{}
	hidden.Store(true)
	server.Around(func(next enginetest.Apply) enginetest.Apply {
		return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
			if _, view := op.(*engine.View); view && hidden.Load() {
				return &engine.Answer{Says: engine.SaysLate, Time: now}, nil
			}
			return next(now, h, at, p, op)
		}
	})
	return hidden
}

// limitIs fails the test unless a replica that has just come reads this limit.
func (s *stage) limitIs(want int) {
	s.t.Helper()
	if sem, err := s.player().Semaphore(s.t.Context(), db); err != nil || sem.Definition.Limit != want {
		s.t.Errorf("a new replica reads the limit %d, %v; want %d", sem.Definition.Limit, err, want)
	}
}

// leases are how many a server has.
func (s *stage) leases(server *enginetest.Server) int {
	_, leases := server.View(db)
	return len(leases)
}

// accepted is what a server has accepted of the semaphore.
func (s *stage) accepted(server *enginetest.Server) *engine.Answer {
	return s.do(server, &engine.Peek{Kind: engine.RegisterSemaphore, Name: db})
}

// two-half-done-grows: 3 -> 5 on A, 3 -> 4 on B, both writers die -> no grant beyond the value that is chosen in the end. (Which
// one it is depends on who is read; no lease is ever held by votes under both.)
func TestScheduleTwoHalfDoneGrows(t *testing.T) {
	for away, mayBe := range map[string][]int{"": {4, 5}, "A": {4}, "B": {5}, "C": {4}} {
		t.Run(fmt.Sprintf("%q is away", away), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.declare(engine.Definition{Limit: 3})
				for range 3 {
					r1.acquire(engine.Ask{TTL: time.Hour})
				}
				r1.ways.Hold("wake") // it does not hear of what comes now
				five, grows := s.begin(engine.Definition{Limit: 5}, -1)
				four, grows2 := s.begin(engine.Definition{Limit: 4}, 0)
				execute(grows[0], grows2[1])
				five.dies()
				four.dies()
				if a, b := s.accepted(s.a).Value.Limit, s.accepted(s.b).Value.Limit; a != 5 || b != 4 {
					t.Fatalf("A has the limit %d and B %d; the schedule wants 5 and 4", a, b)
				}
				for _, way := range r1.ways {
					if way.Name() == away {
						way.Disconnect()
					}
				}
				first, second := r1.ask(engine.Ask{TTL: time.Minute, Wait: time.Minute}), r1.ask(engine.Ask{TTL: time.Minute, Wait: time.Minute})
				r1.ways.Pass(enginetest.Any)
				time.Sleep(time.Second)
				chosen, err := s.player().Semaphore(t.Context(), db)
				limit := chosen.Definition.Limit
				if err != nil || !slices.Contains(mayBe, limit) {
					t.Errorf("the limit %d was chosen, %v; want one of %d", limit, err, mayBe)
				}
				check := func() {
					t.Helper()
					held := 3
					for _, request := range []*asked{first, second} {
						if l := request.look(); l.holds() {
							held++
							s.underOneDefinition(l.lease.ID)
						}
					}
					if held != limit {
						t.Errorf("%d are held; want %d", held, limit)
					}
				}
				check()
				for _, way := range r1.ways {
					way.Connect()
				}
				time.Sleep(3 * time.Second)
				check()
				s.limitIs(limit)
			})
		})
	}
}

// underOneDefinition fails the test unless a quorum has the lease by votes under one definition.
func (s *stage) underOneDefinition(lease string) {
	s.t.Helper()
	votes := map[engine.Ballot]int{}
	for _, server := range s.Servers {
		if r := server.Record(db, lease); r != nil {
			votes[r.Ballot]++
		}
	}
	for _, n := range votes {
		if n >= 2 {
			return
		}
	}
	s.t.Errorf("lease %s is held by votes under %v", lease, votes)
}

// half-done-grow-over-shrink: changes on overlapping majorities -> ballots of different definitions are never added up. (5 -> 2
// on A and B; 2 -> 5 on A, and its writer dies. A under the last and C under the first would grant a third permit.)
func TestScheduleHalfDoneGrowOverShrink(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 5})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows this one
		for _, server := range s.Servers {
			s.stray(server, 1, quorum.SlotsOf(0, 1))
		}
		r1.ways.Hold("wake")
		s.change(engine.Definition{Limit: 2}, 0, 1)
		s.change(engine.Definition{Limit: 5}, 0)
		var limits []int
		for _, server := range s.Servers {
			limits = append(limits, s.accepted(server).Value.Limit)
		}
		if fmt.Sprint(limits) != "[5 2 5]" {
			t.Fatalf("the nodes have the limits %v; the schedule wants 5, 2 and 5", limits)
		}
		r1.ways.Hold("peek") // it does not find out at once
		third := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(20 * time.Millisecond)
		third.mustWait()
		r1.a.Disconnect() // who could have completed the growth
		r1.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		third.mustWait()
		r1.a.Connect()
		time.Sleep(3 * time.Second)
		third.mustWait()
		for _, server := range s.Servers {
			if n := s.leases(server); n != 1 {
				t.Errorf("%s has %d leases; what it granted is not given back", server.Name(), n)
			}
		}
		s.limitIs(2)
	})
}

// shrink-AB-BC: changes on overlapping majorities -> ballots of different definitions are never added up. (2 -> 1 on A and B, L on
// B and C. A votes for M under the new limit and C under the old one; mended onto C's slot it would be the second holder.)
func TestScheduleShrinkABBC(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows this one
		l := s.stray(s.b, 1, quorum.OneSlot(0))
		s.stray(s.c, s.c.Time()+200_000, quorum.OneSlot(0)) // C's ballot will have the largest fence, so its slot wins a tie
		r1.ways.Hold("wake")
		s.change(engine.Definition{Limit: 1}, 0, 1)
		r1.ways.Hold("peek")
		m := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(50 * time.Millisecond)
		m.mustWait()
		if n := s.leases(s.a); n > 0 {
			t.Errorf("A has %d leases; what it granted is not given back", n)
		}
		r1.ways.Pass(enginetest.Any)
		time.Sleep(3 * time.Second)
		m.mustWait()
		s.do(s.b, l)
		s.do(s.c, l)
		time.Sleep(10 * time.Millisecond)
		if held := m.mustHold(); held.Slots.String() != "0" {
			t.Errorf("M has slot %v; the limit is 1", held.Slots)
		}
	})
}

// shrink-bound-under-two-ballots: used slots read from A (new) and C (old) -> not used as a bound. (4 -> 2 on A and B, K on slot 2.
// M got slot 3 of B before the change, and gets it of C after the reading: it is the second. The bound that was read without it, 1,
// would let X in as the third.)
func TestScheduleShrinkBoundUnderTwoBallots(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 4})
		r1.release(r1.acquire(engine.Ask{}), 0)
		r2.release(r2.acquire(engine.Ask{}), 0)
		var k *engine.Release
		for _, server := range s.Servers {
			k = s.stray(server, 1, quorum.OneSlot(2))
		}
		without := func(server *enginetest.Server, slots quorum.Slots, claim *enginetest.Message) { // these cannot be had
			others := s.stray(server, 1, slots)
			claim.Execute()
			s.do(server, others)
		}
		r2.ways.Hold("claim")
		m := r2.ask(engine.Ask{Wait: time.Minute})
		onB, onC := r2.b.Next("claim"), r2.c.Next("claim")
		without(s.b, quorum.SlotsOf(0, 1), onB)
		s.change(engine.Definition{Limit: 2}, 0, 1)
		time.Sleep(time.Millisecond) // M is before X

		r1.c.Hold("claim")
		r1.c.Hold("accept") // C does not hear of the change from R1
		r1.c.Hold("view")
		unseen := s.hide(s.b) // R1 reads A and C
		x := r1.ask(engine.Ask{Wait: time.Minute})
		claim, view := r1.c.Next("claim"), r1.c.Next("view") // as a slot beyond the limit is in use on A and B
		without(s.c, quorum.SlotsOf(0, 1, 3), claim)
		claim.Answer()
		view.Deliver()
		unseen.Store(false)
		without(s.c, quorum.SlotsOf(0, 1), onC)
		answer(onB, onC)
		if held := m.mustHold(); held.Slots.String() != "3" {
			t.Fatalf("M has slot %v; the schedule wants 3", held.Slots)
		}
		time.Sleep(time.Second)
		x.mustWait()

		r1.ways.Pass(enginetest.Any)
		r2.ways.Pass(enginetest.Any)
		time.Sleep(3 * time.Second)
		x.mustWait()
		for _, server := range s.Servers {
			s.do(server, k)
		}
		time.Sleep(time.Second)
		x.mustHold() // below the bound that M leaves
		r2.release(m.mustHold(), 0)
	})
}

// idle-sweep-against-a-grant: the sweep saw nothing; L is granted; all accepted the tombstone -> not dropped.
func TestScheduleIdleSweepAgainstAGrant(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		create := &engine.Definition{Limit: 1}
		r1.release(r1.acquire(engine.Ask{Create: create}), 0)
		r1.ways.Hold("prepare")
		prepares := []*enginetest.Message{r1.a.NextWithin(10*time.Minute, "prepare"), r1.b.Next("prepare"), r1.c.Next("prepare")}
		r2 := s.player()
		l := r2.acquire(engine.Ask{TTL: time.Hour})
		drops := s.count(s.a, "drop")
		for _, m := range prepares {
			m.Deliver()
		}
		r1.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		for _, server := range s.Servers {
			if a := s.accepted(server); !a.Value.Deleted {
				t.Fatalf("%s has accepted %+v; the schedule wants the tombstone", server.Name(), a.Value)
			}
		}
		time.Sleep(5 * time.Minute)
		if drops.Load() == 0 {
			t.Error("nobody has tried to drop it")
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		if _, err := r2.renew(l, 0).verdict(); err != nil {
			t.Errorf("L is not renewed: %v", err)
		}
		again := r1.ask(engine.Ask{Create: create, Wait: time.Hour})
		time.Sleep(time.Second)
		again.mustWait()
		r2.release(l, 0)
		if held := again.mustHold(); held.Fence <= l.Fence {
			t.Errorf("the next has fence %d; L had %d", held.Fence, l.Fence)
		}
	})
}

// deleted-register-returns: C was away at the deletion and comes back with the old definition -> it stays deleted, and is forgotten
// once all have heard of it.
func TestScheduleDeletedRegisterReturns(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		for _, r := range []*player{r1, r2} {
			r.ways.Hold("names") // nobody sweeps
			r.c.Disconnect()
		}
		if err := r1.Delete(t.Context(), db, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		if a, c := s.accepted(s.a), s.accepted(s.c); !a.Value.Deleted || c.Value.Limit != 1 {
			t.Fatalf("A has %+v and C %+v; the schedule wants the tombstone and the limit 1", a.Value, c.Value)
		}
		r2.c.Connect()
		r2.a.Disconnect() // C and one that knows are left
		time.Sleep(2 * time.Second)
		if l := r2.ask(engine.Ask{Wait: time.Second}).look(); !errors.Is(l.err, engine.ErrUnknownSemaphore) {
			t.Errorf("told: %s %v", l.told, l.err)
		}
		if sem, err := r2.Semaphore(t.Context(), db); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Errorf("read: %+v, %v", sem, err)
		}
		for _, r := range []*player{r1, r2} {
			r.ways.Pass(enginetest.Any)
			for _, way := range r.ways {
				way.Connect()
			}
		}
		time.Sleep(3 * time.Minute)
		for _, server := range s.Servers {
			if a := s.accepted(server); a.Definition != (engine.Ballot{}) {
				t.Errorf("%s still has %+v", server.Name(), a.Value)
			}
		}
	})
}

// fence-after-idle-drop: dropped, created again -> larger fences.
func TestScheduleFenceAfterIdleDrop(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		create := engine.Ask{Create: &engine.Definition{Limit: 1}}
		r1.release(r1.acquire(create), 0)
		for _, server := range s.Servers { // somebody's fences are an hour ahead of the clocks
			s.do(server, s.stray(server, server.Time()+time.Hour.Microseconds(), quorum.OneSlot(0)))
		}
		l := r1.acquire(create)
		r1.release(l, 0)
		time.Sleep(10 * time.Minute)
		for _, server := range s.Servers {
			if a := s.accepted(server); a.Definition != (engine.Ballot{}) {
				t.Fatalf("%s still has %+v; the schedule wants it dropped", server.Name(), a.Value)
			}
		}
		if again := r1.acquire(create); again.Fence <= l.Fence {
			t.Errorf("the fence is %d; before the drop it was %d", again.Fence, l.Fence)
		}
	})
}

// A change that was begun and left leaves a promise, above which nobody may go on as if nothing were there: the tombstone is
// written anew before it is dropped.
func TestADeletedSemaphoreIsDroppedAlsoWhereAChangeWasBegun(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.ways.Hold("drop")
		go func() { _ = r1.Delete(t.Context(), db, engine.Condition{}, "test") }()
		r1.a.Next("drop")
		promised := engine.Ballot{Counter: s.accepted(s.a).Definition.Counter + 1000, Replica: "somebody"}
		for _, server := range s.Servers {
			if a := s.do(server, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: db, Ballot: promised}); a.Says != engine.SaysPromised {
				t.Fatalf("%s says %s", server.Name(), a.Says)
			}
		}
		r1.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		for _, server := range s.Servers {
			if a := s.accepted(server); !a.Value.Deleted {
				t.Errorf("%s has dropped what it had promised", server.Name())
			}
		}
		time.Sleep(3 * time.Minute)
		for _, server := range s.Servers {
			if a := s.accepted(server); a.Definition != (engine.Ballot{}) {
				t.Errorf("%s still has %+v", server.Name(), a.Value)
			}
		}
	})
}
