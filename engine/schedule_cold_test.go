package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// powerCut stops servers and starts them again, with their memory under new run_ids.
func powerCut(servers ...*enginetest.Server) {
	for _, server := range servers {
		server.Kill()
	}
	for _, server := range servers {
		server.Restart(enginetest.Renamed)
	}
}

// durable opens a replica that was told that the nodes keep what they acknowledged.
func (s *stage) durable() *player {
	s.t.Helper()
	ways := s.Replica(enginetest.Faults{Timeout: -1})
	e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now, DurableNodes: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(e.Close)
	return &player{e, s.t, ways[0], ways[1], ways[2], ways}
}

// compose-restart: all nodes and replicas restart at once -> grants again by themselves; no lease is lost.
func TestScheduleComposeRestart(t *testing.T) {
	for name, c := range map[string]struct {
		open func(*stage) *player
		wait time.Duration
	}{
		"durable nodes": {(*stage).durable, 0},
		"others":        {(*stage).player2, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				old := s.player()
				old.declare(engine.Definition{Limit: 2})
				l := old.acquire(engine.Ask{TTL: 10 * time.Minute})
				old.Close()
				powerCut(s.Servers...)
				r1, r2 := c.open(s), c.open(s)
				restart := time.Now()
				s.healed(r1)
				s.healed(r2)
				s.everywhere(l.ID, l.Slots.String(), s.a, s.b, s.c)
				if _, err := r2.renew(l, 0).verdict(); err != nil {
					t.Errorf("renewed by its secret: %v", err)
				}
				request := r1.ask(engine.Ask{Wait: 20 * time.Minute})
				if c.wait > 0 {
					request.mustWait()
					time.Sleep(10*time.Minute - time.Since(restart) - time.Second) // the longest TTL that was seen
					request.mustWait()
					time.Sleep(3 * time.Second)
				}
				request.mustHold()
				r1.release(l, 0)
				s.uses(r1, 1)
			})
		})
	}
}

// cold-start-by-two-replicas, beside a third that was there before.
func TestScheduleColdStartByTwoReplicas(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.playerOver(near)
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{TTL: 10 * time.Minute})
		time.Sleep(time.Second)
		request.mustHold()
		r2, r3 := s.playerOver(near), s.playerOver(near)
		powerCut(s.Servers...)
		time.Sleep(20 * time.Second)
		for _, p := range []*player{r1, r2, r3} {
			if states := p.states(); states != "A up, B up, C up" {
				t.Errorf("the nodes are %s", states)
			}
		}
		eras := record(s.a).Known
		for _, server := range s.Servers {
			if r := record(server); !slices.Equal(r.Known, eras) || r.Known[0] != r.Known[1] {
				t.Errorf("%s knows of the eras %v, A of %v", server.Name(), r.Known, eras)
			}
		}
	})
}

// cold-start-stops-midway (after each step), second-power-cut-during-a-cold-start -> ends with all ok once faults stop.
func TestScheduleColdStartStopsMidway(t *testing.T) {
	for steps := range 10 {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprint(steps, " steps, then a power cut: ", cut), func(t *testing.T) {
				play(t, func(t *testing.T, s *stage) {
					r1 := s.player()
					r1.declare(engine.Definition{Limit: 1})
					l := r1.acquire(engine.Ask{TTL: 10 * time.Minute})
					r1.Close()
					powerCut(s.Servers...)
					dead := s.player2()
					for i := range s.Servers {
						for _, op := range []string{"freeze", "read", "load"} {
							dead.ways[i].Hold(op)
						}
						dead.ways[i].Hold("commit", dead.Replica()) // one without a token only looks
					}
					ops := []string{"freeze", "freeze", "freeze", "load", "load", "load", "commit", "commit", "commit"}
					reads := false
					for i, op := range ops[:min(steps, len(ops))] {
						if op == "load" && !reads {
							reads = true
							dead.ways.Pass("read")
						}
						var words []string
						if op == "commit" {
							words = []string{dead.Replica()}
						}
						dead.ways[i%3].NextWithin(3*time.Second, op, words...).Deliver()
					}
					dead.Close()
					if cut {
						powerCut(s.a, s.c)
					}
					r2 := s.player2()
					time.Sleep(20 * time.Second)
					s.healed(r2)
					s.everywhere(l.ID, "0", s.a, s.b, s.c)
					r2.ask(engine.Ask{}).mustBeRefused()
				})
			})
		}
	}
}

