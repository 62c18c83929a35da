package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestAReplicaThatDoesNotKnowALeaseFindsIt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		l := r1.acquire(engine.Ask{Permits: 2, Holder: engine.HolderInfo{Holder: "anna"}})
		for range 10 { // longer than R1's own validity
			time.Sleep(10 * time.Second)
			renewed, err := r2.renew(l, 0).verdict()
			if err != nil || renewed.ID != l.ID || renewed.Fence != l.Fence || !renewed.Slots.Equal(l.Slots) || renewed.Holder != "anna" {
				t.Fatalf("renewed by R2: %+v, %v", renewed, err)
			}
			if renewed.Capability != l.Capability || renewed.Validity < 29*time.Second || renewed.TTL != 30*time.Second {
				t.Errorf("renewed by R2: %+v", renewed)
			}
		}
		if owner := s.a.Record(db, l.ID).Owner; owner.Gen != 1 {
			t.Errorf("its owner is %+v; R2 attached it once", owner)
		}
		if renewed, err := r1.renew(l, time.Minute).verdict(); err != nil || renewed.Validity < 59*time.Second {
			t.Errorf("renewed by R1 again: %+v, %v", renewed, err)
		}
		r2.release(l, 0)
		s.uses(r1, 0)
		if _, err := r1.renew(l, 0).verdict(); !errors.Is(err, engine.ErrLeaseReleased) {
			t.Errorf("renewed after its release: %v", err)
		}
	})
}

func TestARenewalWithoutATTLMeansTheOneBefore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 20 * time.Second})
		for _, c := range []struct {
			by        *player
			ttl, want time.Duration
		}{
			{r1, 0, 20 * time.Second},
			{r1, time.Minute, time.Minute},
			{r1, 0, time.Minute},
			{r2, 0, 20 * time.Second}, // it knows what was asked for at first
			{r2, 2 * time.Minute, 2 * time.Minute},
			{r2, 0, 2 * time.Minute},
		} {
			time.Sleep(10 * time.Second)
			if got, err := c.by.renew(l, c.ttl).verdict(); err != nil || got.TTL != c.want || got.RenewAfter != c.want/3 {
				t.Errorf("renewed with %v: for %v, to be renewed after %v, %v; want %v", c.ttl, got.TTL, got.RenewAfter, err, c.want)
			}
		}
	})
}

func TestAKeptLeaseThatIsAttachedElsewhereHasMoved(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		l := request.mustHold()
		time.Sleep(5 * time.Second)
		if _, err := r2.renew(l, 0).verdict(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Second + time.Millisecond) // R1's own renewal
		request.mustBeLost("moved")
		request.Cancel() // what has moved is not its any more
		synctest.Wait()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

func TestAKeptLeaseThatWasReleasedElsewhereIsLost(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		r2.release(request.mustHold(), 0)
		r2.acquire(engine.Ask{})
		time.Sleep(10*time.Second + time.Millisecond) // R1's renewal
		request.mustBeLost("released")
	})
}

func TestAKeptLeaseThatWasPartedElsewhereGoesOnWithTheRest(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		request := r1.ask(engine.Ask{Kept: true, Permits: 3})
		l := request.mustHold()
		time.Sleep(time.Second)
		r2.release(l, 1)
		m := r2.ask(engine.Ask{Kept: true, Permits: 2})
		time.Sleep(5 * time.Minute)
		request.mustHold()
		m.mustHold()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		request.Cancel()
		synctest.Wait()
		s.uses(r1, 2)
	})
}

func TestDrainingRenewsWhatIsKeptOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		l := request.mustHold()
		time.Sleep(9 * time.Second)
		r1.Drain(t.Context())
		synctest.Wait() // it returns when two nodes have renewed
		if r := s.a.Record(db, l.ID); r == nil || r.Left != 30*time.Second {
			t.Errorf("after the drain A has %+v", r)
		}
		r1.Close()
		r1.Close()
		time.Sleep(25 * time.Second)
		if renewed, err := r2.renew(l, 0).verdict(); err != nil || renewed.Validity < 29*time.Second {
			t.Errorf("attached elsewhere: %+v, %v", renewed, err)
		}
	})
}
