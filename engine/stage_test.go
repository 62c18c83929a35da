package engine_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// db is the semaphore of every schedule.
const db = "db"

// open starts an engine on the nodes of a cluster, forming it if need be. It is closed with the test.
func open(t *testing.T, c *enginetest.Cluster, faults enginetest.Faults) *engine.Engine {
	t.Helper()
	return openOn(t, c, c.Replica(faults))
}

// openOn is open with ways to the nodes that the caller has in hand.
func openOn(t *testing.T, c *enginetest.Cluster, ways enginetest.Replica) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// stage is where schedules are played: three formed nodes A, B and C (Q = 2), in a bubble, without latency.
type stage struct {
	*enginetest.Cluster
	t       *testing.T
	a, b, c *enginetest.Server
	eras    map[*enginetest.Server][]int64 // what servers know that are no longer in their first era
}

// play plays a schedule, and looks at the end whether the nodes' memories are sound.
func play(t *testing.T, schedule func(t *testing.T, s *stage)) { playOn(t, 3, schedule) }

// playOn is play on more nodes than three.
func playOn(t *testing.T, nodes int, schedule func(t *testing.T, s *stage)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enginetest.NewCluster(t, nodes)
		c.Form()
		schedule(t, &stage{c, t, c.Servers[0], c.Servers[1], c.Servers[2], map[*enginetest.Server][]int64{}})
		for _, server := range c.Servers {
			if err := server.Check(); err != nil {
				t.Errorf("%s: %v", server.Name(), err)
			}
		}
	})
}

// header is what a coordinator knows when it asks a server.
func (s *stage) header(server *enginetest.Server) *engine.Header {
	h := &engine.Header{Cluster: "enginetest-cluster"}
	for i, other := range s.Servers {
		h.Known = append(h.Known, 1)
		if other == server {
			h.Index = i
		}
	}
	if known := s.eras[server]; known != nil {
		h.Known = known
	}
	return h
}

// do executes an operation on a server as some coordinator would ask for it now.
func (s *stage) do(server *enginetest.Server, op engine.Op) *engine.Answer {
	return server.Execute(s.header(server), server.Time(), engine.Placement{}, op)
}

// all are the slots of a semaphore.
func all(limit int) quorum.Slots { return quorum.Slots{{First: 0, Last: limit - 1}} }

// stray is an undecided ballot of somebody who plays no part, on one node only: it keeps slots from being granted there.
// The release that is returned ends it.
func (s *stage) stray(server *enginetest.Server, fence int64, slots quorum.Slots) *engine.Release {
	s.t.Helper()
	id := "stray-" + slots.String()
	mend := &engine.Mend{
		Semaphore: db, Lease: id, By: id, Slots: slots, Fence: fence, TTL: time.Minute,
		Until: server.Time() + time.Second.Microseconds(),
	}
	if a := s.do(server, mend); a.Says != engine.SaysMended {
		s.t.Fatalf("%s says %s to a stray ballot on %v", server.Name(), a.Says, slots)
	}
	return &engine.Release{Semaphore: db, Lease: id, By: id, Why: engine.WhyGivenBack}
}

// newEra makes a node one of a larger era, as a readmission does, with the memory that it has.
func (s *stage) newEra(server *enginetest.Server) { s.rest(server, 0) }

// rest is newEra after which nothing is granted for wait, as after a cold start.
func (s *stage) rest(server *enginetest.Server, wait time.Duration) {
	s.t.Helper()
	s.readmit(server, engine.Load{Wait: wait})
}

// readmit freezes a server and commits it to what is loaded, in its next era.
func (s *stage) readmit(server *enginetest.Server, load engine.Load) {
	s.t.Helper()
	h := s.header(server)
	known := slices.Clone(h.Known)
	known[h.Index]++
	token, runID := engine.Ballot{Counter: 2, Replica: "test"}, server.RunID()
	load.Token, load.RunID, load.Cluster, load.N, load.Index, load.Known = token, runID, h.Cluster, len(s.Servers), h.Index, known
	for _, op := range []engine.Op{
		&engine.Freeze{Token: token, Was: engine.Ballot{Counter: 1, Replica: "enginetest"}, Cluster: h.Cluster, RunID: runID},
		&load,
		&engine.Commit{Token: token, RunID: runID},
	} {
		if a := s.do(server, op); a.Says != engine.SaysDone {
			s.t.Fatalf("%s says %s to %s", server.Name(), a.Says, engine.OpName(op))
		}
	}
	s.eras[server] = known
}

// on returns the slots that a lease has on a server; "" if it has no record there.
func (s *stage) on(server *enginetest.Server, lease string) string {
	if r := server.Record(db, lease); r != nil {
		return r.Slots.String()
	}
	return ""
}