// commit-one-then-tail-lost: A committed before B was loaded would vote; A loses its tail -> no era is used twice.
func TestScheduleCommitOneThenTailLost(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.Close()
		powerCut(s.Servers...)
		dead := s.player2()
		dead.ways.Hold("load")
		for i := range s.Servers {
			dead.ways[i].NextWithin(3*time.Second, "load")
		}
		dead.a.None("commit") // not before all have acknowledged
		dead.ways.Pass(enginetest.Any)
		s.healed(dead)
		dead.Close()
		before := record(s.b).Era
		tail := s.a.Snapshot()
		powerCut(s.b, s.c)
		s.a.Kill()
		s.a.RestartFrom(tail)
		r2 := s.player2()
		s.healed(r2)
		for _, server := range s.Servers {
			if r := record(server); r.Era <= before {
				t.Errorf("%s is of era %d, as one was before", server.Name(), r.Era)
			}
		}
	})
}

// minority-record-copied-then-claimed-in-the-wait: L on one node only, copied to all, claimed again during the wait -> refused until the
// wait ends.
func TestScheduleMinorityRecordCopiedThenClaimedInTheWait(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0), func(m *engine.Mend) { m.TTL = 10 * time.Minute })
		powerCut(s.Servers...)
		s.heal()
		for _, server := range s.Servers {
			s.says(engine.SaysFull, server, claimOf("L", "a"))
			s.says(engine.SaysFull, server, claimOf("M", "b"))
		}
		time.Sleep(time.Minute)
		s.says(engine.SaysFull, s.a, claimOf("M", "b")) // the longest TTL that was seen on it is more
		time.Sleep(9 * time.Minute)
		for _, server := range s.Servers {
			s.says(engine.SaysGranted, server, claimOf("M", "b"))
		}
	})
}

// The wait is the whole minute also on semaphores that no node remembers.
func TestScheduleColdStartWaitsOnSemaphoresThatAreForgotten(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		powerCut(s.Servers...)
		r1 := s.heal()
		create := engine.Definition{Limit: 1}
		request := r1.ask(engine.Ask{Create: &create, Wait: 10 * time.Minute})
		time.Sleep(50 * time.Second)
		request.mustWait()
		time.Sleep(15 * time.Second)
		request.mustHold()
	})
}

// A replica that is still there knows of leases that all nodes have forgotten.
func TestScheduleColdStartWaitsAsLongAsTheReplicaHasSeen(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		var tails []enginetest.Snapshot
		for _, server := range s.Servers {
			tails = append(tails, server.Snapshot())
		}
		l := r1.acquire(engine.Ask{TTL: 30 * time.Minute})
		for i, server := range s.Servers {
			server.Kill()
			server.RestartFrom(tails[i])
		}
		s.healed(r1)
		s.everywhere(l.ID, "", s.a, s.b, s.c)
		time.Sleep(29 * time.Minute)
		r1.ask(engine.Ask{}).mustBeRefused()
		time.Sleep(2 * time.Minute)
		r1.acquire(engine.Ask{})
	})
}

// renew-a-copy-in-the-wait: a valid holder renews during the wait -> works.
func TestScheduleRenewACopyInTheWait(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		kept := r1.ask(engine.Ask{Kept: true, TTL: 30 * time.Second})
		l := kept.mustHold()
		powerCut(s.Servers...)
		s.healed(r1)
		time.Sleep(50 * time.Second)
		kept.mustHold()
		for _, server := range s.Servers {
			if r := server.Record(db, l.ID); r == nil || r.Copy {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
	})
}

// wait-survives-a-reseed: A is reseeded during the wait -> it waits as long: for the longest TTL that was seen on the semaphore.
func TestScheduleWaitSurvivesAReseed(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 2}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0), func(m *engine.Mend) { m.TTL = 2 * time.Minute })
		powerCut(s.Servers...)
		r1 := s.heal()
		time.Sleep(20 * time.Second)
		forgets(s.a)
		s.healed(r1)
		for at := 30; at < 120; at += 10 { // seconds after the cold start
			s.says(engine.SaysFull, s.a, claimOf("M", "b"))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(10 * time.Second)
		s.says(engine.SaysGranted, s.a, claimOf("M", "b"))
	})
}

// The same on semaphores that no node remembers: A and B are reseeded, one after the other, so that C alone was there when it began.
func TestAWaitOnWhatIsForgottenSurvivesReseeds(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		powerCut(s.Servers...)
		r1 := s.heal()
		for _, server := range []*enginetest.Server{s.a, s.b} {
			time.Sleep(10 * time.Second)
			forgets(server)
			s.healed(r1)
		}
		create := engine.Definition{Limit: 1}
		request := r1.ask(engine.Ask{Create: &create, Wait: 10 * time.Minute})
		time.Sleep(25 * time.Second)
		request.mustWait()
		time.Sleep(15 * time.Second)
		request.mustHold()
	})
}

