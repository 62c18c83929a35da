package engine_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// states are the nodes as a replica sees them.
func (p *player) states() string {
	_, nodes := p.Nodes()
	var list []string
	for _, n := range nodes {
		list = append(list, n.Name+" "+n.State)
	}
	return strings.Join(list, ", ")
}

func TestAnyOneOfThreeNodesMayBeAway(t *testing.T) {
	for gone := range 3 {
		t.Run(string(rune('A'+gone)), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 2})
				before := r1.acquire(engine.Ask{})
				kept := r1.ask(engine.Ask{Kept: true})
				kept.mustHold()
				s.Servers[gone].Kill()
				synctest.Wait()
				if _, nodes := r1.Nodes(); nodes[gone].State != "down" || nodes[gone].Reason == "" || nodes[(gone+1)%3].State != "up" {
					t.Errorf("the nodes are %+v", nodes)
				}
				start := time.Now()
				if renewed, err := r2.renew(before, 0).verdict(); err != nil || renewed.Validity < 29*time.Second {
					t.Errorf("renewed: %+v, %v", renewed, err)
				}
				if st := r2.status(); st.InUse != 2 || st.Available != 0 {
					t.Errorf("the status is %+v", st)
				}
				waiter := r2.ask(engine.Ask{Wait: time.Minute})
				waiter.mustWait()
				r1.release(before, 0)
				after := waiter.mustHold()
				if took := time.Since(start); took != 0 {
					t.Errorf("it took %v, though the node is known to be down", took)
				}
				r1.declare(engine.Definition{Limit: 3})
				r1.acquire(engine.Ask{})
				time.Sleep(time.Minute)
				kept.mustHold()

				s.Servers[gone].Restart(enginetest.Kept)
				time.Sleep(time.Second)
				if states := r1.states(); states != "A up, B up, C up" {
					t.Errorf("the nodes are %s", states)
				}
				if r := s.Servers[gone].Record(db, before.ID); r != nil {
					t.Errorf("it still has %+v, which was released while it was away", r)
				}
				if r := s.Servers[gone].Record(db, after.ID); r != nil {
					t.Errorf("it has %+v, which has lapsed", r)
				}
				time.Sleep(15 * time.Second) // the kept lease is renewed there, too
				if r := s.Servers[gone].Record(db, kept.mustHold().ID); r == nil || r.Fence != kept.mustHold().Fence {
					t.Errorf("of the kept lease it has %+v", r)
				}
			})
		})
	}
}

func TestWithoutAQuorumRequestsFailAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{})
		s.b.Kill()
		s.c.Kill()
		synctest.Wait()
		start := time.Now()
		ctx := t.Context()
		for _, c := range []struct {
			name string
			do   func() error
		}{
			{"acquire", func() error { _, err := r1.Acquire(ctx, db, engine.Ask{Wait: time.Minute}); return err }},
			{"renew", func() error { _, err := r1.Renew(ctx, db, l.Capability, 0); return err }},
			{"put", func() error {
				_, _, err := r1.Put(ctx, db, engine.Definition{Limit: 3}, engine.Condition{}, "test")
				return err
			}},
			{"delete", func() error { return r1.Delete(ctx, db, engine.Condition{}, "test") }},
			{"read", func() error { _, err := r1.Semaphore(ctx, db); return err }},
			{"list", func() error { _, _, err := r1.Semaphores(ctx, "", "", 10); return err }},
			{"leases", func() error { _, err := r1.Leases(ctx, db); return err }},
		} {
			if err := c.do(); !errors.Is(err, engine.ErrQuorumUnavailable) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v", c.name, err, time.Since(start))
			}
		}
		if _, err := r1.Release(ctx, db, l.Capability, 0); !errors.Is(err, engine.ErrNotConfirmed) {
			t.Errorf("release: %v", err)
		}
		s.b.Restart(enginetest.Kept)
		s.c.Restart(enginetest.Kept)
		time.Sleep(200 * time.Millisecond)
		s.uses(r1, 0) // the server kept trying
	})
}

func TestANodeThatDiesUnderWayIsNotWaitedFor(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.ways.Hold("claim")
		request := r1.ask(engine.Ask{})
		claim := r1.a.Next("claim")
		claim.Deliver()
		s.b.Kill()
		request.mustWait()
		s.c.Kill()
		if l := request.look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) || l.at != 0 {
			t.Errorf("after %v it was told: %s %v", l.at, l.told, l.err)
		}
		r1.ways.Pass(enginetest.Any)
		s.everywhere(claim.Lease(), "", s.a)
	})
}

