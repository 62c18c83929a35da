package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// give-back-after-an-attach: R1 is granted L, its answer is lost; R2 attaches and answers; R1 gives back -> L stays. (Answer lost at
// replica A, replayed at replica B, A gives back: never two holders, never a lost lease.)
func TestScheduleGiveBackAfterAnAttach(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", Kept: true}
		first := r1.ask(ask)
		l := first.mustHold()
		again := r2.ask(ask)
		again.mustHold()
		next := r1.ask(engine.Ask{Wait: time.Hour})
		first.Cancel() // its connection was lost
		for range 12 {
			time.Sleep(10 * time.Second)
			next.mustWait()
			again.mustHold()
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		again.Cancel()
		next.mustHold()
	})
}

// The same where R1 gives back before it has answered, and that reaches so many nodes before R2 attaches there.
func TestScheduleGiveBackAgainstAnAttach(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int // nodes that hear the give-back first
		stays  bool
	}{
		{"after it everywhere", 0, true},
		{"before it on one node", 1, true},
		{"before it on two nodes", 2, false},
		{"before it everywhere", 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				ask := engine.Ask{Key: "k", Kept: true}
				first := r1.ask(ask)
				l := first.mustHold()
				r2.ways.Hold("attach")
				again := r2.ask(ask)
				attaches := []*enginetest.Message{r2.a.Next("attach"), r2.b.Next("attach"), r2.c.Next("attach")}
				r1.ways.Hold("release")
				first.Cancel()
				for i, way := range r1.ways {
					if giveBack := way.Next("release"); i < c.before {
						giveBack.Execute()
						attaches[i].Execute()
					} else {
						attaches[i].Execute()
						giveBack.Execute()
					}
				}
				answer(attaches...)
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				if c.stays {
					if got := again.mustHold(); got.Fence != l.Fence {
						t.Errorf("the first answer is %+v, the second %+v", l, got)
					}
					r1.ask(engine.Ask{}).mustBeRefused()
				} else {
					again.mustFail(engine.ErrInProgress)
					time.Sleep(11 * time.Second) // C alone may have it, until it is cleaned away
					again = r2.ask(ask)
					if got := again.mustHold(); got.Fence <= l.Fence {
						t.Errorf("asked again: %+v, before: %+v", got, l)
					}
				}
				time.Sleep(time.Minute)
				again.mustHold()
				s.everywhere(l.ID, "0", s.a, s.b, s.c)
			})
		})
	}
}

// three-attaches: R1, R2, R3 attach at once -> one owner, the others hear moved.
func TestScheduleThreeAttaches(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		all := []*player{s.player(), s.player(), s.player()}
		all[0].declare(engine.Definition{Limit: 1})
		first := all[0].ask(engine.Ask{Kept: true})
		l := first.mustHold()
		var requests []*asked
		for _, p := range all {
			p.ways.Hold("attach")
			requests = append(requests, p.attach(l))
		}
		for node := range s.Servers { // each hears them in another order
			for i := range all {
				all[(node+i)%3].ways[node].Next("attach").Execute()
			}
		}
		for _, p := range all {
			p.ways.Pass(enginetest.Any)
		}
		time.Sleep(2 * time.Minute)
		held := 0
		for i, r := range append(requests, first) {
			switch l := r.look(); {
			case l.holds():
				held++
			case l.lost != "moved" && !errors.Is(l.err, engine.ErrInProgress):
				t.Errorf("request %d was told %s; %v", i, l.told, l.err)
			}
		}
		if held != 1 {
			t.Errorf("%d of them hold it", held)
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		owner := s.record(s.a, l.ID).Owner
		if b, c := s.record(s.b, l.ID).Owner, s.record(s.c, l.ID).Owner; owner != b || owner != c {
			t.Errorf("the owners are %v, %v, %v", owner, b, c)
		}
	})
}

// find-then-part-then-attach: R2 finds {0,1}; the holder gives back 0; R2 attaches -> no; never answered with {0,1}.
func TestScheduleFindThenPartThenAttach(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		ask := engine.Ask{Key: "k", Permits: 2}
		l := r1.acquire(ask)
		r2.ways.Hold("attach")
		again := r2.ask(ask)
		attaches := []*enginetest.Message{r2.a.Next("attach"), r2.b.Next("attach"), r2.c.Next("attach")}
		r1.release(l, 1)
		for _, m := range attaches {
			if a := m.Execute(); a.Says != engine.SaysNo {
				t.Errorf("the attach is %s", a.Says)
			}
		}
		answer(attaches...)
		r2.ways.Pass(enginetest.Any)
		again.mustFail(engine.ErrInProgress)
		if got := r2.acquire(ask); got.Weight != 1 || got.Slots.String() != "0" {
			t.Errorf("asked again: %+v", got)
		}
	})
}

