package localnode

import "github.com/permitd/permitd/engine"

// register is a CASPaxos register as one acceptor has it: the definition of a semaphore, or a value of the cluster.
type register struct {
	promise, ballot engine.Ballot
	value           engine.Value
}

// accepted reports whether it has a value.
func (r *register) accepted() bool { return r.ballot != engine.Ballot{} }

// largest is the ballot that a later one has to exceed.
func (r *register) largest() engine.Ballot {
	if r.promise.Compare(r.ballot) > 0 {
		return r.promise
	}
	return r.ballot
}

// executeRegister does the operations of registers.
func (v *visit) executeRegister(op engine.Op) {
	switch op := op.(type) {
	case *engine.Prepare:
		v.inRegister(op.Kind, op.Name, func(r *register) { v.prepare(op, r) })
	case *engine.Accept:
		v.inRegister(op.Kind, op.Name, func(r *register) { v.accept(op, r) })
	case *engine.Peek:
		v.inRegister(op.Kind, op.Name, func(r *register) {
			v.answer.Says, v.answer.Definition, v.answer.Value = engine.SaysDone, r.ballot, r.value
		})
	case *engine.Drop:
		v.inRegister(op.Kind, op.Name, func(r *register) { v.dropRegister(op, r) })
	default:
		v.executeBlob(op)
	}
}

// inRegister runs an operation on a register, that of a semaphore as one on the semaphore.
func (v *visit) inRegister(kind, name string, do func(*register)) {
	if kind == engine.RegisterSemaphore {
		v.in(name, func() { do(&v.semaphore.register) })
		return
	}
	r := v.cluster[name]
	if r == nil {
		r = &register{}
		v.cluster[name] = r
	}
	do(r)
	if *r == (register{}) {
		delete(v.cluster, name)
	}
}

// prepare promises to accept no smaller ballot.
func (v *visit) prepare(op *engine.Prepare, r *register) {
	if r.largest().Compare(op.Ballot) >= 0 {
		v.answer.Says, v.answer.Promise = engine.SaysNo, r.largest()
		return
	}
	r.promise = op.Ballot
	v.changes.keepRegister(op.Kind, op.Name, r)
	v.answer.Says, v.answer.Definition, v.answer.Value = engine.SaysPromised, r.ballot, r.value
}

// accept takes the value over. Every replica hears that it has changed.
func (v *visit) accept(op *engine.Accept, r *register) {
	if r.largest().Compare(op.Ballot) > 0 {
		v.answer.Says, v.answer.Promise = engine.SaysNo, r.largest()
		return
	}
	changed := r.ballot != op.Ballot
	r.promise, r.ballot, r.value = op.Ballot, op.Ballot, op.Value
	v.changes.keepRegister(op.Kind, op.Name, r)
	v.answer.Says = engine.SaysAccepted
	news := engine.Wake{Node: v.record.Index, Order: engine.Order{Replica: engine.EveryReplica}}
	if op.Kind == engine.RegisterSemaphore {
		news.Semaphore = op.Name
		v.semaphore.recount()
		v.wakeHead("")
	}
	if changed {
		v.wakes = append(v.wakes, news)
	}
}

// dropRegister removes a deleted register where nothing is held, cools or waits. What the semaphore's fences reached is kept by
// the floor of all. While a cold start is waited out nobody knows what is held: nothing is dropped. Nor is it while a larger
// ballot is promised: a promise that is forgotten would let a smaller one be chosen before that one is accepted.
func (v *visit) dropRegister(op *engine.Drop, r *register) {
	v.answer.Says, v.answer.Promise = engine.SaysNo, r.largest()
	if !r.accepted() || !r.value.Deleted || r.ballot != op.Ballot || r.largest() != op.Ballot {
		return
	}
	if op.Kind == engine.RegisterSemaphore {
		m := v.semaphore
		if m.leases.Len() > 0 || len(m.cooling.items) > 0 || len(m.line) > 0 || v.now < v.waitEnd() {
			return
		}
		if m.lastFence > v.record.FenceFloor {
			v.setRecord(func(r *engine.NodeRecord) { r.FenceFloor = m.lastFence })
		}
		m.lastFence, m.longestTTL, m.waitEnd = 0, 0, 0
		v.changes.unkeep(m)
	}
	*r = register{}
	v.changes.keepRegister(op.Kind, op.Name, r)
	v.answer.Says, v.answer.Promise = engine.SaysDone, engine.Ballot{}
}
