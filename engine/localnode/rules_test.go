package localnode

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// memory is a formed State with a clock, of a cluster of three. Each operation checks the invariants afterwards.
type memory struct {
	t      *testing.T
	state  *State
	now    int64 // µs
	header *engine.Header
	wakes  []engine.Wake // of the last operation
}

const (
	runID = "run-1"
	db    = "db"
)

// newMemory returns a node with index 1 that is ok, in era 1, at second 1000 of its clock.
func newMemory(t *testing.T) *memory {
	t.Helper()
	state := NewState()
	state.RunID = runID
	m := &memory{t: t, state: state, now: 1_000_000_000, header: &engine.Header{}}
	token := engine.Ballot{Counter: 1, Replica: "former"}
	for _, op := range []engine.Op{
		&engine.Freeze{Token: token, RunID: runID},
		&engine.Load{Token: token, RunID: runID, Cluster: "c", N: 3, Index: 1, Known: []int64{1, 1, 1}},
		&engine.Commit{Token: token, RunID: runID},
	} {
		m.says(op, engine.SaysDone)
	}
	m.header = &engine.Header{Cluster: "c", Index: 1, Known: []int64{1, 1, 1}}
	return m
}

// defined returns a node that has accepted a definition of the semaphore.
func defined(t *testing.T, value engine.Value) *memory {
	t.Helper()
	m := newMemory(t)
	m.define(value)
	return m
}

// define makes the node accept a definition by a ballot larger than the last.
func (m *memory) define(value engine.Value) engine.Ballot {
	m.t.Helper()
	peek := m.do(&engine.Peek{Kind: engine.RegisterSemaphore, Name: db})
	ballot := engine.Ballot{Counter: peek.Definition.Counter + 1, Replica: "writer"}
	m.says(&engine.Accept{Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot, Value: value}, engine.SaysAccepted)
	return ballot
}

func (m *memory) do(op engine.Op) *engine.Answer {
	m.t.Helper()
	return m.doAs(engine.Placement{}, op)
}

func (m *memory) doAs(p engine.Placement, op engine.Op) *engine.Answer {
	m.t.Helper()
	answer, wakes := m.state.Apply(m.now, m.header, 0, p, op)
	if err := m.state.Check(); err != nil {
		m.t.Fatalf("after %s %+v: %v", engine.OpName(op), op, err)
	}
	if answer.Time != m.now {
		m.t.Fatalf("%s: the answer's time is %d, want %d", engine.OpName(op), answer.Time, m.now)
	}
	m.wakes = wakes
	return answer
}

// says runs an operation and fails the test unless it is answered so.
func (m *memory) says(op engine.Op, want engine.Says) *engine.Answer {
	m.t.Helper()
	return m.saysAs(engine.Placement{}, op, want)
}

func (m *memory) saysAs(p engine.Placement, op engine.Op, want engine.Says) *engine.Answer {
	m.t.Helper()
	answer := m.doAs(p, op)
	if answer.Says != want {
		m.t.Fatalf("%s %+v: says %q, want %q", engine.OpName(op), op, answer.Says, want)
	}
	return answer
}

func (m *memory) pass(d time.Duration) { m.now += d.Microseconds() }

func (m *memory) record(lease string) *engine.Record {
	m.t.Helper()
	return m.do(&engine.Find{Semaphore: db, Lease: lease}).Record
}

func (m *memory) view() *engine.ViewPage {
	m.t.Helper()
	return m.do(&engine.View{Semaphore: db, Count: pageMax}).View
}

// wokenReplicas are those whose heads the last operation woke.
func (m *memory) wokenReplicas() []string {
	var list []string
	for _, w := range m.wakes {
		list = append(list, w.Order.Replica)
	}
	return list
}

// copied makes a lease's record one that the node was only told of, as a readmission does.
func (m *memory) copied(lease string) {
	s, _ := m.state.semaphores.Get(db)
	s.lease(lease).copy = true
}

// copyOf puts a copy of a lease into the node, as a readmission does, also onto slots that others have.
func (m *memory) copyOf(id, by string, fence int64, slots quorum.Slots) {
	s, _ := m.state.semaphores.Get(db)
	v := visit{State: m.state, now: m.now, answer: &engine.Answer{}, semaphore: s, freed: -1}
	v.raiseFence(fence)
	v.add(&lease{
		ending: ending{at: m.now + 30e6}, id: id, by: by, owner: owner(0, "r1"), slots: slots, fence: fence, copy: true,
		granted: m.now, touched: m.now,
	})
}

func owner(gen int64, nonce string) engine.Owner { return engine.Owner{Gen: gen, Nonce: nonce} }

func order(arrival int64, replica string) engine.Order {
	return engine.Order{Arrival: arrival, Replica: replica, Seq: arrival}
}

// claimOf is an attempt for one slot that never waits, by a request that came before every other.
func claimOf(lease, by string) *engine.Claim {
	return &engine.Claim{
		Semaphore: db, Lease: lease, By: by, Owner: owner(0, "r1"), Weight: 1, TTL: 30 * time.Second, Order: order(1, "r1"), Info: "i",
	}
}

// releaseOf gives all of a lease back.
func releaseOf(lease, by, why string) *engine.Release {
	return &engine.Release{Semaphore: db, Lease: lease, By: by, Owner: owner(0, "r1"), Why: why}
}

// with returns a changed copy of an operation.
func with[T any](op *T, change func(*T)) *T {
	c := *op
	change(&c)
	return &c
}
