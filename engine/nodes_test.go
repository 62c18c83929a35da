package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// fresh are servers that belong to no cluster yet.
func fresh(t *testing.T, n int, test func(t *testing.T, c *enginetest.Cluster)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, enginetest.NewCluster(t, n)) })
}

// record reads what a server keeps of itself; nil: it is blank.
func record(server *enginetest.Server) *engine.NodeRecord {
	return server.Execute(&engine.Header{}, 0, engine.Placement{}, &engine.Commit{}).Node // it commits nothing
}

func TestReplicasThatStartTogetherFormOneCluster(t *testing.T) {
	for _, replicas := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
				var engines []*engine.Engine
				for range replicas {
					e, err := engine.Open(engine.Config{Nodes: c.Replica(near).Nodes(), Now: c.Now})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(e.Close)
					engines = append(engines, e)
				}
				for _, e := range engines {
					if err := e.Ready(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				cluster := record(c.Servers[0]).Cluster
				for i, server := range c.Servers {
					r := record(server)
					if r.Cluster == "" || r.Cluster != cluster || r.N != 3 || r.Index != i || r.State != engine.StateOK || r.Era != 1 {
						t.Errorf("node %d is %+v", i, r)
					}
				}
				create := engine.Definition{Limit: replicas}
				var used []int
				for _, e := range engines {
					o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &create, Wait: time.Second})
					if err != nil || o.Refusal != nil {
						t.Fatalf("acquired %+v, %v", o, err)
					}
					used = append(used, slices.Collect(o.Lease.Slots.All())...)
				}
				slices.Sort(used)
				if len(slices.Compact(used)) != replicas {
					t.Errorf("the replicas have slots %v", used)
				}
			})
		})
	}
}

func TestTheVeryFirstStartNeedsEveryNode(t *testing.T) {
	fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
		c.Servers[1].Kill()
		e, err := engine.Open(engine.Config{Nodes: c.Replica(near).Nodes(), Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err = e.Ready(ctx)
		if !errors.Is(err, engine.ErrQuorumUnavailable) || !strings.Contains(err.Error(), "B is down") {
			t.Errorf("with B away: %v", err)
		}
		if _, err := e.Acquire(t.Context(), db, engine.Ask{}); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("acquired: %v", err)
		}
		c.Servers[1].Restart(enginetest.Kept)
		if err := e.Ready(t.Context()); err != nil {
			t.Errorf("with B there: %v", err)
		}
	})
}

// forming-stops-between-commits, and after each step before: whoever starts next forms one cluster.
func TestAFormingThatStoppedMidwayIsTakenUp(t *testing.T) {
	for steps := range 9 {
		t.Run(fmt.Sprint(steps, " steps"), func(t *testing.T) {
			fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
				token := engine.Ballot{Counter: 1, Replica: "dead"}
				for step := range steps {
					server, i := c.Servers[step%3], step%3
					ops := []engine.Op{
						&engine.Freeze{Token: token, RunID: server.RunID()},
						&engine.Load{Token: token, RunID: server.RunID(), Cluster: "dead", N: 3, Index: i, Known: []int64{1, 1, 1}},
						&engine.Commit{Token: token, RunID: server.RunID()},
					}
					if a := server.Execute(&engine.Header{}, 0, engine.Placement{}, ops[step/3]); a.Says != engine.SaysDone {
						t.Fatalf("step %d: %s", step, a.Says)
					}
				}
				open(t, c, near)
				time.Sleep(3 * time.Second)
				cluster := record(c.Servers[0]).Cluster
				if once := steps > 6; once != (cluster == "dead") {
					t.Errorf("the cluster is %q", cluster)
				}
				for i, server := range c.Servers {
					if r := record(server); r.Cluster != cluster || r.Index != i || r.State != engine.StateOK {
						t.Errorf("%s is %+v", server.Name(), r)
					}
				}
			})
		})
	}
}

func TestALaterStartNeedsAQuorum(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		s.c.Kill()
		r2 := s.player() // ready
		r2.ask(engine.Ask{}).mustBeRefused()
		r2.release(l, 0)
		r2.acquire(engine.Ask{})
		if states := r2.states(); states != "A up, B up, C down" {
			t.Errorf("the nodes are %s", states)
		}
	})
}

