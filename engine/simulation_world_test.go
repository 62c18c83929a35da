package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// world is one simulation: nodes, replicas and clients in a bubble, and what has become of them.
//
// Lock order: the engine's locks (events come with them held), then mu, then those of the history and the servers. So nobody calls
// the engine with mu held.
type world struct {
	t          *testing.T
	plan       plan
	network    network
	nodes      []node
	start      time.Time
	replicas   []*replica
	chosen     *chosen
	claims     *claims
	history    *enginetest.History
	faults     enginetest.Faults // of ways that are made from now on
	wrap       func(engine.Node) engine.Node
	trust      func(engine.Lease) time.Duration // what holders add to a validity that they are told
	spoiled    time.Duration                    // when a memory or a clock was spoiled last
	moved      bool                             // some replicas have another list of nodes
	erasInCalm []int64                          // those of the nodes when all were healed
	blind      bool                             // only what holders are told is checked, not what nodes remember
	broken     chan struct{}                    // closed with the first violation
	calming    atomic.Bool                      // nobody changes definitions any more
	winding    atomic.Bool                      // nobody begins anything new
	clients    sync.WaitGroup
	operators  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	err     error      // the first violation
	steps   int
	tales   map[*tale]struct{}       // that are not over
	granted map[string]bool          // leases that were told
	gone    map[string]released      // by lease
	placed  map[string]time.Duration // by semaphore and slot: when its last holder's lease was placed first
	fences  map[string]int64         // by node and semaphore: the last fence
	calmAt  time.Duration            // since when there are no faults
	idle    map[string]time.Duration
	pending map[*engineCall]struct{}
}

// released is a lease whose release was acknowledged.
type released struct {
	at time.Duration
	by string
}

// forever is a time that does not come.
const forever = engine.Never

// newWorld makes the nodes of a plan, whose clocks differ, and opens the replicas, all of which want to form the cluster. changes
// are what a test wants otherwise.
func newWorld(t *testing.T, p plan, changes []func(*world)) *world {
	w := &world{
		t: t, plan: p, start: time.Now(), network: networkOf(t, &p), broken: make(chan struct{}), blind: p.eras,
		tales: map[*tale]struct{}{}, granted: map[string]bool{}, gone: map[string]released{}, placed: map[string]time.Duration{},
		fences: map[string]int64{},
		idle:   map[string]time.Duration{}, pending: map[*engineCall]struct{}{}, calmAt: forever,
	}
	w.nodes = w.network.all()
	w.chosen, w.claims = newChosen(w.now, w.quorum()), newClaims()
	w.network.watch(w)
	w.history = &enginetest.History{Quorum: p.nodes/2 + 1, Records: w.records}
	for _, s := range p.semaphores { // which limit is in force is ours to know
		w.history.LimitAsked(0, s.name, engine.LimitMax)
		w.history.LimitTold(0, s.name)
	}
	for _, change := range changes {
		change(w)
	}
	if w.blind {
		w.history.Records = nil
	}
	w.faults = enginetest.Faults{Seed: p.seed, LatencyMin: p.faults.LatencyMin, LatencyMax: p.faults.LatencyMax}
	if p.roughStart {
		w.faults = p.faults
	}
	d := newDice(p.seed, "world")
	for i := range p.replicas {
		r := &replica{w: w, name: fmt.Sprintf("R%d", i+1), dice: newDice(p.seed, fmt.Sprint("replica ", i))}
		w.replicas = append(w.replicas, r)
		time.Sleep(d.upTo(10 * time.Millisecond))
		r.open()
	}
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// sleep waits, or returns false at once when something is broken.
func (w *world) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.broken:
		return false
	}
}

// isBroken reports whether something is broken: then everybody goes home.
func (w *world) isBroken() bool {
	select {
	case <-w.broken:
		return true
	default:
		return false
	}
}

// violated notes a violation, of which the first counts. nil is none. mu is held.
func (w *world) violated(err error) {
	if err == nil || w.err != nil {
		return
	}
	w.err = fmt.Errorf("seed %d, step %d, %v: %w", w.plan.seed, w.steps, w.now(), err)
	w.network.endTranscript()
	close(w.broken)
}

func (w *world) violatedf(format string, args ...any) { w.violated(fmt.Errorf(format, args...)) }

// check is violated for those who do not hold mu.
func (w *world) check(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	w.violated(err)
}

// verdict is the first violation, nil if there was none.
func (w *world) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// records reads a lease on all nodes. A record whose time is over is none.
func (w *world) records(semaphore, lease string) []*engine.Record {
	if w.blind {
		return nil
	}
	records := make([]*engine.Record, len(w.nodes))
	for i, n := range w.nodes {
		for _, r := range n.Look(semaphore).Leases {
			if r.Lease == lease && r.Left > 0 {
				records[i] = &r
			}
		}
	}
	return records
}

// engineCall is a call of the engine that blocks.
type engineCall struct {
	what  string
	since time.Duration
}

// called runs a call of the engine that blocks; one that does not return is a violation. It is meant to end within some
// node time-outs.
func (w *world) called(what string, do func(context.Context)) {
	c := &engineCall{what, w.now()}
	w.mu.Lock()
	w.pending[c] = struct{}{}
	w.mu.Unlock()
	do(w.t.Context())
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, c)
}
