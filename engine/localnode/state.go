package localnode

import (
	"crypto/rand"
	"math"
	"time"

	"github.com/tidwall/btree"

	"github.com/permitd/permitd/engine"
)

// State is everything one node remembers, and the rules by which it answers: Apply is the only way in. It does no I/O
// and knows no clock; the scripts of redisnode do the same to a Redis, and a differential test holds both together.
//
// Not safe for concurrent use.
type State struct {
	// RunID and Replid are the server's as it runs now. A record that was written under others does not let
	// forming and readmission go on.
	RunID, Replid string
	// Nonce names a new instance of the node, made when a blank node gets its record; crypto/rand.Text when nil.
	Nonce func() string
	// FenceStart is what every fence of the node exceeds, from its forming on, besides its time at that.
	FenceStart int64

	record     *engine.NodeRecord // nil: blank. Replaced as a whole, never changed
	semaphores btree.Map[string, *semaphore]
	forgets    ends[*tombstone]     // of all semaphores: most are in one that is not used any more
	cluster    map[string]*register // cluster-wide registers by name
	blobs      *blobs               // not of an era; a file each in a node that is durable
	changes    *changes             // nil: nobody wants to know
	beside     *State               // what was loaded and is not committed; nil: nothing
	floor      int64                // of what lies beside: the fence floor that came with it
}

// NewState returns the memory of a blank node.
func NewState() *State { return &State{cluster: map[string]*register{}, blobs: openBlobs("")} }

// Record is what the node keeps of itself, nil while it is blank. It must not be changed; it does not change.
func (s *State) Record() *engine.NodeRecord { return s.record }

// Apply executes one operation at now, the node's clock in µs, whole or not at all, and returns its answer and the messages to
// replicas that come of it: wake.Order.Replica names whose they are, or engine.EveryReplica. header is not needed by freeze, load and commit.
// Cost: O(weight + what was dropped), and a scan of a bitmap that is fast.
func (s *State) Apply(now int64, header *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
	v := visit{State: s, now: now, placement: p, answer: &engine.Answer{Time: now}, freed: -1}
	if !v.form(op) && v.admit(header, at) {
		v.execute(op)
	}
	return v.answer, v.wakes
}

// visit is one operation on its way through the state.
type visit struct {
	*State
	now       int64
	placement engine.Placement
	answer    *engine.Answer
	wakes     []engine.Wake

	semaphore *semaphore   // that the operation names
	freed     int          // the smallest slot it freed so far; -1: none
	stirred   bool         // slots were freed or a place lapsed, and nobody was woken yet
	stated    engine.Order // the place that it stated; zero: none
}

// execute does an operation that every node in good standing does.
func (v *visit) execute(op engine.Op) {
	switch op := op.(type) {
	case *engine.Claim:
		v.in(op.Semaphore, func() { v.claim(op) })
	case *engine.Mend:
		v.in(op.Semaphore, func() { v.mend(op) })
	case *engine.Renew:
		v.in(op.Semaphore, func() { v.renew(op) })
	case *engine.Release:
		v.in(op.Semaphore, func() { v.release(op) })
	case *engine.Attach:
		v.in(op.Semaphore, func() { v.attach(op) })
	case *engine.Line:
		v.in(op.Semaphore, func() { v.stateLine(op) })
	case *engine.Find:
		v.in(op.Semaphore, func() { v.find(op) })
	case *engine.View:
		v.in(op.Semaphore, func() { v.view(op) })
	case *engine.Names:
		v.names(op)
	case *engine.Mark:
		v.mark(op)
	case *engine.Suspend:
		v.suspend(op)
	case *engine.Note:
		v.note(op)
	case *engine.Read:
		v.readAll(op)
	default:
		v.executeRegister(op)
	}
}

// semaphoreOf returns a semaphore, made where there is none.
func (s *State) semaphoreOf(name string) *semaphore {
	m, ok := s.semaphores.Get(name)
	if !ok {
		m = &semaphore{name: name}
		s.semaphores.Set(name, m)
	}
	return m
}

// in runs an operation on a semaphore, after what is over there was dropped.
func (v *visit) in(name string, do func()) {
	m := v.semaphoreOf(name)
	v.semaphore = m
	v.dropDue()
	do()
	if v.stirred {
		v.wakeHead("")
	}
	v.forgetDue()
	v.tidy(m)
}

// tidy drops a semaphore of which nothing is remembered.
func (s *State) tidy(m *semaphore) {
	if m.empty() {
		s.semaphores.Delete(m.name)
	}
}

// nonce returns a new name for an instance.
func (s *State) nonce() string {
	if s.Nonce == nil {
		return rand.Text()
	}
	return s.Nonce()
}

// end returns when something is over that has left to live from now on.
func end(now int64, left time.Duration) int64 {
	if left == engine.Never {
		return never
	}
	return now + left.Microseconds()
}

// until returns how long it is until at: engine.Never for never, and not less than nothing.
func until(now, at int64) time.Duration {
	if at == never {
		return engine.Never
	}
	return micros(max(0, at-now))
}

// micros returns n µs, as far as a Duration reaches.
func micros(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}
