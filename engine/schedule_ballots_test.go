package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// execute lets the nodes execute messages, in this order, and holds the answers.
func execute(messages ...*enginetest.Message) {
	for _, m := range messages {
		m.Execute()
	}
}

// answer hands answers to the coordinators, in this order.
func answer(messages ...*enginetest.Message) {
	for _, m := range messages {
		m.Answer()
	}
}

// AB/BC/CA over-admission: limit 2; three leases reach {A,B}, {B,C}, {C,A} first -> never three holders.
func TestScheduleABBCCAOverAdmission(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		for _, r := range []*player{r1, r2, r3} {
			r.ways.Hold("claim")
		}
		wait := engine.Ask{Wait: time.Minute}
		all := []*asked{r1.ask(wait), r2.ask(wait), r3.ask(wait)}
		claims := []*enginetest.Message{
			r1.a.Next("claim"), r1.b.Next("claim"),
			r2.b.Next("claim"), r2.c.Next("claim"),
			r3.c.Next("claim"), r3.a.Next("claim"),
			r1.c.Next("claim"), r2.a.Next("claim"), r3.b.Next("claim"),
		}
		execute(claims...)
		answer(claims[:6]...)
		for _, r := range []*player{r1, r2, r3} {
			r.ways.Pass(enginetest.Any)
		}
		all[0].mustHold() // A and B gave it the same slot
		holders := func() (held []engine.Lease) {
			for _, a := range all {
				if l := a.look(); l.holds() {
					held = append(held, *l.lease)
				}
			}
			return held
		}
		for range 100 {
			time.Sleep(time.Millisecond)
			if held := holders(); len(held) > 2 || len(held) == 2 && held[0].Slots.Overlaps(held[1].Slots) {
				t.Fatalf("of two permits these are held: %+v", held)
			}
		}
		if held := holders(); len(held) != 2 {
			t.Fatalf("after 100 ms only these hold one of the two permits: %+v", held)
		}
		r1.release(all[0].mustHold(), 0)
		all[1].mustHold()
		all[2].mustHold()
	})
}

// fence-after-a-move: L is mended from slot 3 to 4 while M took 4 and left again with a larger fence -> L's fence is larger
// still.
func TestScheduleFenceAfterAMove(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5})
		ahead := s.a.Time() + 101_000 // more than what R1 will propose: A's ballot has the largest fence, so its slot wins the tie
		s.stray(s.a, ahead, quorum.SlotsOf(0, 1, 2, 3))
		s.stray(s.b, 1, quorum.SlotsOf(0, 1, 2))
		bFour := s.stray(s.b, 1, quorum.OneSlot(4))
		s.stray(s.c, 1, quorum.SlotsOf(0, 1, 2, 3))
		cFour := s.stray(s.c, 1, quorum.OneSlot(4))

		r1.ways.Hold("mend")
		l := r1.ask(engine.Ask{}) // A: slot 4, B: slot 3, C: full
		mends := []*enginetest.Message{r1.a.Next("mend", "new"), r1.b.Next("mend", "new"), r1.c.Next("mend", "new")}
		if op := mends[1].Op.(*engine.Mend); op.Slots.String() != "4" {
			t.Fatalf("L is mended onto slot %v; the schedule wants 4", op.Slots)
		}
		time.Sleep(10 * time.Millisecond)
		s.do(s.b, bFour)
		s.do(s.c, cFour)
		m := r2.acquire(engine.Ask{}) // on B and C
		if m.Slots.String() != "4" || m.Fence <= ahead+1 {
			t.Fatalf("M has slot %v and fence %d; the schedule wants 4 and more than %d", m.Slots, m.Fence, ahead+1)
		}
		r2.release(m, 0)
		l.mustWait()
		execute(mends...)
		answer(mends...)
		r1.ways.Pass(enginetest.Any)
		if held := l.mustHold(); held.Slots.String() != "4" || held.Fence <= m.Fence {
			t.Errorf("L has slot %v with fence %d; slot 4 had fence %d before", held.Slots, held.Fence, m.Fence)
		}
	})
}

