package localnode

import (
	"github.com/permitd/permitd/engine"
)

// release ends a lease or gives a part of it back; see engine.Release.
func (v *visit) release(op *engine.Release) {
	m := v.semaphore
	v.answer.Says = v.giveBack(op)
	spared := ""
	if op.Follows {
		spared = op.Replica
	}
	v.wakeHead(spared)
	v.tellLease(m.attempt(op.Lease, op.By), m.limit())
	v.tellOwnLine(op.Replica)
}

func (v *visit) giveBack(op *engine.Release) engine.Says {
	l := v.semaphore.attempt(op.Lease, op.By)
	if l != nil && l.by != op.By {
		l = nil // another attempt's: it stays
	}
	if l != nil && !op.AnyOwner && l.owner.Compare(op.Owner) > 0 {
		return engine.SaysKept
	}
	says := engine.SaysReleased
	cool := op.Why != engine.WhyBroken && op.Why != engine.WhyGivenBack
	all := len(op.Slots) == 0
	changed := l != nil && (all || l.ver < op.Ver)
	if !all && changed {
		v.take(l, l.slots.Minus(l.slots.Minus(op.Slots)), cool)
		l.ver = op.Ver
		v.changes.keep(l)
		all = len(l.slots) == 0
	}
	if all {
		t := v.bury(op, l)
		if l != nil {
			v.drop(l, cool)
			t.inherit(&l.stored)
		} else {
			says = ended(t.why, op.Why)
		}
	}
	if changed && op.Tells {
		v.wakes = append(v.wakes, engine.Wake{
			Node: v.record.Index, Semaphore: op.Semaphore, Lease: op.Lease, Order: engine.Order{Replica: engine.EveryReplica},
		})
	}
	v.statePlace(op.Replica, v.placement.Mode, v.placement.Place)
	if v.placement.Mode != engine.PlaceIfLast {
		v.stated = engine.Order{} // of a waiter that is gone: whoever comes after it may well be woken
	}
	return says
}

// ended is what is said to a release of what has no record, by the reason of its tombstone.
func ended(was, why string) engine.Says {
	switch {
	case was == engine.WhyBroken && why == engine.WhyReleased:
		return engine.SaysBroken
	case was == engine.WhyReleased && why == engine.WhyBroken:
		return engine.SaysGone
	}
	return engine.SaysReleased
}