func TestNodesThatDoNotFitTogetherAreRefusedAndLeftAsTheyAre(t *testing.T) {
	fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
		other, blank := enginetest.NewCluster(t, 3), enginetest.NewCluster(t, 5)
		e := open(t, c, near)
		open(t, other, near)
		o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &engine.Definition{Limit: 1}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []struct {
			name  string
			nodes enginetest.Replica
			told  []string
		}{
			{"fewer nodes", c.Replica(near)[:1], []string{"A belongs to a cluster of 3 nodes, 1 are listed"}},
			{"more nodes", append(c.Replica(near), blank.Replica(near)[3:]...), []string{"belongs to a cluster of 3 nodes, 5 are listed"}},
			{"nodes of two clusters", append(c.Replica(near)[:2], other.Replica(near)[2]), []string{
				" belongs to cluster " + record(c.Servers[0]).Cluster, "C belongs to cluster " + record(other.Servers[0]).Cluster,
			}},
			{"the same node twice", append(c.Replica(near)[:2], c.Replica(near)[0]), []string{"A and A are the same server (run_id A-run-1)"}},
		} {
			w, err := engine.Open(engine.Config{Nodes: wrong.nodes.Nodes(), Now: c.Now})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Ready(t.Context())
			if !errors.Is(err, engine.ErrConfiguration) {
				t.Errorf("%s: %v", wrong.name, err)
			}
			for _, part := range wrong.told {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v; want to hear %q", wrong.name, err, part)
				}
			}
			if _, err := w.Acquire(t.Context(), db, engine.Ask{}); !errors.Is(err, engine.ErrQuorumUnavailable) {
				t.Errorf("%s: acquired, %v", wrong.name, err)
			}
			w.Close()
		}
		if _, err := e.Renew(t.Context(), db, o.Lease.Capability, 0); err != nil {
			t.Errorf("afterwards the lease is gone: %v", err)
		}
		for _, server := range blank.Servers {
			if r := record(server); r != nil {
				t.Errorf("a blank node is %+v", r)
			}
		}
	})
}

func TestAnEvenNumberOfNodesIsRefused(t *testing.T) {
	fresh(t, 4, func(t *testing.T, c *enginetest.Cluster) {
		for _, n := range []int{0, 2, 4} {
			if _, err := engine.Open(engine.Config{Nodes: c.Replica(near)[:n].Nodes()}); !errors.Is(err, engine.ErrConfiguration) {
				t.Errorf("%d nodes: %v", n, err)
			}
		}
	})
}

func TestAnyOddNumberOfNodesServes(t *testing.T) {
	for _, n := range []int{1, 3, 5, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fresh(t, n, func(t *testing.T, c *enginetest.Cluster) {
				e := open(t, c, near)
				create := engine.Definition{Limit: n}
				for away := range n/2 + 1 {
					if away > 0 {
						c.Servers[away-1].Kill()
						time.Sleep(time.Millisecond)
					}
					o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &create, Wait: time.Second})
					if err != nil || o.Refusal != nil {
						t.Errorf("with %d of %d away: %+v, %v", away, n, o, err)
					}
				}
				c.Servers[n/2].Kill()
				time.Sleep(time.Millisecond)
				if o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &create}); !errors.Is(err, engine.ErrQuorumUnavailable) {
					t.Errorf("with %d of %d away: %+v, %v", n/2+1, n, o, err)
				}
			})
		})
	}
}

// faults.md 35, as far as there is no readmission: what lost its memory, or was restarted under another name, is no vote.
func TestANodeWhoseMemoryIsNotTheOneItHadStaysOut(t *testing.T) {
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
				c.happen(s.c)
				try := r2.ask(engine.Ask{}) // the first to hear of it
				time.Sleep(2 * time.Second)
				try.mustBeRefused()
				for _, p := range []*player{r1, r2} {
					if _, nodes := p.Nodes(); nodes[2].State != "out" || !strings.Contains(nodes[2].Reason, c.why) {
						t.Errorf("C is %+v", nodes[2])
					}
				}
				if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Validity < 59*time.Second {
					t.Errorf("renewed: %+v, %v", renewed, err)
				}
				s.b.Kill() // A and C are no quorum
				synctest.Wait()
				if got := r2.ask(engine.Ask{}).look(); !errors.Is(got.err, engine.ErrQuorumUnavailable) {
					t.Errorf("told: %s %v", got.told, got.err)
				}
			})
		})
	}
}

// faults.md 29: one node's clock jumps 1 h.
func TestANodeWhoseClockJumpsIsSuspended(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 30 * time.Millisecond, -30 * time.Millisecond} {
		t.Run(jump.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.ask(engine.Ask{Kept: true})
				l.mustHold()
				time.Sleep(3 * time.Second)
				s.c.Shift(jump)
				for range 40 {
					r2.ask(engine.Ask{}).mustBeRefused()
					time.Sleep(time.Second)
				}
				l.mustHold()
				if states := r1.states(); states != "A up, B up, C suspended" {
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
