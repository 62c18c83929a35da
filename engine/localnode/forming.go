package localnode

import (
	"slices"

	"github.com/permitd/permitd/engine"
)

// form does the operations of forming and readmission that a node does which is out, too, and reports whether op is one.
func (v *visit) form(op engine.Op) bool {
	if !engine.ForNodesOut(op) {
		return false
	}
	switch op := op.(type) {
	case *engine.Freeze:
		v.freeze(op)
	case *engine.Load:
		v.load(op)
	case *engine.Commit:
		v.commit(op)
	case *engine.Read:
		v.readAll(op)
	}
	v.answer.Node = v.record
	return true
}

// freeze stops the node for the bearer of a token.
func (v *visit) freeze(op *engine.Freeze) {
	v.answer.Says = engine.SaysNo
	if op.RunID != v.RunID || v.record != nil && !freezable(v.record, op) {
		return
	}
	if v.record == nil {
		v.record = &engine.NodeRecord{Format: engine.FormatNow, Instance: v.nonce()}
	}
	v.setRecord(func(r *engine.NodeRecord) {
		r.State, r.Token, r.RunID, r.Replid = engine.StateFrozen, op.Token, v.RunID, v.Replid
	})
	v.answer.Says = engine.SaysDone
}

// freezable reports whether the record gives way to the token.
func freezable(r *engine.NodeRecord, op *engine.Freeze) bool {
	switch {
	case r.Token.Compare(op.Token) > 0, r.Token != op.Token && r.Token != op.Was:
		return false
	case r.Token == op.Token && r.State != engine.StateFrozen: // what the token was for is done: this comes late
		return false
	case r.EverOK && r.Cluster != op.Cluster:
		return false
	}
	return true
}

// frozenBy reports whether the node is frozen by a token under the server's run id, as it is now and as it was then.
func (v *visit) frozenBy(token engine.Ballot, runID string) bool {
	r := v.record
	return r != nil && r.State == engine.StateFrozen && r.Token == token && r.RunID == runID && v.RunID == runID
}

// load lays down an identity, and a page of memory, beside what the node has.
func (v *visit) load(op *engine.Load) {
	v.answer.Says = engine.SaysNo
	if !v.frozenBy(op.Token, op.RunID) {
		return
	}
	p := v.record.Pending
	begun := p != nil && p.Token == op.Token
	switch {
	case op.Seq == 0 && !(begun && p.Pages > 0):
		v.beside = nil
		p = &engine.Pending{
			Token: op.Token, Cluster: op.Cluster, N: op.N, Index: op.Index, Known: slices.Clone(op.Known),
		}
		if op.Wait > 0 {
			p.WaitEnd = v.now + op.Wait.Microseconds()
		}
	case begun && op.Seq == p.Pages-1: // again
		v.answer.Says = engine.SaysDone
		return
	case !begun || op.Seq != p.Pages || p.Complete || v.beside == nil:
		return
	}
	next := *p
	if op.Page != nil {
		if v.beside == nil {
			v.beside = NewState()
		}
		v.lay(op.Page)
		next.Pages++
	}
	next.Complete = !op.More
	v.setRecord(func(r *engine.NodeRecord) { r.Pending = &next })
	v.answer.Says = engine.SaysDone
}

// commit switches to what was loaded. From then on every fence is larger than the node's time: what it granted and
// forgot was smaller.
func (v *visit) commit(op *engine.Commit) {
	v.answer.Says = engine.SaysNo
	r := v.record
	switch {
	case r != nil && r.State == engine.StateOK && r.Token == op.Token && r.RunID == op.RunID && v.RunID == op.RunID:
		v.answer.Says = engine.SaysDone // again
		return
	case !v.frozenBy(op.Token, op.RunID), r.Pending == nil, r.Pending.Token != op.Token, !r.Pending.Complete:
		return
	}
	if v.beside != nil {
		v.switchOver()
	}
	v.setRecord(func(r *engine.NodeRecord) {
		p := r.Pending
		r.Cluster, r.N, r.Index, r.Known, r.Era = p.Cluster, p.N, p.Index, p.Known, p.Known[p.Index]
		r.State, r.Reason, r.EverOK, r.Pending, r.WaitEnd = engine.StateOK, "", true, nil, p.WaitEnd
		r.Marks, r.Offsets = nil, nil // its clock may be another now
		r.FenceFloor = max(r.FenceFloor, v.now, v.FenceStart)
	})
	v.answer.Says = engine.SaysDone
}
