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
	cool := op.Why != engine.WhyBroken && op.Why != engine.WhyGivenBack
	all := len(op.Slots) == 0
	if !all && l != nil && l.ver < op.Ver {
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
		}
	}
	v.statePlace(op.Replica, v.placement.Mode, v.placement.Place)
	if v.placement.Mode != engine.PlaceIfLast {
		v.stated = engine.Order{} // of a waiter that is gone: whoever comes after it may well be woken
	}
	return engine.SaysReleased
}