// Memories are counted again once all are frozen: A and B forget between the look and the freezing of them, and keep their run ids.
func TestMemoriesThatAreLostBeforeTheFreezeDoNotCount(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.Close()
		powerCut(s.Servers...)
		r2 := s.player2()
		r2.ways.Hold("freeze")
		onA := r2.a.NextWithin(3*time.Second, "freeze")
		s.a.Wipe()
		s.b.Wipe()
		onA.Deliver()
		r2.ways.Pass(enginetest.Any)
		time.Sleep(20 * time.Second)
		if _, nodes := r2.Nodes(); !strings.Contains(nodes[2].Reason, "only 1 of 3 nodes have a full memory of the cluster") {
			t.Errorf("the nodes are %+v", nodes)
		}
	})
}

// fence-after-lost-tails: limit 1; all lose their last second, a grant in it -> the next fence is larger.
func TestScheduleFenceAfterLostTails(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.release(r1.acquire(engine.Ask{}), 0)
		var tails []enginetest.Snapshot
		for _, server := range s.Servers {
			tails = append(tails, server.Snapshot())
		}
		lost := r1.acquire(engine.Ask{})
		r1.Close()
		for i, server := range s.Servers {
			server.Kill()
			server.RestartFrom(tails[i])
		}
		r2 := s.heal()
		time.Sleep(2 * time.Minute)
		if l := r2.acquire(engine.Ask{}); l.Fence <= lost.Fence {
			t.Errorf("the fence is %d after %d", l.Fence, lost.Fence)
		}
	})
}

// blank-majority-and-another-list: cluster on {0,1,2}; another replica lists {2,3,4}, 3 and 4 blank -> it forms nothing and says why.
// operator-verdict-freezes-nothing: too few memories -> no node is frozen by the attempt.
func TestScheduleBlankMajorityAndAnotherList(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.acquire(engine.Ask{TTL: time.Hour})
		blank := []*enginetest.Server{enginetest.NewServer(t, "D"), enginetest.NewServer(t, "E")}
		way := func(server *enginetest.Server) *enginetest.Node {
			return enginetest.NewNode(t, server, enginetest.Faults{Timeout: -1})
		}
		ways := enginetest.Replica{way(s.c), way(blank[0]), way(blank[1])}
		e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		time.Sleep(time.Minute)
		_, nodes := e.Nodes()
		for _, n := range nodes[1:] {
			if n.State != "out" || !strings.Contains(n.Reason, "only 1 of 3 nodes have a full memory") || !strings.Contains(n.Reason, "nodes recover") {
				t.Errorf("%+v", n)
			}
		}
		for _, server := range blank {
			if r := record(server); r != nil {
				t.Errorf("%s is %+v", server.Name(), r)
			}
		}
		if r := record(s.c); r.State != engine.StateOK {
			t.Errorf("C is %+v", r)
		}
		if states := r1.states(); states != "A up, B up, C up" {
			t.Errorf("the nodes are %s", states)
		}
		r1.ask(engine.Ask{}).mustBeRefused()
	})
}

// An operator goes on with what is left; what was given up comes back as a node that is out.
func TestScheduleAnOperatorRecovers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 10 * time.Minute})
		powerCut(s.b)
		s.a.Kill()
		forgets(s.c)
		time.Sleep(10 * time.Second)
		if _, nodes := r1.Nodes(); nodes[1].State != "out" || !strings.Contains(nodes[1].Reason, "A is missing") {
			t.Fatalf("the nodes are %+v", nodes)
		}
		gives, err := r1.Recover([]int{0}, true, "test")
		if err != nil || len(gives) != 3 {
			t.Fatalf("it gives up %q, %v", gives, err)
		}
		time.Sleep(10 * time.Second)
		if r := record(s.c); r != nil {
			t.Fatalf("by telling it only, C became %+v", r)
		}
		if _, err := r1.Recover([]int{0}, false, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if states := r1.states(); states != "A down, B up, C up" {
			_, nodes := r1.Nodes()
			t.Fatalf("the nodes are %+v", nodes)
		}
		s.everywhere(l.ID, "0", s.b, s.c)
		s.a.Restart(enginetest.Kept)
		s.healed(r1)
		if _, err := r1.Recover([]int{0}, false, "test"); err == nil {
			t.Error("it was done though nothing is to be recovered")
		}
	})
}

