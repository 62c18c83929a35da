package engine_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// dead-replica-at-the-head: R1 dies with the oldest waiter -> R2's is served within 0.7 s of its turn (faults.md 7).
func TestScheduleDeadReplicaAtTheHead(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r3.declare(engine.Definition{Limit: 1})
		l := r3.acquire(engine.Ask{})
		gone := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		next := r2.ask(engine.Ask{Wait: time.Minute})
		r1.dies()
		r3.release(l, 0) // wakes nobody who is there
		time.Sleep(700 * time.Millisecond)
		next.mustHold()
		if l := gone.look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) { // R1 itself finds no node any more
			t.Errorf("R1's was told: %s %v", l.told, l.err)
		}
	})
}

// dead-replica-at-the-head, where other traffic wakes the next -> R2's is served within 0.1 s of its turn.
func TestScheduleDeadReplicaAtTheHeadAmongTraffic(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2, r3 := s.player(), s.player(), s.player()
		r3.declare(engine.Definition{Limit: 1})
		l := r3.acquire(engine.Ask{})
		r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		next := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		r1.dies()
		r3.release(l, 0)
		for range 21 { // so that its own recheck does not serve it
			time.Sleep(5 * time.Millisecond)
			r3.ask(engine.Ask{}).mustBeRefused()
		}
		next.mustHold()
	})
}

// replica-clocks-an-hour-apart -> order of arrival.
func TestScheduleReplicaClocksAnHourApart(t *testing.T) {
	for _, ahead := range [][2]time.Duration{{0, time.Hour}, {time.Hour, 0}, {5 * time.Second, 0}} {
		t.Run(fmt.Sprint("R1 by ", ahead[0], ", R2 by ", ahead[1]), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				now := s.Now
				var both [2]*player
				for i, by := range ahead {
					s.Now = func() time.Duration { return now() + by }
					both[i] = s.player()
				}
				r1, r2 := both[0], both[1]
				r1.declare(engine.Definition{Limit: 1})
				l := r1.acquire(engine.Ask{})
				var line []*asked
				for _, r := range []*player{r2, r1, r2, r1} {
					line = append(line, r.ask(engine.Ask{Wait: time.Minute}))
					time.Sleep(time.Millisecond)
				}
				r1.release(l, 0)
				for i, first := range line {
					l := first.mustHold()
					for _, later := range line[i+1:] {
						later.mustWait()
					}
					r1.release(l, 0)
				}
			})
		})
	}
}

// remote-cancel-wakes: the head at R1 is cancelled; R2's next fits -> served at once. (faults.md 3: limit 10, 8 used, the first wants
// 5, the second 2.)
func TestScheduleRemoteCancelWakes(t *testing.T) {
	play(t, func(t *testing.T, s *stage) { s.headIsCancelled(s.player(), s.player()) })
}

// remote-cancel-wakes where both wait at one replica.
func TestCancellingTheHeadLetsTheNextThroughAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r := s.player()
		s.headIsCancelled(r, r)
	})
}

func (s *stage) headIsCancelled(r1, r2 *player) {
	r1.declare(engine.Definition{Limit: 10})
	r1.acquire(engine.Ask{Permits: 8})
	first := r1.ask(engine.Ask{Permits: 5, Wait: time.Minute})
	time.Sleep(time.Millisecond)
	second := r2.ask(engine.Ask{Permits: 2, Wait: time.Minute})
	time.Sleep(300 * time.Millisecond)
	second.mustWait()
	first.Cancel()
	second.mustHold() // without any time passing
	s.noPlaces()
}

// release between refusal and place -> nobody waits (faults.md 1). A release may reach a node before the claim of the next waiter or
// after it, and its wake-up before the answer to the claim or after it: whichever way, the waiter is served at once.
func TestScheduleReleaseBetweenRefusalAndPlace(t *testing.T) {
	for order := range 8 {
		for _, wakesFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("claim first on %03b, wakes first %v", order, wakesFirst), func(t *testing.T) {
				play(t, func(t *testing.T, s *stage) {
					r1, r2 := s.player(), s.player()
					r1.declare(engine.Definition{Limit: 1})
					l := r1.acquire(engine.Ask{})
					r2.ways.Hold("claim")
					r1.ways.Hold("release")
					if !wakesFirst {
						r2.ways.Hold("wake")
					}
					go r1.giveBack(l)
					waiter := r2.ask(engine.Ask{Wait: time.Minute})
					for i := range s.Servers {
						claim, release := r2.ways[i].Next("claim"), r1.ways[i].Next("release")
						if order>>i&1 == 1 {
							execute(claim, release)
						} else {
							execute(release, claim)
						}
						answer(release, claim)
					}
					r1.ways.Pass(enginetest.Any)
					r2.ways.Pass(enginetest.Any)
					time.Sleep(10 * time.Millisecond)
					waiter.mustHold()
					s.noPlaces()
				})
			})
		}
	}
}

