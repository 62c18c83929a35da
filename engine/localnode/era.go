package localnode

import (
	"slices"

	"github.com/permitd/permitd/engine"
)

// mark makes the node remember that another is of a larger era; see engine.Mark.
func (v *visit) mark(op *engine.Mark) {
	r := v.record
	v.answer.Says = engine.SaysNo
	if op.Node >= 0 && op.Node < len(r.Known) && op.Node != r.Index {
		marked := engine.Marked{Era: op.Era, Token: op.Token}
		switch {
		case r.Known[op.Node] < op.Era:
			v.setRecord(func(r *engine.NodeRecord) {
				r.Known = slices.Clone(r.Known)
				r.Known[op.Node] = op.Era
				r.Marks = withIndex(r.Marks, len(r.Known), op.Node, marked)
			})
			v.answer.Says = engine.SaysDone
		case r.Known[op.Node] == op.Era && r.Marks != nil && r.Marks[op.Node] == marked:
			v.answer.Says = engine.SaysDone
		}
	}
	v.answer.Node = v.record
}

// withIndex returns a copy of a list of n, nil standing for one of zeros, with x at i.
func withIndex[T any](list []T, n, i int, x T) []T {
	copied := make([]T, n)
	copy(copied, list)
	copied[i] = x
	return copied
}

// suspend takes the node out.
func (v *visit) suspend(op *engine.Suspend) {
	v.setRecord(func(r *engine.NodeRecord) { r.State, r.Reason = engine.StateSuspended, op.Reason })
	v.answer.Says, v.answer.Node = engine.SaysDone, v.record
}

// note remembers what is known of the other nodes; see engine.Note.
func (v *visit) note(op *engine.Note) {
	n := len(v.record.Known)
	for i, in := range op.Instances {
		var known engine.Instance
		if v.record.InUse != nil && i < n {
			known = v.record.InUse[i]
		}
		if i < n && (in.Era > known.Era || in.Era == known.Era && in.Era > 0 && in.Nonce == known.Nonce && in.Address != known.Address) {
			v.setRecord(func(r *engine.NodeRecord) { r.InUse = withIndex(r.InUse, n, i, in) })
		}
	}
	for i, o := range op.Offsets {
		if i < n && o != (engine.Offset{}) {
			o.At = v.now
			v.setRecord(func(r *engine.NodeRecord) { r.Offsets = withIndex(r.Offsets, n, i, o) })
		}
	}
	if op.Longest > v.record.Longest {
		v.setRecord(func(r *engine.NodeRecord) { r.Longest = op.Longest })
	}
	v.answer.Says, v.answer.Node = engine.SaysDone, v.record
}
