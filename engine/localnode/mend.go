package localnode

import (
	"github.com/permitd/permitd/engine"
)

// mend puts a lease on the slots and fence that a majority agrees on; see engine.Mend.
func (v *visit) mend(op *engine.Mend) {
	m := v.semaphore
	v.answer.Says = v.tryMend(op)
	v.tellLease(m.attempt(op.Lease, op.By), m.limit())
}

func (v *visit) tryMend(op *engine.Mend) engine.Says {
	m := v.semaphore
	l := m.attempt(op.Lease, op.By)
	retry := op.New && op.Owner.Gen > 0
	switch {
	case v.now >= op.Until, m.barred(op.Lease, op.By, op.Owner, v.now), l != nil && !mendable(l, op):
		return engine.SaysNo
	case retry && m.ballot != op.Ballot:
		return engine.SaysBallot
	case retry && len(op.Slots.From(m.limit())) > 0:
		return engine.SaysOver
	case retry && l != nil && !l.slots.Contains(op.Slots):
		return engine.SaysNo
	case m.othersUse(op.Slots, l):
		if l != nil && op.New && !retry && l.ver < op.Ver && !l.slots.Equal(op.Slots) {
			v.drop(l, false)
		}
		return engine.SaysNo
	}
	if l == nil {
		v.place(op)
	} else {
		v.move(l, op)
	}
	return engine.SaysMended
}

// mendable reports whether the record that is there gives way to the mend.
func mendable(l *lease, op *engine.Mend) bool {
	firstRenewal := !op.New && op.Owner.Gen == 0
	switch {
	case l.by != op.By, l.ver > op.Ver, l.owner.Compare(op.Owner) > 0:
		return false
	case l.ver == op.Ver && !l.slots.Equal(op.Slots):
		return firstRenewal
	}
	return true
}

// place makes the record that a mend brings to a node without one.
func (v *visit) place(op *engine.Mend) {
	m := v.semaphore
	l := &lease{
		ending: ending{at: end(v.now, op.TTL)},
		id:     op.Lease, by: op.By, owner: op.Owner, info: op.Info, first: op.First,
		slots: op.Slots, fence: op.Fence, ver: op.Ver, granted: v.now, touched: v.now, definition: op.Ballot,
	}
	if op.New {
		l.fence = m.nextFence(v.record.FenceFloor, op.Fence)
	}
	v.noteTTL(op.TTL)
	v.raiseFence(l.fence)
	v.add(l)
}

// move puts a record on the slots of a mend. What the mend of a lease that may be granted takes away cools.
func (v *visit) move(l *lease, op *engine.Mend) {
	m := v.semaphore
	switch {
	case !op.New:
		l.fence = op.Fence
	case l.slots.Equal(op.Slots) && !l.copy:
		l.fence = max(l.fence, op.Fence)
	default:
		l.fence = m.nextFence(v.record.FenceFloor, op.Fence)
	}
	m.occupy(op.Slots.Minus(l.slots))
	v.take(l, l.slots.Minus(op.Slots), !op.New || op.Owner.Gen > 0)
	l.slots, l.ver, l.owner, l.definition, l.info = op.Slots, op.Ver, op.Owner, op.Ballot, op.Info
	l.first, l.copy, l.touched = op.First, false, v.now
	v.raiseFence(l.fence)
	v.lengthen(l, op.TTL)
	v.changes.keep(l)
}