// release-meets-the-next-grant-of-a-key: the release of K's lease waits for C; K is granted again on A, B; it arrives -> the new lease
// stays.
func TestScheduleReleaseMeetsTheNextGrantOfAKey(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", TTL: 10 * time.Minute}
		l := r1.acquire(ask)
		r1.ways.Hold("release")
		go r1.giveBack(l)
		releases := []*enginetest.Message{r1.a.Next("release"), r1.b.Next("release"), r1.c.Next("release")}
		releases[0].Deliver()
		releases[1].Deliver()
		r2.c.Disconnect()
		time.Sleep(61 * time.Second)
		again := r2.acquire(ask)
		if again.ID != l.ID || again.Fence <= l.Fence || again.Replayed {
			t.Errorf("the new lease is %+v, the old %+v", again, l)
		}
		releases[2].Deliver() // too late: it is sent again
		releases[2] = r1.c.NextWithin(time.Second, "release")
		for i, server := range s.Servers {
			if a := s.do(server, releases[i].Op); a.Says != engine.SaysReleased {
				t.Errorf("%s says %s", server.Name(), a.Says)
			}
		}
		s.everywhere(l.ID, "0", s.a, s.b)
		s.everywhere(l.ID, "", s.c)
		r2.c.Connect()
		if _, err := r2.renew(again, 0).verdict(); err != nil {
			t.Error(err)
		}
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// attachedOnC is a lease that a replica holds, and that another, which then died, has attached on C only.
func (s *stage) attachedOnC(r1 *player, ask engine.Ask) (first *asked, l engine.Lease) {
	s.t.Helper()
	first = r1.ask(ask)
	l = first.mustHold()
	r2 := s.player()
	r2.ways.Hold("attach")
	r2.attach(l)
	r2.a.Next("attach")
	r2.b.Next("attach")
	if a := r2.c.Next("attach").Execute(); a.Says != engine.SaysAttached {
		s.t.Fatalf("C says %s", a.Says)
	}
	r2.dies()
	return first, l
}

// acknowledged-release-leaves-no-record: a release that names a smaller owner than one node has -> not acknowledged there.
func TestScheduleAcknowledgedReleaseLeavesNoRecord(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		first, l := s.attachedOnC(r1, engine.Ask{Kept: true, TTL: time.Minute})
		r1.c.Hold("release")
		first.Cancel()
		if a := r1.c.Next("release").Deliver(); a.Says != engine.SaysKept {
			t.Errorf("C says %s", a.Says)
		}
		s.everywhere(l.ID, "", s.a, s.b)
		s.everywhere(l.ID, "0", s.c)
	})
}

// attached-leftover-is-cleaned: what was attached on one node only, before it was released on the others, is cleaned away by the
// owner that is found.
func TestScheduleAttachedLeftoverIsCleaned(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r3 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", Kept: true, TTL: time.Minute}
		first, l := s.attachedOnC(r1, ask)
		first.Cancel()
		synctest.Wait()
		s.everywhere(l.ID, "", s.a, s.b)
		r1.dies()
		r3.ask(ask).mustFail(engine.ErrInProgress)
		time.Sleep(10*time.Second + time.Millisecond)
		again := r3.ask(ask)
		if got := again.mustHold(); got.Fence <= l.Fence || got.Replayed {
			t.Errorf("asked again: %+v", got)
		}
		synctest.Wait()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// renew-and-attach-on-different-quorums: attach on A, C; first-minute renewal on A, B -> the old owner's give-back kills nothing.
func TestScheduleRenewAndAttachOnDifferentQuorums(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", Kept: true, TTL: 2 * time.Minute}
		r1.ways.Hold("renew")
		first := r1.ask(ask)
		renewals := []*enginetest.Message{r1.a.Next("renew"), r1.b.Next("renew")}
		r2.ways.Hold("attach")
		again := r2.ask(ask)
		attaches := []*enginetest.Message{r2.a.Next("attach"), r2.c.Next("attach")}
		execute(renewals...)
		execute(attaches...)
		answer(renewals...)
		l := first.mustHold()
		answer(attaches...)
		first.Cancel()
		r1.ways.Pass(enginetest.Any)
		s.everywhere(l.ID, "0", s.a, s.c)
		r2.ways.Pass(enginetest.Any)
		again.mustHold()
		for range 5 {
			time.Sleep(time.Minute)
			again.mustHold()
			s.everywhere(l.ID, "0", s.a, s.b, s.c)
		}
	})
}
