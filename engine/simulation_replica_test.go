package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/engine"
)

// replica is one permitd.
type replica struct {
	w    *world
	name string
	dice dice
	ways []*stoppable

	moved   bool                          // its list has the spare node in place of the last
	current atomic.Pointer[engine.Engine] // nil: it is down
}

// open starts the replica, with a clock of its own.
func (r *replica) open() {
	faults := r.w.faults
	faults.Seed = faults.Seed*7919 + uint64(r.dice.Uint32())
	r.ways = nil
	for _, way := range r.w.network.ways(faults, r.moved) {
		r.ways = append(r.ways, &stoppable{way: way})
	}
	offset, rate := r.dice.upTo(100*time.Hour), 1+clockDrift*(2*r.dice.Float64()-1)
	since := r.w.now()
	nodes := make([]engine.Node, len(r.ways))
	for i, way := range r.ways {
		nodes[i] = way
		if r.w.wrap != nil {
			nodes[i] = r.w.wrap(way)
		}
	}
	e, err := engine.Open(engine.Config{
		DurableNodes: r.w.plan.durable,
		Nodes:        nodes, Now: func() time.Duration { return offset + time.Duration(float64(r.w.now()-since)*rate) },
		Meter: watchful{r.w},
	})
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.current.Store(e)
}

// close ends the replica: its leases are left to their TTL.
func (r *replica) close() {
	e := r.current.Swap(nil)
	if e == nil {
		return
	}
	e.Close()
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for t := range r.w.tales {
		if t.engine == e {
			t.orphaned()
		}
	}
}

// way returns the way to one of the nodes.
func (r *replica) way(d dice) *stoppable { return pick(d, r.ways...) }

// someEngine returns a replica that is up; nil if none is.
func (w *world) someEngine(d dice) *engine.Engine {
	up := make([]*engine.Engine, 0, len(w.replicas))
	for _, r := range w.replicas {
		if e := r.current.Load(); e != nil {
			up = append(up, e)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return pick(d, up...)
}

// mayBeAway reports whether err is what a replica may say, to a call that was made so long ago, while nodes or itself are away:
// there is no answer. w.mu is held.
func (w *world) mayBeAway(e *engine.Engine, err error, asked time.Duration) bool {
	if !w.isUp(e) {
		return true
	}
	return !w.calmFor(w.now()-asked) && (errors.Is(err, engine.ErrQuorumUnavailable) || errors.Is(err, engine.ErrNotConfirmed) ||
		errors.Is(err, engine.ErrInProgress))
}

func (w *world) isUp(e *engine.Engine) bool {
	for _, r := range w.replicas {
		if r.current.Load() == e {
			return true
		}
	}
	return false
}

// watchful ends a trial in which an engine itself notices a broken promise.
type watchful struct{ w *world }

func (watchful) HandedOver(time.Duration) {}
func (watchful) Granted(int)              {}

func (m watchful) Violated(invariant string) {
	m.w.check(fmt.Errorf("an engine has noticed a broken promise: %s", invariant))
}
