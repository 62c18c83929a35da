package engine_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// claimOfOneThatDied is the claim of a replica that died before a node executed it: the test lays what it wants of it.
func (s *stage) claimOfOneThatDied(ask engine.Ask) *engine.Claim {
	s.t.Helper()
	dead := s.player()
	dead.ways.Hold("claim")
	dead.ask(ask)
	claim := dead.a.Next("claim").Op.(*engine.Claim)
	dead.dies()
	return claim
}

// grants lets a server execute a claim, looking for slots from start on and with a fence of at least fence.
func (s *stage) grants(server *enginetest.Server, claim *engine.Claim, start int, fence int64) {
	s.t.Helper()
	op := *claim
	op.Start, op.Fence = start, fence
	if a := s.do(server, &op); a.Says != engine.SaysGranted {
		s.t.Fatalf("%s says %s to the claim", server.Name(), a.Says)
	}
}

// reseed makes a node one of a larger era, with copies of what another remembers and of these records.
func (s *stage) reseed(server, source *enginetest.Server, records ...engine.Record) {
	s.t.Helper()
	read := func(semaphore, cursor string) *engine.Page {
		a := s.do(source, &engine.Read{RunID: source.RunID(), Semaphore: semaphore, Cursor: cursor})
		if a.Says != engine.SaysDone {
			s.t.Fatalf("%s says %s to a read", source.Name(), a.Says)
		}
		return a.Page
	}
	page, whole := read(db, ""), read("", "")
	page.Semaphores[0].Leases = append(page.Semaphores[0].Leases, records...)
	page.Registers, page.FenceFloor, page.Tombstones = whole.Registers, whole.FenceFloor, read("", whole.Next).Tombstones
	s.readmit(server, engine.Load{Page: page})
	s.heardOf(server)
	time.Sleep(2 * time.Second) // replicas hear of the new era
}

// heardOf makes what others are asked under name the era of a server.
func (s *stage) heardOf(server *enginetest.Server) {
	i := s.header(server).Index
	for _, other := range s.Servers {
		known := slices.Clone(s.header(other).Known)
		known[i] = s.header(server).Known[i]
		s.eras[other] = known
	}
}

// cools fails the test unless these slots cool on each of the servers.
func (s *stage) cools(slots string, servers ...*enginetest.Server) {
	s.t.Helper()
	for _, server := range servers {
		page, _ := server.View(db)
		if len(page.Cooling) != 1 || page.Cooling[0].Slots.String() != slots {
			s.t.Errorf("on %s there cools %+v; want %s", server.Name(), page.Cooling, slots)
		}
	}
}

// record is what a server knows of a lease; there must be something.
func (s *stage) record(server *enginetest.Server, id string) engine.Record {
	s.t.Helper()
	r := server.Record(db, id)
	if r == nil {
		s.t.Fatalf("%s does not know %s", server.Name(), id)
	}
	return *r
}

// retry asks again by a replica that hears A first: B and C alone would be alike, and that is an answer, too.
func (p *player) retry(ask engine.Ask) engine.Lease {
	p.t.Helper()
	p.b.Hold("find")
	p.c.Hold("find")
	again := p.ask(ask)
	synctest.Wait()
	p.ways.Pass("find")
	synctest.Wait()
	return again.mustHold()
}

// partOnOneNode acquires two permits with a key, of which one is given back on A only: then the replica dies.
func (s *stage) partOnOneNode(ask engine.Ask) engine.Lease {
	s.t.Helper()
	r := s.player()
	ask.Permits = 2
	l := r.acquire(ask)
	r.b.Hold("release")
	r.c.Hold("release")
	go func() { _, _ = r.Release(s.t.Context(), db, l.Capability, 1) }()
	r.b.Next("release")
	r.dies()
	s.everywhere(l.ID, "0", s.a)
	s.everywhere(l.ID, "0-1", s.b, s.c)
	return l
}
