package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// C votes for another slot than A and B did, after the verdict: it is put right, or a slot would be taken there by nobody.
func TestALateBallotThatDiffersIsMended(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.release(r1.acquire(engine.Ask{}), 0)
		r1.c.Hold("claim")
		l := r1.acquire(engine.Ask{})
		stray := s.stray(s.c, 1, l.Slots)
		claim := r1.c.Next("claim")
		claim.Execute()
		s.everywhere(l.ID, quorum.SlotsOf(0, 1).Minus(l.Slots).String(), s.c)
		s.do(s.c, stray)
		claim.Answer()
		synctest.Wait()
		s.everywhere(l.ID, l.Slots.String(), s.a, s.b, s.c)
	})
}

// A and B have granted a claim, and their answers are lost: too few are heard, and what they have is given back.
func TestWhatWasGrantedAndNotHeardIsGivenBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.release(r1.acquire(engine.Ask{}), 0)
		r1.ways.Hold("claim")
		request := r1.ask(engine.Ask{Wait: time.Minute})
		execute(r1.a.Next("claim"), r1.b.Next("claim"))
		r1.a.Cut()
		r1.b.Cut()
		r1.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		if got := request.look(); !errors.Is(got.err, engine.ErrQuorumUnavailable) {
			t.Errorf("told: %s %v", got.told, got.err)
		}
		s.empty()
		s.noPlaces()
		r1.acquire(engine.Ask{})
	})
}