// count counts from now on how often a server executes an operation.
func (s *stage) count(server *enginetest.Server, name string) *atomic.Int64 {
	n := &atomic.Int64{}
	server.Around(func(next enginetest.Apply) enginetest.Apply {
		return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
			if engine.OpName(op) == name {
				n.Add(1)
			}
			return next(now, h, at, p, op)
		}
	})
	return n
}

// everywhere fails the test unless the lease has these slots on each of the servers ("": no record).
func (s *stage) everywhere(lease, slots string, servers ...*enginetest.Server) {
	s.t.Helper()
	for _, server := range servers {
		if got := s.on(server, lease); got != slots {
			s.t.Errorf("on %s lease %s has the slots %q; want %q", server.Name(), lease, got, slots)
		}
	}
}

// empty fails the test unless no node has a lease of the semaphore.
func (s *stage) empty() {
	s.t.Helper()
	for _, server := range s.Servers {
		if _, leases := server.View(db); len(leases) > 0 {
			s.t.Errorf("%s has %+v", server.Name(), leases)
		}
	}
}

// noPlaces fails the test if somebody has a place in a line.
func (s *stage) noPlaces() {
	s.t.Helper()
	for _, server := range s.Servers {
		if page, _ := server.View(db); len(page.Places) > 0 {
			s.t.Errorf("the line of %s is %+v", server.Name(), page.Places)
		}
	}
}

// uses fails the test unless so many permits are in use, as a replica tells it and on each node that answers.
func (s *stage) uses(p *player, permits int) {
	s.t.Helper()
	synctest.Wait() // what was given back is heard by all
	if st := p.status(); st.InUse != permits {
		s.t.Errorf("%d are in use; want %d", st.InUse, permits)
	}
	for _, server := range s.Servers {
		_, leases := server.View(db)
		n := 0
		for _, l := range leases {
			n += l.Slots.Len()
		}
		if n != permits {
			s.t.Errorf("on %s %d are in use; want %d", server.Name(), n, permits)
		}
	}
}

// player is a replica that plays a part: its engine, and its ways to the nodes.
type player struct {
	*engine.Engine
	t       *testing.T
	a, b, c *enginetest.Node
	ways    enginetest.Replica
}

// player returns one more replica. Its calls may be held as long as the test likes.
func (s *stage) player() *player {
	s.t.Helper()
	return s.playerOver(enginetest.Faults{Timeout: -1})
}

// playerOver returns one more replica, over a network as faults say.
func (s *stage) playerOver(faults enginetest.Faults) *player {
	s.t.Helper()
	ways := s.Replica(faults)
	return &player{openOn(s.t, s.Cluster, ways), s.t, ways[0], ways[1], ways[2], ways}
}

// declare puts a definition in force.
func (p *player) declare(def engine.Definition) {
	p.t.Helper()
	if _, _, err := p.Put(p.t.Context(), db, def, engine.Condition{}, "test"); err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait() // it returns when two nodes have accepted
}

// ask makes a request and returns at once.
func (p *player) ask(ask engine.Ask) *asked {
	a := &asked{t: p.t, start: time.Now()}
	a.Request = p.Ask(db, ask, a)
	return a
}

// acquire makes a request that must be granted at once.
func (p *player) acquire(ask engine.Ask) engine.Lease {
	p.t.Helper()
	return p.ask(ask).mustHold()
}

// giveBack releases a lease, from any goroutine.
func (p *player) giveBack(l engine.Lease) {
	if _, err := p.Release(p.t.Context(), db, l.Capability, 0); err != nil {
		p.t.Errorf("release: %v", err)
	}
}

// release gives a lease back but for keep permits, and waits until every node has heard it.
func (p *player) release(l engine.Lease, keep int) {
	p.t.Helper()
	if _, err := p.Release(p.t.Context(), db, l.Capability, keep); err != nil {
		p.t.Errorf("release: %v", err)
	}
	synctest.Wait()
}

// status reads the status of the semaphore.
func (p *player) status() engine.Status {
	p.t.Helper()
	s, err := p.Semaphore(p.t.Context(), db)
	if err != nil {
		p.t.Errorf("status: %v", err)
	}
	return s.Status
}

// renewal is a renewal under way.
type renewal struct {
	t     *testing.T
	done  bool
	lease engine.Lease
	err   error
}

// renew begins a renewal by capability and lets it go as far as it can.
func (p *player) renew(l engine.Lease, ttl time.Duration) *renewal {
	r := &renewal{t: p.t}
	go func() {
		r.lease, r.err = p.Renew(p.t.Context(), db, l.Capability, ttl)
		r.done = true
	}()
	synctest.Wait()
	return r
}

// verdict fails the test unless the renewal has come to an end by now.
func (r *renewal) verdict() (engine.Lease, error) {
	r.t.Helper()
	synctest.Wait()
	if !r.done {
		r.t.Fatal("the renewal is still under way")
	}
	return r.lease, r.err
}
