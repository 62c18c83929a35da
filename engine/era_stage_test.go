package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// healing is how long it takes at most until a node that comes back is noticed, readmitted and voted with by all.
const healing = 4 * time.Second

// ask executes an operation on a server as somebody would who knows what the server does.
func (s *stage) ask(server *enginetest.Server, op engine.Op) *engine.Answer {
	s.t.Helper()
	r := record(server)
	if r == nil {
		s.t.Fatalf("%s is blank", server.Name())
	}
	return server.Execute(&engine.Header{Cluster: r.Cluster, Index: r.Index, Known: r.Known}, server.Time(), engine.Placement{}, op)
}

// says fails the test unless a server says what is wanted.
func (s *stage) says(want engine.Says, server *enginetest.Server, op engine.Op) *engine.Answer {
	s.t.Helper()
	a := s.ask(server, op)
	if a.Says != want {
		s.t.Errorf("%s says %s to %s; want %s", server.Name(), a.Says, engine.OpName(op), want)
	}
	return a
}

// forgets makes a server lose its memory.
func forgets(servers ...*enginetest.Server) {
	for _, server := range servers {
		server.Kill()
		server.Restart(enginetest.Lost)
	}
}

// heal opens a replica, which has all nodes readmitted that are out, and returns it when all vote.
func (s *stage) heal() *player {
	s.t.Helper()
	p := s.player()
	s.healed(p)
	return p
}

// healed fails the test unless all nodes vote soon, as the replica sees it.
func (s *stage) healed(p *player) {
	s.t.Helper()
	time.Sleep(healing)
	synctest.Wait()
	if _, nodes := p.Nodes(); !allUp(nodes) {
		s.t.Fatalf("the nodes are %+v", nodes)
	}
}

func allUp(nodes []engine.NodeStatus) bool {
	for _, n := range nodes {
		if n.State != "up" {
			return false
		}
	}
	return true
}

// eras are the eras that the nodes are of, by their records.
func (s *stage) nodeEras() string {
	var list []int64
	for _, server := range s.Servers {
		if r := record(server); r != nil {
			list = append(list, r.Era)
		} else {
			list = append(list, 0)
		}
	}
	return fmt.Sprint(list)
}

// put lays a record of a lease down on a server, as a mend does.
func (s *stage) put(server *enginetest.Server, lease, by string, slots quorum.Slots, change ...func(*engine.Mend)) {
	s.t.Helper()
	mend := &engine.Mend{
		Semaphore: db, Lease: lease, By: by, Slots: slots, Fence: server.Time(), TTL: time.Minute, Owner: engine.Owner{Nonce: by},
		Ballot: s.says(engine.SaysDone, server, &engine.Peek{Kind: engine.RegisterSemaphore, Name: db}).Definition,
		Until:  server.Time() + time.Second.Microseconds(),
	}
	for _, c := range change {
		c(mend)
	}
	s.says(engine.SaysMended, server, mend)
}

// end executes a release of an attempt on a server.
func (s *stage) end(server *enginetest.Server, lease, by, why string) {
	s.t.Helper()
	s.says(engine.SaysReleased, server, &engine.Release{Semaphore: db, Lease: lease, By: by, Owner: engine.Owner{Nonce: by}, Left: time.Minute, Why: why})
}

// claimOf is a claim for a lease that somebody makes now.
func claimOf(lease, by string) *engine.Claim {
	return &engine.Claim{
		Semaphore: db, Lease: lease, By: by, Owner: engine.Owner{Nonce: by}, Weight: 1, TTL: time.Minute,
		Order: engine.Order{Arrival: 1, Replica: "somebody", Seq: 1},
	}
}

// renewalOf is a renewal of a lease as a record has it.
func renewalOf(server *enginetest.Server, r *engine.Record) *engine.Renew {
	return &engine.Renew{
		Semaphore: db, Lease: r.Lease, By: r.By, Owner: r.Owner, Ver: r.Ver, Slots: r.Slots, Fence: r.Fence, Ballot: r.Ballot, TTL: time.Minute,
		Until: server.Time() + time.Minute.Microseconds(),
	}
}

// attempts are what a server has of a lease: its records by their attempts.
func (s *stage) attempts(server *enginetest.Server, lease string) map[string]engine.Record {
	s.t.Helper()
	list := map[string]engine.Record{}
	if a := s.says(engine.SaysDone, server, &engine.Find{Semaphore: db, Lease: lease}); a.Record != nil {
		list[a.Record.By] = *a.Record
		for _, r := range a.Twins {
			list[r.By] = r
		}
	}
	return list
}

// playDefined plays a schedule on nodes that have a definition; no replica is open.
func playDefined(t *testing.T, def engine.Definition, schedule func(t *testing.T, s *stage)) {
	play(t, func(t *testing.T, s *stage) {
		r := s.player()
		r.declare(def)
		r.Close()
		schedule(t, s)
	})
}
