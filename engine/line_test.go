package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestAWaiterOfAPausedSemaphoreClaimsNowAndThenAndIsServedAtTheEndOfThePause(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 3, Paused: true})
		claims := s.count(s.a, "claim")
		request := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(10 * time.Second)
		request.mustWait()
		if n := claims.Load(); n > 25 {
			t.Errorf("in 10 s of pause there were %d claims", n)
		}
		r1.declare(engine.Definition{Limit: 3})
		request.mustHold()
	})
}