func TestANodeThatNeverAnswersCostsTheTimeOutOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.playerOver(enginetest.Faults{})
		r1.declare(engine.Definition{Limit: 4})
		s.c.Pause()
		if l := r1.ask(engine.Ask{}).look(); !l.holds() || l.at != 0 {
			t.Errorf("with one node that does not answer: after %v %s", l.at, l.told)
		}
		s.b.Pause()
		request := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(499 * time.Millisecond)
		request.mustWait()
		time.Sleep(2 * time.Millisecond)
		if l := request.look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) {
			t.Errorf("after the node time-out: %s %v", l.told, l.err)
		}
		for range 3 {
			if l := r1.ask(engine.Ask{Wait: time.Minute}).look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) || l.at != 0 {
				t.Errorf("then after %v: %s %v", l.at, l.told, l.err)
			}
			time.Sleep(150 * time.Millisecond)
		}
		s.b.Resume()
		time.Sleep(time.Second)
		r1.acquire(engine.Ask{})
		if states := r1.states(); states != "A up, B up, C down" {
			t.Errorf("the nodes are %s", states)
		}
	})
}

func TestANodeThatIsBackHearsWhatItMissed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		r1.c.Disconnect()
		r2.c.Disconnect()
		r1.release(l, 0)
		s.everywhere(l.ID, "0", s.c)
		m := r1.acquire(engine.Ask{TTL: time.Minute})
		waiter := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(5 * time.Second)
		if page, _ := s.c.View(db); len(page.Places) != 0 {
			t.Errorf("the line of C is %+v", page.Places)
		}
		r1.c.Connect()
		r2.c.Connect()
		s.everywhere(l.ID, "", s.c)
		page, _ := s.c.View(db)
		if len(page.Places) != 1 || page.Places[0].Order.Replica != r2.Replica() || page.Places[0].Weight != 1 {
			t.Errorf("the line of C is %+v", page.Places)
		}
		waiter.mustWait()
		r1.release(m, 0)
		waiter.mustHold()
	})
}

// faults.md 35, as far as there is no readmission: what lost its memory, or was restarted under another name, is no vote.
func TestANodeWhoseMemoryIsNotTheOneItHadIsOutUntilItWasGivenWhatTheOthersRemember(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(*enginetest.Server)
		why    string
	}{
		{"restarted", func(s *enginetest.Server) { s.Kill(); s.Restart(enginetest.Renamed) }, "restarted"},
		{"restarted without memory", func(s *enginetest.Server) { s.Kill(); s.Restart(enginetest.Lost) }, "blank"},
		{"emptied", func(s *enginetest.Server) { s.Wipe() }, "blank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.acquire(engine.Ask{TTL: time.Minute})
				r1.ways.Hold("freeze")
				r2.ways.Hold("freeze")
				c.happen(s.c)
				r2.ask(engine.Ask{}).mustBeRefused() // the first to hear of it
				time.Sleep(1500 * time.Millisecond)
				for _, p := range []*player{r1, r2} {
					if _, nodes := p.Nodes(); nodes[2].State != "out" || !strings.Contains(nodes[2].Reason, c.why) {
						t.Errorf("C is %+v", nodes[2])
					}
				}
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				time.Sleep(3 * time.Second)
				for _, p := range []*player{r1, r2} {
					if states := p.states(); states != "A up, B up, C up" {
						t.Errorf("the nodes are %s", states)
					}
				}
				if r := s.c.Record(db, l.ID); r == nil || !r.Copy || r.Slots.String() != "0" {
					t.Errorf("of the lease C has %+v", r)
				}
				if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Validity < 59*time.Second {
					t.Errorf("renewed: %+v, %v", renewed, err)
				}
				s.b.Kill() // A and C are a quorum
				synctest.Wait()
				r2.ask(engine.Ask{}).mustBeRefused()
				if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Validity < 59*time.Second {
					t.Errorf("renewed on A and C: %+v, %v", renewed, err)
				}
			})
		})
	}
}

// faults.md 29: one node's clock jumps 1 h.
func TestANodeWhoseClockJumpsIsSuspendedAndComesBack(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 30 * time.Millisecond, -30 * time.Millisecond} {
		t.Run(jump.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.ask(engine.Ask{Kept: true})
				l.mustHold()
				time.Sleep(3 * time.Second)
				r1.ways.Hold("freeze")
				r2.ways.Hold("freeze")
				s.c.Shift(jump)
				for range 4 {
					r2.ask(engine.Ask{}).mustBeRefused()
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Second)
				if states := r1.states(); states != "A up, B up, C suspended" {
					t.Errorf("the nodes are %s", states)
				}
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				for range 40 {
					r2.ask(engine.Ask{}).mustBeRefused()
					time.Sleep(time.Second)
				}
				l.mustHold()
				if states := r1.states(); states != "A up, B up, C up" {
					t.Errorf("the nodes are %s", states)
				}
			})
		})
	}
}

func TestAClockThatIsAlmostRightIsNotSuspended(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.b.Shift(-5 * time.Hour) // the hour on the wall does not matter
		s.a.Rate(1.0009)
		s.c.Rate(0.9991)
		r1 := s.playerOver(near)
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true, Wait: time.Second})
		time.Sleep(20 * time.Minute)
		request.mustHold()
		if states := r1.states(); states != "A up, B up, C up" {
			t.Errorf("the nodes are %s", states)
		}
	})
}
