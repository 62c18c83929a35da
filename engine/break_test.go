package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestABrokenLeaseIsOverForItsHolderAndFreesItsPermits(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2, MinHold: time.Hour}) // what is broken never cools
		holder := engine.HolderInfo{Holder: "anna", Principal: "ci", Address: "10.0.0.7", Via: "http"}
		here, there := r1.acquire(engine.Ask{Holder: holder}), r2.acquire(engine.Ask{Holder: holder})
		for _, l := range []engine.Lease{here, there} {
			want := engine.Broken{ID: l.ID, Weight: 1, HolderInfo: holder}
			if got, err := r1.Break(t.Context(), db, l.ID); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
			synctest.Wait()
			s.everywhere(l.ID, "", s.a, s.b, s.c)
			for _, r := range []*player{r1, r2} {
				if got, err := r.Break(t.Context(), db, l.ID); err != nil || got.ID != l.ID {
					t.Errorf("again: %+v, %v", got, err)
				}
				if _, err := r.renew(l, 0).verdict(); !errors.Is(err, engine.ErrLeaseBroken) {
					t.Errorf("renewed: %v", err)
				}
				if _, err := r.Release(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrLeaseBroken) {
					t.Errorf("released: %v", err)
				}
			}
		}
		r2.acquire(engine.Ask{Permits: 2})
	})
}

func TestAHolderHearsOfABreakBeforeTheNextIsGranted(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		held := r1.ask(engine.Ask{Kept: true})
		l := held.mustHold()
		next := r1.ask(engine.Ask{Wait: time.Minute})
		next.mustWait()
		if _, err := r1.Break(t.Context(), db, l.ID); err != nil {
			t.Error(err)
		}
		held.mustBeLost("broken")
		next.mustHold()
	})
}

func TestAHolderAtAnotherReplicaHearsOfABreakWithItsNextRenewal(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		held := r1.ask(engine.Ask{Kept: true, TTL: 30 * time.Second})
		l := held.mustHold()
		if _, err := r2.Break(t.Context(), db, l.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Second)
		held.mustBeLost("broken")
	})
}

func TestWhatIsNotHeldCannotBeBroken(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		released := r1.acquire(engine.Ask{})
		r1.release(released, 0)
		for id, want := range map[string]error{released.ID: engine.ErrLeaseReleased, "aaaaaaaaaaaaaaaa": engine.ErrUnknownLease, "": engine.ErrUnknownLease} {
			for _, r := range []*player{r1, r2} {
				if got, err := r.Break(t.Context(), db, id); !errors.Is(err, want) {
					t.Errorf("%q: %+v, %v; want %v", id, got, err, want)
				}
			}
		}
	})
}

func TestWhatIsDeletedWithItsHoldersIsGoneForThemAndForThoseWhoWait(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		held := r1.ask(engine.Ask{Kept: true})
		here, there := held.mustHold(), r2.acquire(engine.Ask{})
		waits := r1.ask(engine.Ask{Wait: time.Minute})
		waits.mustWait()
		if _, err := r1.DeleteBreaking(t.Context(), db, engine.Condition{IfRev: 7}, "test"); !errors.Is(err, engine.ErrRevMismatch) {
			t.Error(err)
		}
		broken, err := r1.DeleteBreaking(t.Context(), db, engine.Condition{IfRev: 1}, "test")
		if err != nil || len(broken) != 2 {
			t.Errorf("%+v, %v", broken, err)
		}
		held.mustBeLost("deleted")
		if got := waits.look(); !errors.Is(got.err, engine.ErrUnknownSemaphore) {
			t.Errorf("who waits was told: %s", got.told)
		}
		if _, err := r1.Semaphore(t.Context(), db); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Error(err)
		}
		for _, l := range []engine.Lease{here, there} {
			s.everywhere(l.ID, "", s.a, s.b, s.c)
		}
		if _, err := r1.DeleteBreaking(t.Context(), db, engine.Condition{}, "test"); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Error(err)
		}
	})
}

func TestADeletionThatFindsNobodyBreaksNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		if broken, err := r1.DeleteBreaking(t.Context(), db, engine.Condition{}, "test"); err != nil || len(broken) > 0 {
			t.Errorf("%+v, %v", broken, err)
		}
	})
}