// cancel at the instant of the grant, again and again -> nothing is left behind (faults.md 8). Each moment of a request's life by
// itself: TestACancelledRequestLeavesNothingBehind.
func TestScheduleCancelAtTheInstantOfTheGrant(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.playerOver(near), s.playerOver(near)
		r1.declare(engine.Definition{Limit: 2})
		for i := range oftenIn(t, 10_000) {
			r := []*player{r1, r2}[i%2]
			request := r.ask(engine.Ask{Wait: time.Minute, Permits: 1 + i%2})
			time.Sleep(rand.N(1600 * time.Microsecond)) // a grant takes 0.2 to 1.6 ms
			request.Cancel()
		}
		time.Sleep(50 * time.Millisecond)
		s.uses(r1, 0)
		s.noPlaces()
	})
}

// rounds is how often tests do again what goes wrong rarely, if it is not 0. make bench-faults plays 100,000.
var rounds = flag.Int("rounds", 0, "how often tests do again what goes wrong rarely; 0: as each says")

// oftenIn is how often a test does again what goes wrong rarely: n times, less under the race detector and when time is short.
func oftenIn(t *testing.T, n int) int {
	t.Helper()
	switch {
	case *rounds > 0:
		return *rounds
	case testing.Short() || raceDetector:
		return n / 20
	}
	return n
}

// heavier-than-a-shrunken-limit -> it is refused at once, wherever it waits, and those behind it do not wait for it.
func TestScheduleHeavierThanAShrunkenLimit(t *testing.T) {
	tooHeavy := func(t *testing.T, r *asked) {
		t.Helper()
		var told *engine.WeightError
		if l := r.look(); !errors.As(l.err, &told) || told.Limit != 2 || told.Weight != 3 {
			t.Errorf("told: %s %v", l.told, l.err)
		}
	}
	t.Run("while it waits, here or elsewhere", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			r1, r2 := s.player(), s.player()
			r1.declare(engine.Definition{Limit: 3})
			r1.release(r1.acquire(engine.Ask{Permits: 3}), 1) // slot 0, below the limit to come
			heavy := r1.ask(engine.Ask{Permits: 3, Wait: time.Hour})
			time.Sleep(time.Millisecond)
			other := r2.ask(engine.Ask{Permits: 3, Wait: time.Hour})
			time.Sleep(time.Millisecond)
			light := r2.ask(engine.Ask{Wait: time.Hour})
			r1.declare(engine.Definition{Limit: 2})
			time.Sleep(time.Second) // R2 hears of it at its next claim
			tooHeavy(t, heavy)
			tooHeavy(t, other)
			light.mustHold()
			s.noPlaces()
			s.uses(r1, 2)
		})
	})
	t.Run("while its claim is under way", func(t *testing.T) {
		play(t, func(t *testing.T, s *stage) {
			r1, r2 := s.player(), s.player()
			r1.declare(engine.Definition{Limit: 3})
			r1.release(r1.acquire(engine.Ask{}), 0)
			r1.ways.Hold("peek")
			r1.ways.Hold("claim")
			r2.declare(engine.Definition{Limit: 2}) // R1 asks for it
			heavy := r1.ask(engine.Ask{Permits: 3, Wait: time.Hour})
			light := r1.ask(engine.Ask{Wait: time.Hour})
			r1.ways.Pass("peek")
			synctest.Wait() // R1 has read it; the claim is executed now
			r1.ways.Pass("claim")
			tooHeavy(t, heavy)
			light.mustHold()
			s.noPlaces()
			s.uses(r1, 1)
		})
	})
}
