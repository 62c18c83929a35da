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
func TestScheduleFormingStopsBetweenCommits(t *testing.T) {
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
