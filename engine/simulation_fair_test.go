package engine_test

import (
	"cmp"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
)

// First come, first served is promised up to one claim round, across replicas, whatever their clocks show. With faults a replica may
// not be heard for a while, and whoever comes later is served, so it is looked at without.

// roundMax is what a claim round takes at most without faults: there and back, mends, and the pauses between them.
func (w *world) roundMax() time.Duration { return 4*w.plan.faults.LatencyMax + 50*time.Millisecond }

// order is where the request stands in line.
func (t *tale) order() time.Duration {
	step := cmp.Or(t.w.planned(t.semaphore).def.PriorityStep, engine.PriorityStep)
	return t.asked - time.Duration(t.ask.Priority)*step
}

// noteOvertaken notes who waits and came before the request that was granted just now. That is no violation by itself: there may
// be permits for both, and the other is about to be granted, too. w.mu is held.
func (t *tale) noteOvertaken() {
	w := t.w
	if !w.calmFor(0) || t.asked < w.calmAt {
		return
	}
	for o := range w.tales {
		known := o.asked + w.roundMax() // with a head start it may come before a claim under way
		if o.behindOthers() {
			known += refreshMax
		}
		if o.waits() && o.asked >= w.calmAt && known < w.now() && o.semaphore == t.semaphore && o.order()+w.roundMax() < t.order() {
			o.overtaken = min(o.overtaken, w.now())
			o.overtakenBy = fmt.Sprintf("lease %s, asked of %s at %v", t.lease.ID, t.engine.Replica(), t.asked)
			if d := w.now() - o.overtaken; d > w.roundMax() {
				w.violatedf("a request for %s, priority %d, asked of %s at %v, still waits; %s, which comes after it, was granted at %v, and others since %v",
					o.semaphore, o.ask.Priority, o.engine.Replica(), o.asked, o.overtakenBy, w.now(), o.overtaken)
			}
		}
	}
}

// refreshMax is how old what the nodes know of a replica's waiters may be, its first aside.
const refreshMax = 500 * time.Millisecond

// behindOthers reports whether somebody stands before the request at the same replica. w.mu is held.
func (t *tale) behindOthers() bool {
	for o := range t.w.tales {
		if o.waits() && o.engine == t.engine && o.semaphore == t.semaphore && o.order() < t.order() {
			return true
		}
	}
	return false
}

// waits reports whether the request stands in line. w.mu is held.
func (t *tale) waits() bool { return t.granted == forever && !t.orphan && t.ask.Wait > 0 }