// two-blank-nodes-one-index: N = 5, two blank nodes, two replicas -> each gets its own index.
func TestScheduleTwoBlankNodesOneIndex(t *testing.T) {
	fresh(t, 5, func(t *testing.T, c *enginetest.Cluster) {
		c.Form()
		e1, e2 := open(t, c, near), open(t, c, near)
		time.Sleep(11 * time.Second)
		forgets(c.Servers[1], c.Servers[3])
		time.Sleep(20 * time.Second)
		indexes := map[int]bool{}
		for _, server := range c.Servers {
			r := record(server)
			indexes[r.Index] = r.State == engine.StateOK
		}
		if len(indexes) != 5 {
			t.Errorf("the indexes are %v", indexes)
		}
		for _, e := range []*engine.Engine{e1, e2} {
			if _, nodes := e.Nodes(); !allUp(nodes) {
				t.Errorf("the nodes are %+v", nodes)
			}
		}
	})
}

// N = 1: the only node comes back.
func TestScheduleColdStartOfTheOnlyNode(t *testing.T) {
	fresh(t, 1, func(t *testing.T, c *enginetest.Cluster) {
		e := open(t, c, near)
		create := engine.Definition{Limit: 2}
		if _, err := e.Acquire(t.Context(), db, engine.Ask{Create: &create, TTL: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		powerCut(c.Servers...)
		time.Sleep(healing)
		if _, nodes := e.Nodes(); !allUp(nodes) {
			t.Fatalf("the nodes are %+v", nodes)
		}
		o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &create})
		if err != nil || o.Refusal == nil {
			t.Errorf("in the wait: %+v, %v", o, err)
		}
		time.Sleep(11 * time.Minute)
		if o, err = e.Acquire(t.Context(), db, engine.Ask{Create: &create}); err != nil || o.Refusal != nil {
			t.Errorf("after the wait: %+v, %v", o, err)
		}
	})
}

// All nodes are blank while a replica remembers: it waits out the longest TTL that it has seen, then forms a new cluster, and
// replicas that start then share its secret.
func TestScheduleAllBlankWhileAReplicaRemembers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.acquire(engine.Ask{TTL: 5 * time.Minute})
		old := record(s.a).Cluster
		s.player() // it has not seen the lease, and hears how long it may last
		time.Sleep(5 * time.Second)
		forgets(s.Servers...)
		time.Sleep(4 * time.Minute)
		if r := record(s.a); r != nil {
			t.Fatalf("before the wait was over A became %+v", r)
		}
		time.Sleep(2 * time.Minute)
		r2 := s.player()
		s.healed(r1)
		if r := record(s.a); r.Cluster == old || r.Cluster != record(s.b).Cluster || r.Cluster != record(s.c).Cluster {
			t.Errorf("A is %+v", r)
		}
		create := engine.Definition{Limit: 1}
		l := r1.acquire(engine.Ask{Create: &create})
		r2.release(l, 0)
		r2.acquire(engine.Ask{})
	})
}

func TestAnOperatorNeedNotWaitForNodesThatAreAllBlank(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.acquire(engine.Ask{TTL: time.Hour})
		old := record(s.a).Cluster
		forgets(s.Servers...)
		time.Sleep(healing)
		gives, err := r1.Recover(nil, false, "test")
		if last := gives[len(gives)-1]; err != nil || !strings.Contains(last, "all leases") {
			t.Fatal(gives, err)
		}
		s.healed(r1)
		if r := record(s.a); r.Cluster == old {
			t.Errorf("A is %+v", r)
		}
		create := engine.Definition{Limit: 1}
		r1.acquire(engine.Ask{Create: &create})
	})
}

// forming-blank-after-load: a node of a forming lost everything after its load -> one cluster; the id of a node that was ok stays.
func TestScheduleFormingBlankAfterLoad(t *testing.T) {
	for _, committed := range []bool{false, true} {
		t.Run(fmt.Sprint("one has committed: ", committed), func(t *testing.T) {
			fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
				token := engine.Ballot{Counter: 1, Replica: "dead"}
				for i, server := range c.Servers {
					server.Execute(&engine.Header{}, 0, engine.Placement{}, &engine.Freeze{Token: token, RunID: server.RunID()})
					server.Execute(&engine.Header{}, 0, engine.Placement{}, &engine.Load{
						Token: token, RunID: server.RunID(), Cluster: "dead", N: 3, Index: i, Known: []int64{1, 1, 1},
					})
				}
				if committed {
					server := c.Servers[0]
					server.Execute(&engine.Header{}, 0, engine.Placement{}, &engine.Commit{Token: token, RunID: server.RunID()})
				}
				forgets(c.Servers[2])
				open(t, c, near)
				time.Sleep(healing)
				for i, server := range c.Servers {
					r := record(server)
					if r.State != engine.StateOK || r.Index != i || r.Cluster != record(c.Servers[0]).Cluster || committed != (r.Cluster == "dead") {
						t.Errorf("%s is %+v", server.Name(), r)
					}
				}
			})
		})
	}
}
