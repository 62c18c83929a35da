package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// with opens a replica whose list has another server in place of C. It need not be ready at once.
func (s *stage) with(d *enginetest.Server, faults enginetest.Faults) *player {
	s.t.Helper()
	ways := append(s.Replica(faults)[:2], enginetest.NewNode(s.t, d, faults))
	e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(e.Close)
	return &player{e, s.t, ways[0], ways[1], ways[2], ways}
}

// replaced-instance-as-source: A is reseeded from B and C; what C said is read when B, which is read after it, has heard that C was
// replaced -> C's read is void.
func TestScheduleReplacedInstanceAsSource(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.acquire(engine.Ask{TTL: time.Hour})
		time.Sleep(11 * time.Second)
		r1.ways.Hold("read")
		forgets(s.a)
		fromB, fromC := r1.b.NextWithin(healing, "read"), r1.c.NextWithin(healing, "read")
		r1.c.Pass("read")
		fromC.Deliver() // so far C's word counts
		time.Sleep(time.Millisecond)
		h := s.header(s.b)
		h.Known = append([]int64{}, record(s.b).Known...)
		replaced := &engine.Mark{Node: 2, Era: 2, Token: engine.Ballot{Counter: 9, Replica: "another"}}
		if a := s.b.Execute(h, s.b.Time(), engine.Placement{}, replaced); a.Says != engine.SaysDone {
			t.Fatalf("B says %s to the mark", a.Says)
		}
		inUse := &engine.Note{Instances: []engine.Instance{{}, {}, {Era: 2, Nonce: "D-instance", Address: "D"}}}
		s.says(engine.SaysDone, s.b, inUse)
		r1.b.Pass("read")
		fromB.Deliver()
		time.Sleep(20 * time.Second)
		if r := record(s.a); r.State == engine.StateOK {
			t.Errorf("A was readmitted by what C remembers: %+v", r)
		}
		if _, nodes := r1.Nodes(); nodes[2].State == "up" || allUp(nodes) {
			t.Errorf("the nodes are %+v", nodes)
		}
		for _, server := range []*enginetest.Server{s.b, s.c} { // what it had is still there
			if r := record(server); r.Pending != nil || !r.EverOK {
				t.Errorf("%s is %+v", server.Name(), r)
			}
		}
	})
}

// A memory that was replaced is none in a cold start: C was replaced by D, A has lost its memory, all are restarted -> with A, B and C an
// operator has to decide, as D may have granted what they do not know.
func TestAMemoryThatWasReplacedDoesNotCount(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.Close()
		r2 := s.with(enginetest.NewServer(t, "D"), enginetest.Faults{Timeout: -1})
		time.Sleep(12 * time.Second)
		if states := r2.states(); states != "A up, B up, D up" {
			t.Fatalf("with D the nodes are %s", states)
		}
		r2.Close()
		forgets(s.a)
		powerCut(s.b, s.c)
		r3 := s.player2()
		time.Sleep(20 * time.Second)
		if _, nodes := r3.Nodes(); !strings.Contains(nodes[2].Reason, "only 1 of 3 nodes have a full memory of the cluster") {
			t.Errorf("the nodes are %+v", nodes)
		}
		if r := record(s.b); r.State != engine.StateOK {
			t.Errorf("B is %+v", r)
		}
	})
}

// different-node-lists: replicas with {A,B,C} and {A,B,D}, two of each -> one replacement, no fight, told on both.
func TestScheduleDifferentNodeLists(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		old := []*player{s.playerOver(near), s.playerOver(near)}
		create := engine.Definition{Limit: 1}
		if o, err := old[0].Acquire(t.Context(), db, engine.Ask{Create: &create, TTL: time.Hour}); err != nil || o.Refusal != nil {
			t.Fatalf("%+v, %v", o, err)
		}
		time.Sleep(11 * time.Second)
		d := enginetest.NewServer(t, "D")
		fresh := []*player{s.with(d, near), s.with(d, near)}
		time.Sleep(12 * time.Second)
		eras := fmt.Sprint(s.nodeEras(), record(d).Era)
		for range 5 {
			for _, p := range old {
				if _, nodes := p.Nodes(); p.states() != "A up, B up, C replaced" || !strings.Contains(nodes[2].Reason, "D, which is not listed here") {
					t.Fatalf("with C the nodes are %+v", nodes)
				}
			}
			for _, p := range fresh {
				if p.states() != "A up, B up, D up" {
					t.Fatalf("with D the nodes are %s", p.states())
				}
			}
			for _, p := range append(old, fresh...) {
				if o, err := p.Acquire(t.Context(), db, engine.Ask{}); err != nil || o.Refusal == nil {
					t.Fatalf("with one permit, which is held: %+v, %v", o, err)
				}
			}
			time.Sleep(time.Minute)
		}
		if now := fmt.Sprint(s.nodeEras(), record(d).Era); now != eras {
			t.Errorf("the eras were %s and are %s", eras, now)
		}
	})
}

// The same where D was C's replica for a while, and so has its nonce.
func TestACopyOfANodeReplacesItOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		old := s.playerOver(near)
		old.declare(engine.Definition{Limit: 1})
		time.Sleep(11 * time.Second)
		d := enginetest.NewServer(t, "D")
		d.Follow(s.c.Snapshot())
		fresh := s.with(d, near)
		time.Sleep(12 * time.Second)
		if record(d).Instance != record(s.c).Instance {
			t.Fatalf("D is %+v, C is %+v", record(d), record(s.c))
		}
		eras := fmt.Sprint(s.nodeEras(), record(d).Era)
		time.Sleep(time.Minute)
		if now := fmt.Sprint(s.nodeEras(), record(d).Era); now != eras {
			t.Errorf("the eras were %s and are %s", eras, now)
		}
		if old.states() != "A up, B up, C replaced" || fresh.states() != "A up, B up, D up" {
			t.Errorf("the nodes are %s, and %s", old.states(), fresh.states())
		}
	})
}