// mend-across-two-definitions: limit 10 -> 5 half done; A voted slot 8 under the old, B and C 3 and 4 under the new -> no
// grant beyond the new limit.
func TestScheduleMendAcrossTwoDefinitions(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 10})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows the old definition
		r2.a.Hold("accept")
		r2.declare(engine.Definition{Limit: 5})
		strays := []*engine.Release{
			s.stray(s.a, s.a.Time()+200_000, quorum.SlotsOf(0, 1, 2, 3, 4, 5, 6, 7, 9)), // A's ballot has the largest fence
			s.stray(s.b, 1, quorum.SlotsOf(0, 1, 2, 4)),
			s.stray(s.c, 1, quorum.SlotsOf(0, 1, 2, 3)),
		}
		r1.ways.Hold("claim")
		l := r1.ask(engine.Ask{})
		claims := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r1.c.Next("claim")}
		for i, want := range []string{"8", "3", "4"} {
			if got := claims[i].Execute().Slots.String(); got != want {
				t.Fatalf("node %d voted slot %s; the schedule wants %s", i, got, want)
			}
			s.do(s.Servers[i], strays[i])
		}
		answer(claims...)
		r1.ways.Pass(enginetest.Any)
		if held := l.mustHold(); len(held.Slots.From(5)) > 0 {
			t.Errorf("L has slot %v; the limit is 5", held.Slots)
		}
	})
}

// mend-across-two-definitions where the change comes between the votes and the mends: all voted under the old one, slot 8 on A -> no
// grant beyond the new limit.
func TestScheduleMendAcrossTwoDefinitionsOfVotesUnderOne(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 10})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows the old definition
		strays := []*engine.Release{
			s.stray(s.a, s.a.Time()+200_000, quorum.SlotsOf(0, 1, 2, 3, 4, 5, 6, 7, 9)), // A's ballot has the largest fence
			s.stray(s.b, 1, all(10).Minus(quorum.OneSlot(3))),
			s.stray(s.c, 1, all(10).Minus(quorum.OneSlot(4))),
		}
		r1.ways.Hold("claim")
		r1.ways.Hold("mend")
		l := r1.ask(engine.Ask{})
		claims := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r1.c.Next("claim")}
		execute(claims...)
		for i, server := range s.Servers {
			s.do(server, strays[i])
		}
		answer(claims...)
		mend := r1.b.Next("mend")
		if got := mend.Op.(*engine.Mend).Slots.String(); got != "8" {
			t.Fatalf("it is mended onto slot %s; the schedule wants 8", got)
		}
		r2.declare(engine.Definition{Limit: 5})
		r1.ways.Pass(enginetest.Any)
		if held := l.mustHold(); len(held.Slots.From(5)) > 0 {
			t.Errorf("L has slot %v; the limit is 5", held.Slots)
		}
	})
}

// crossed-ballots: L and M each win slot 0 on one node and slot 1 on another, with one node late -> both end with a slot, or
// one gives back; none lives on two slots.
func TestScheduleCrossedBallots(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		for _, r := range []*player{r1, r2} {
			r.ways.Hold("claim")
			r.ways.Hold("mend")
		}
		l, m := r1.ask(engine.Ask{Wait: time.Minute}), r2.ask(engine.Ask{Wait: time.Minute})
		cross := func(server *enginetest.Server, free int, first, second *enginetest.Message) {
			stray := s.stray(server, 1, quorum.OneSlot(1-free))
			first.Execute()
			s.do(server, stray)
			second.Execute()
		}
		claims := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r2.a.Next("claim"), r2.b.Next("claim")}
		cross(s.a, 0, claims[0], claims[2]) // A: L 0, M 1
		cross(s.b, 1, claims[1], claims[3]) // B: L 1, M 0
		answer(claims...)

		// With C late both are split, and mended onto slot 0, which each has on one node only.
		mends := []*enginetest.Message{
			r1.a.Next("mend", "new"), r1.b.Next("mend", "new"), r2.a.Next("mend", "new"), r2.b.Next("mend", "new"),
		}
		for i, want := range []engine.Says{engine.SaysMended, engine.SaysNo, engine.SaysNo, engine.SaysMended} {
			if op := mends[i].Op.(*engine.Mend); op.Slots.String() != "0" {
				t.Fatalf("mend %d is onto slot %v; the schedule wants 0", i, op.Slots)
			}
			if a := mends[i].Execute(); a.Says != want {
				t.Errorf("mend %d: %s; want %s", i, a.Says, want)
			}
		}
		s.everywhere(mends[1].Lease(), "", s.b) // refused there, it lets go of slot 1,
		s.everywhere(mends[2].Lease(), "", s.a) // or it would live on two
		answer(mends...)
		r1.ways.Pass(enginetest.Any) // C comes: L first
		r2.ways.Pass(enginetest.Any)
		time.Sleep(100 * time.Millisecond)
		first, second := l.mustHold(), m.mustHold()
		if first.Slots.Overlaps(second.Slots) {
			t.Errorf("L has slot %v and M %v", first.Slots, second.Slots)
		}
		s.everywhere(first.ID, first.Slots.String(), s.a, s.b, s.c)
		s.everywhere(second.ID, second.Slots.String(), s.a, s.b, s.c)
	})
}
