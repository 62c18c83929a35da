package localnode

import (
	"github.com/permitd/permitd/engine"
)

// renew lengthens a lease; see engine.Renew.
func (v *visit) renew(op *engine.Renew) {
	m := v.semaphore
	v.answer.Says = v.tryRenew(op)
	v.tellLease(m.attempt(op.Lease, op.By), m.limit())
}

func (v *visit) tryRenew(op *engine.Renew) engine.Says {
	m := v.semaphore
	l := m.attempt(op.Lease, op.By)
	switch {
	case v.now >= op.Until, m.barred(op.Lease, op.By, op.Owner, v.now), l != nil && (l.by != op.By || l.ver > op.Ver):
		return engine.SaysNo
	case l != nil && l.owner.Compare(op.Owner) > 0:
		return engine.SaysMoved
	case l == nil, l.ver < op.Ver, !l.slots.Contains(op.Slots):
		return engine.SaysMissing
	case m.othersUse(op.Slots, l):
		return engine.SaysNo
	}
	v.take(l, l.slots.Minus(op.Slots), true)
	l.slots, l.fence, l.owner, l.definition = op.Slots, op.Fence, op.Owner, op.Ballot
	l.first, l.copy = false, false
	v.raiseFence(op.Fence)
	v.lengthen(l, op.TTL)
	v.changes.keep(l)
	return engine.SaysRenewed
}