// Of two nodes of one list with one index, the overtaken one takes the free index: B has died, and C, which D had replaced, is listed in
// its place. The era that C goes on in may be smaller than its last.
func TestAnOvertakenNodeTakesTheFreeIndex(t *testing.T) {
	for _, losses := range []int{0, 3} {
		t.Run(fmt.Sprint("C has forgotten ", losses, " times"), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) { s.freeIndex(losses) })
		})
	}
}

func (s *stage) freeIndex(losses int) {
	t := s.t
	r1 := s.player()
	r1.declare(engine.Definition{Limit: 1})
	l := r1.acquire(engine.Ask{TTL: time.Hour})
	for range losses {
		forgets(s.c)
		s.healed(r1)
	}
	r1.Close()
	d := enginetest.NewServer(t, "D")
	r2 := s.with(d, enginetest.Faults{Timeout: -1})
	time.Sleep(12 * time.Second)
	if states := r2.states(); states != "A up, B up, D up" {
		t.Fatalf("with D the nodes are %s", states)
	}
	r2.Close()
	s.b.Kill()
	ways := s.Replica(enginetest.Faults{Timeout: -1})
	ways = enginetest.Replica{ways[0], enginetest.NewNode(t, d, enginetest.Faults{Timeout: -1}), ways[2]}
	r3 := &player{openOn(t, s.Cluster, ways), t, ways[0], ways[1], ways[2], ways}
	s.healed(r3)
	indexes := fmt.Sprint(record(s.a).Index, record(d).Index, record(s.c).Index)
	if indexes != "0 2 1" {
		t.Errorf("A, D and C have the indexes %s", indexes)
	}
	s.everywhere(l.ID, "0", s.a, d, s.c)
	r3.ask(engine.Ask{}).mustBeRefused()
}

// operator-verdict-freezes-nothing: too few memories -> no node is frozen by the attempt, and Nodes says who is to decide what.
func TestScheduleOperatorVerdictFreezesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 10 * time.Minute})
		powerCut(s.a)
		forgets(s.b, s.c)
		before := record(s.a)
		time.Sleep(time.Minute)
		if after := record(s.a); after.State != engine.StateOK || after.Token != before.Token {
			t.Errorf("A is %+v", after)
		}
		for _, server := range []*enginetest.Server{s.b, s.c} {
			if r := record(server); r != nil {
				t.Errorf("%s is %+v", server.Name(), r)
			}
		}
		if _, nodes := r1.Nodes(); !strings.Contains(nodes[0].Reason, "only 1 of 3 nodes have a full memory of the cluster, 2 are needed") {
			t.Errorf("A is %+v", nodes[0])
		}
		if gives, err := r1.Recover(nil, false, "test"); err != nil || len(gives) != 3 {
			t.Fatalf("it gives up %q, %v", gives, err)
		}
		s.healed(r1)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		r1.ask(engine.Ask{}).mustBeRefused()
	})
}

// forming-by-three-replicas -> one cluster id, on which all three go on.
func TestScheduleFormingByThreeReplicas(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
				var all []*engine.Engine
				for i := range 3 {
					ways := c.Replica(enginetest.Faults{Seed: seed*3 + uint64(i), LatencyMax: 5 * time.Millisecond, Cut: 0.02, Repeat: 0.05, RepeatMax: time.Second})
					e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: c.Now})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(e.Close)
					all = append(all, e)
				}
				for _, e := range all {
					if err := e.Ready(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Second)
				oneCluster(t, c)
			})
		})
	}
}

// oneCluster fails the test unless all servers are ok in one cluster, each under its own index.
func oneCluster(t *testing.T, c *enginetest.Cluster) {
	t.Helper()
	id := record(c.Servers[0]).Cluster
	for i, server := range c.Servers {
		if r := record(server); r == nil || r.Cluster != id || id == "" || r.Index != i || r.State != engine.StateOK {
			t.Errorf("%s is %+v", server.Name(), r)
		}
	}
}

// two-formers-one-token-midway: R1 and R2 form with tokens of one counter; R1 stops after some of its steps, R2 goes some of its own,
// then both go on -> one cluster id.
func TestScheduleTwoFormersOneTokenMidway(t *testing.T) {
	steps := []string{"freeze", "freeze", "freeze", "load", "load", "load", "commit", "commit", "commit"}
	for first := range len(steps) {
		for second := range len(steps) {
			t.Run(fmt.Sprintf("%d and %d steps", first, second), func(t *testing.T) {
				fresh(t, 3, func(t *testing.T, c *enginetest.Cluster) {
					var ways []enginetest.Replica
					for range 2 {
						w := c.Replica(enginetest.Faults{Timeout: -1})
						for _, op := range []string{"freeze", "load", "commit"} {
							w.Hold(op)
						}
						e, err := engine.Open(engine.Config{Nodes: w.Nodes(), Now: c.Now})
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(e.Close)
						ways = append(ways, w)
					}
					synctest.Wait()
					for replica, n := range []int{first, second} {
						walk(ways[replica], steps[:n])
					}
					for _, w := range ways {
						w.Pass(enginetest.Any)
					}
					time.Sleep(20 * time.Second)
					oneCluster(t, c)
				})
			})
		}
	}
}

// walk lets a replica go so many steps, each on one node after the other, as far as it comes: another may have overtaken it.
func walk(ways enginetest.Replica, steps []string) {
	for i, op := range steps {
		m := ways[i%len(ways)].Try(10*time.Millisecond, op)
		if m == nil {
			return
		}
		m.Deliver()
	}
}
