package localnode

import (
	"github.com/permitd/permitd/engine"
)

// claim asks for slots; see engine.Claim for the rules and their order.
func (v *visit) claim(op *engine.Claim) {
	a, m := v.answer, v.semaphore
	a.Says = v.decide(op)
	replica := op.Order.Replica
	switch a.Says {
	case engine.SaysGranted:
		v.statePlace(replica, engine.PlaceAlways, v.placement.Next)
	case engine.SaysFull, engine.SaysBehind, engine.SaysPaused, engine.SaysOver:
		if op.Wait {
			v.statePlace(replica, v.placement.Mode, v.placement.Place)
		}
	}
	v.wakeHead("")
	l := m.attempt(op.Lease, op.By)
	v.tellLease(l, m.bound(op.Bound))
	if a.Says == engine.SaysGranted {
		a.Definition = l.definition // an old grant is a vote under the definition it was given under
	}
	if m.defined() {
		a.Beyond = m.beyond()
	}
	v.tellLine(replica, op.Order)
	v.tellNextEnd()
}

// decide grants the claim or says why not.
func (v *visit) decide(op *engine.Claim) engine.Says {
	m := v.semaphore
	own := m.attempt(op.Lease, op.By)
	switch {
	case !m.defined():
		return engine.SaysUndefined
	case m.barred(op.Lease, op.By, op.Owner, v.now):
		return engine.SaysGone
	case own != nil && own.by != op.By:
		return engine.SaysExists
	case own != nil && !own.copy:
		return engine.SaysGranted
	case op.Bound > 0 && m.ballot != op.Ballot:
		return engine.SaysBallot
	case op.Bound <= 0 && m.used.count > m.usedBelow:
		return engine.SaysOver
	case m.value.Paused:
		return engine.SaysPaused
	case v.now < v.waitEnd():
		return engine.SaysFull
	}
	free := m.free(m.bound(op.Bound))
	if first, weight := m.waitsBefore(op.Order, v.now); weight > 0 && free < op.Weight+weight {
		v.answer.BeforeIs = first
		return engine.SaysBehind
	}
	if own != nil {
		return v.claimCopy(own, op)
	}
	if free < op.Weight {
		return engine.SaysFull
	}
	v.grant(op)
	return engine.SaysGranted
}

// grant gives the claim its slots. There are enough.
func (v *visit) grant(op *engine.Claim) {
	m := v.semaphore
	bound := m.bound(op.Bound)
	l := &lease{
		ending: ending{at: end(v.now, op.TTL)},
		id:     op.Lease, by: op.By, owner: op.Owner, info: op.Info, first: true,
		slots: m.used.pick(op.Start%bound, bound, op.Weight), fence: m.nextFence(v.record.FenceFloor, op.Fence),
		granted: v.now, touched: v.now, definition: m.ballot,
	}
	v.noteTTL(op.TTL)
	v.raiseFence(l.fence)
	v.add(l)
}

// claimCopy makes a vote of a record that the node was only told of.
func (v *visit) claimCopy(l *lease, op *engine.Claim) engine.Says {
	m := v.semaphore
	if m.othersUse(l.slots, l) || len(l.slots.From(m.bound(op.Bound))) > 0 {
		return engine.SaysFull
	}
	l.fence = m.nextFence(v.record.FenceFloor, op.Fence)
	l.copy, l.definition, l.touched = false, m.ballot, v.now
	v.raiseFence(l.fence)
	v.lengthen(l, op.TTL)
	v.changes.keep(l)
	return engine.SaysGranted
}

// tellNextEnd tells a refused claim when asking again may help: at the end of a wait, else at the end of a lease or of cooling, or
// when the place before it is passed over.
func (v *visit) tellNextEnd() {
	a, m := v.answer, v.semaphore
	switch a.Says {
	case engine.SaysFull, engine.SaysBehind, engine.SaysPaused, engine.SaysOver:
	default:
		return
	}
	next := min(m.lapses.first(), m.cooling.first())
	if p := m.placeOf(a.BeforeIs.Replica); p != nil && p.Order == a.BeforeIs {
		next = min(next, p.passed)
	}
	if wait := v.waitEnd(); v.now < wait {
		next = wait
	}
	if next != never {
		a.NextEnd = until(v.now, next)
	}
}
