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

// endings are the ways to end a lease through a replica that does not know it, and what its holder hears.
var endings = []struct {
	lost string
	end  func(t *testing.T, r *player, l engine.Lease)
}{
	{"broken", func(t *testing.T, r *player, l engine.Lease) {
		if got, err := r.Break(t.Context(), db, l.ID); err != nil || got.Again || got.Weight != 1 {
			t.Errorf("broken: %+v, %v", got, err)
		}
	}},
	{"deleted", func(t *testing.T, r *player, _ engine.Lease) {
		if got, err := r.DeleteBreaking(t.Context(), db, engine.Condition{}, "test"); err != nil || len(got) != 1 {
			t.Errorf("deleted: %+v, %v", got, err)
		}
	}},
	{"released", func(_ *testing.T, r *player, l engine.Lease) { r.giveBack(l) }},
}

func TestAHolderHearsAtOnceOfWhatEndsItsLeaseThroughAnotherReplica(t *testing.T) {
	for _, c := range endings {
		t.Run(c.lost, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1, MinHold: time.Minute})
				held := r1.ask(engine.Ask{Kept: true})
				l := held.mustHold()
				c.end(t, r2, l)
				held.mustBeLost(c.lost)
				if c.lost == "broken" {
					r2.acquire(engine.Ask{}) // it cools nowhere
				}
			})
		})
	}
}

// The last node is told 100 ms after the others.
func TestAHolderHearsOfABreakThatANodeHearsOfLate(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1, MinHold: time.Minute})
		held := r1.ask(engine.Ask{Kept: true})
		l := held.mustHold()
		r2.b.Hold("release")
		r2.c.Hold("release")
		go func() {
			if _, err := r2.Break(t.Context(), db, l.ID); err != nil {
				t.Error(err)
			}
		}()
		held.look()
		held.mustHold() // one node has it no more
		r2.b.Pass("release")
		held.mustBeLost("broken")
		time.Sleep(100 * time.Millisecond)
		r2.c.Pass("release")
		synctest.Wait()
		if page, _ := s.c.View(db); len(page.Cooling) > 0 {
			t.Errorf("on C cools %+v", page.Cooling)
		}
	})
}

func TestAHolderThatNobodyTellsHearsWithItsNextRenewal(t *testing.T) {
	for _, c := range endings {
		t.Run(c.lost, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				held := r1.ask(engine.Ask{Kept: true, TTL: 30 * time.Second})
				l := held.mustHold()
				r1.ways.Hold("wake")
				c.end(t, r2, l)
				held.mustHold()
				time.Sleep(11 * time.Second)
				held.mustBeLost(c.lost)
			})
		})
	}
}

// Who kept a lease renews what is left of it at the first try, as it has heard of the part.
func TestAReplicaHearsOfAPartThatIsGivenBackElsewhere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		held := r1.ask(engine.Ask{Permits: 3, Kept: true, TTL: 30 * time.Second})
		l := held.mustHold()
		r2.release(l, 1)
		renewals := s.count(s.a, "renew")
		time.Sleep(11 * time.Second)
		if n := renewals.Load(); n != 1 {
			t.Errorf("it was renewed %d times", n)
		}
		held.mustHold()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// Whoever releases or breaks what it knows tells nobody else.
func TestNobodyElseIsToldOfWhatIsEndedWhereItIsKept(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		r2.ways.Hold("wake")
		r1.release(r1.acquire(engine.Ask{}), 0)
		l := r1.acquire(engine.Ask{Permits: 3})
		r1.release(l, 1)
		if _, err := r1.Break(t.Context(), db, l.ID); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, way := range r2.ways {
			way.None("wake")
		}
	})
}

// Also where the replica that knows the lease has not heard of what ended it.
func TestWhatEndedALeaseFirstIsAnsweredByEveryReplica(t *testing.T) {
	for _, hears := range []bool{true, false} {
		t.Run(map[bool]string{true: "which hears of it", false: "which does not hear of it"}[hears], func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 2})
				if !hears {
					r1.ways.Hold("wake")
				}
				broken, released := r1.acquire(engine.Ask{}), r1.acquire(engine.Ask{})
				if got, err := r2.Break(t.Context(), db, broken.ID); err != nil || got.Again || got.Weight != 1 {
					t.Errorf("broken: %+v, %v", got, err)
				}
				r2.release(released, 0)
				for range 2 {
					for _, r := range []*player{r1, r2} {
						if got, err := r.Release(t.Context(), db, broken.Capability, 0); !errors.Is(err, engine.ErrLeaseBroken) {
							t.Errorf("what was broken is released: %+v, %v", got, err)
						}
						if got, err := r.Break(t.Context(), db, released.ID); !errors.Is(err, engine.ErrLeaseReleased) {
							t.Errorf("what was released is broken: %+v, %v", got, err)
						}
						if got, err := r.Break(t.Context(), db, broken.ID); err != nil || !got.Again {
							t.Errorf("broken again: %+v, %v", got, err)
						}
						if got, err := r.Release(t.Context(), db, released.Capability, 0); err != nil || !got.Again {
							t.Errorf("released again: %+v, %v", got, err)
						}
					}
				}
			})
		})
	}
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
