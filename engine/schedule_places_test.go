package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// lineOf fails the test unless the server has exactly so many places.
func (s *stage) lineOf(server *enginetest.Server, places int) {
	s.t.Helper()
	if page, _ := server.View(db); len(page.Places) != places {
		s.t.Errorf("the line of %s is %+v; want %d places", server.Name(), page.Places, places)
	}
}

// line-after-a-newer-place: line(H2) arrives where H2 was granted meanwhile -> ignored (was differs).
func TestScheduleLineAfterANewerPlace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r2.acquire(engine.Ask{})
		h1 := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		h2 := r1.ask(engine.Ask{Wait: time.Minute})
		r1.c.Hold("line")
		r2.c.Hold("release")
		r2.release(l, 0) // on A and B: C refuses H1, and keeps its place
		first := h1.mustHold()
		line := r1.c.Next("line")
		if p := line.Placement; p.Mode != engine.PlaceIfWas || p.Place.Order == p.Was || p.Place.Order.IsZero() {
			t.Fatalf("the line states %+v; the schedule wants H2 in the place of H1", p)
		}
		r1.c.Cut()
		r1.c.Pass("line")
		r2.c.Pass("release")
		time.Sleep(200 * time.Millisecond) // C is back
		r1.release(first, 0)
		h2.mustHold()
		s.noPlaces()
		line.Execute()
		s.lineOf(s.c, 0)
	})
}

// give-back-after-a-newer-claim: an old give-back names a place that is gone -> not set. (W was granted by C alone; by the time
// that R1 hears so, it claims for W again.)
func TestScheduleGiveBackAfterANewerClaim(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r2.c.Disconnect()
		l := r2.acquire(engine.Ask{}) // on A and B
		r1.ways.Hold("claim")
		w := r1.ask(engine.Ask{Wait: time.Minute})
		old := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r1.c.Next("claim")}
		execute(old...)
		answer(old[:2]...)
		w.mustWait()
		r2.release(l, 0) // A and B wake W
		newer := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r1.c.Next("claim")}
		r1.c.Hold("release", engine.WhyGivenBack)
		execute(newer...)
		old[2].Answer()
		back := r1.c.Next("release", engine.WhyGivenBack)
		back.Execute()
		s.lineOf(s.c, 0)
		answer(newer...)
		w.mustHold()
		r1.ways.Pass(enginetest.Any)
		time.Sleep(10 * time.Millisecond)
		s.noPlaces()
	})
}

// resent-give-back-of-an-old-place: the same where the give-back is lost, W is granted by A and B meanwhile, and the give-back
// is sent again.
func TestScheduleResentGiveBackOfAnOldPlace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r2.c.Disconnect()
		l := r2.acquire(engine.Ask{}) // on A and B
		r1.c.Hold("release", engine.WhyGivenBack)
		w := r1.ask(engine.Ask{Wait: time.Minute})
		lost := r1.c.Next("release", engine.WhyGivenBack)
		if p := lost.Placement; p.Mode != engine.PlaceIfLast || p.Place.Order.IsZero() {
			t.Fatalf("the give-back states %+v; the schedule wants the place of W", p)
		}
		r1.c.Disconnect()
		r2.release(l, 0)
		w.mustHold() // by A and B
		r1.c.Connect()
		back := r1.c.NextWithin(time.Second, "release", engine.WhyGivenBack)
		back.Execute()
		s.lineOf(s.c, 0)
		r1.ways.Pass(enginetest.Any)
		time.Sleep(100 * time.Millisecond)
		s.noPlaces()
	})
}

// wake-for-the-next-waiter: the wake for H2 arrives before H1's verdict -> H2 claims at once after it.
func TestScheduleWakeForTheNextWaiter(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l, m := r2.acquire(engine.Ask{}), r2.acquire(engine.Ask{})
		h1 := r1.ask(engine.Ask{Wait: time.Minute})
		h2 := r1.ask(engine.Ask{Wait: time.Minute})
		h2.mustWait() // and was refused, if it claimed
		r1.ways.Hold("claim")
		r2.release(l, 0)
		claims := []*enginetest.Message{r1.a.Next("claim"), r1.b.Next("claim"), r1.c.Next("claim")}
		execute(claims...) // H1 is granted; H2 stands in its place
		r2.release(m, 0)   // wakes H2
		h1.mustWait()
		r1.ways.Pass("claim")
		answer(claims...)
		h1.mustHold()
		h2.mustHold() // without any time passing
	})
}

// yes-given-back-while-a-node-is-down: A yes, B no, C down; A's yes is given back -> the next wake of B alone is enough.
func TestScheduleYesGivenBackWhileANodeIsDown(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r2.a.Disconnect()
		l := r2.acquire(engine.Ask{}) // on B and C
		r1.c.Disconnect()
		w := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(100 * time.Millisecond)
		w.mustWait()
		r2.release(l, 0)
		w.mustHold() // without any time passing
		s.everywhere(w.mustHold().ID, "0", s.a, s.b)
	})
}

// mend-meets-a-passing-ballot: the slot to mend onto is held for 0.2 ms by another wrong ballot -> mended a moment later.
func TestScheduleMendMeetsAPassingBallot(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		wrong := s.stray(s.c, 1, quorum.OneSlot(0))
		l := r1.acquire(engine.Ask{})
		synctest.Wait()
		s.everywhere(l.ID, "", s.c)
		time.Sleep(200 * time.Microsecond)
		s.do(s.c, wrong)
		time.Sleep(5 * time.Millisecond)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// false-behind-with-permits-free: 100 permits free, R1 has a claim under way -> R2 is not refused.
func TestScheduleFalseBehindWithPermitsFree(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r1.declare(engine.Definition{Limit: 100})
		l := r3.acquire(engine.Ask{Permits: 100})
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		r1.ways.Hold("claim")
		r3.release(l, 0)
		claim := r1.a.Next("claim") // R1's place is still there
		s.lineOf(s.a, 1)
		r2.acquire(engine.Ask{}) // a try, which would not wait
		r2.acquire(engine.Ask{Permits: 98})
		r2.ask(engine.Ask{}).mustBeRefused() // of R1's
		claim.Deliver()
		r1.ways.Pass("claim")
		first.mustHold()
	})
}

// refused-mend-wakes-its-own: of five nodes A has slot 1 free, B and C slot 2, D and E slots 0 and 2. The oldest waiter is granted slot 1
// on A, 2 on B and C, and 0 on D and E, and mended onto 0; A, B and C refuse that and drop what they granted -> they wake it, and not the
// next, who would be granted slot 2.
func TestScheduleRefusedMendWakesItsOwn(t *testing.T) {
	playOn(t, 5, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		var freed []*engine.Release
		for i, kept := range [][]int{{0, 2}, {0, 1}, {0, 1}, {1}, {1}} {
			slots := quorum.SlotsOf(kept...)
			s.stray(s.Servers[i], 0, slots)
			freed = append(freed, s.stray(s.Servers[i], 0, all(3).Minus(slots)))
		}
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		r1.ways.Hold("claim")
		for i, server := range s.Servers {
			s.do(server, freed[i])
		}
		for _, way := range r1.ways {
			way.Next("claim").Op.(*engine.Claim).Start = 0 // as if no wake had named a slot
		}
		claims := s.count(s.a, "claim")
		r1.ways.Pass(enginetest.Any)
		time.Sleep(5 * time.Millisecond)
		first.mustHold()
		second.mustWait()
		if n := claims.Load(); n != 2 { // from the slot after 0 on it finds the one that three nodes have
			t.Errorf("there were %d claims", n)
		}
	})
}
