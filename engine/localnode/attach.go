package localnode

import (
	"github.com/permitd/permitd/engine"
)

// attach makes another replica's request the owner of a lease; see engine.Attach.
func (v *visit) attach(op *engine.Attach) {
	m := v.semaphore
	v.answer.Says = v.tryAttach(op)
	v.tellLease(m.attempt(op.Lease, op.By), m.limit())
}

func (v *visit) tryAttach(op *engine.Attach) engine.Says {
	m := v.semaphore
	l := m.attempt(op.Lease, op.By)
	switch {
	case l == nil, l.by != op.By, m.barred(op.Lease, op.By, op.Owner, v.now):
		return engine.SaysNo
	case l.owner.Compare(op.Owner) > 0:
		return engine.SaysMoved
	case l.copy, l.ver != op.Ver, !l.slots.Equal(op.Slots), m.othersUse(l.slots, l):
		return engine.SaysNo
	}
	l.owner = op.Owner
	v.lengthen(l, op.Left)
	v.changes.keep(l)
	return engine.SaysAttached
}
