package localnode

import (
	"slices"

	"github.com/permitd/permitd/engine"
)

// admit does what comes before every operation (quorum.md section 2, steps 1 to 3) and reports whether the
// operation may go on.
func (v *visit) admit(h *engine.Header, at int64) bool {
	r, a := v.record, v.answer
	if a.Reason = outside(r, h); a.Reason != "" || r.State != engine.StateOK {
		a.Says = engine.SaysOut
		if r != nil {
			a.State = r.State
			if r.State != engine.StateOK {
				a.Reason = r.Reason
			}
		}
		return false
	}
	if !slices.Equal(r.Known, h.Known) && !v.agree(h) {
		a.Says, a.Known = engine.SaysStale, slices.Clone(r.Known)
		return false
	}
	limits := &engine.NodeLimits
	if at != 0 && (v.now < at-limits.Early.Microseconds() || v.now > at+limits.Late.Microseconds()) {
		a.Says = engine.SaysLate
		return false
	}
	return true
}

// outside says why a request is not meant for this node; "": it is.
func outside(r *engine.NodeRecord, h *engine.Header) string {
	switch {
	case r == nil:
		return "no record"
	case h == nil || h.Cluster != r.Cluster:
		return "another cluster"
	case h.Index != r.Index:
		return "another index"
	}
	return ""
}

// agree compares eras that are not the same, reports whether the sender's may pass, and remembers what it knows better. It
// never takes its own era from a sender.
func (v *visit) agree(h *engine.Header) bool {
	r := v.record
	theirs := func(i int) int64 {
		if i < len(h.Known) {
			return h.Known[i]
		}
		return 0
	}
	for i, era := range r.Known {
		if era > theirs(i) || i == r.Index && era != theirs(i) {
			return false
		}
	}
	known := slices.Clone(r.Known)
	for i := range known {
		known[i] = theirs(i)
	}
	v.setRecord(func(r *engine.NodeRecord) { r.Known = known })
	return true
}

// setRecord replaces the node record by a changed copy.
func (s *State) setRecord(change func(*engine.NodeRecord)) {
	r := *s.record
	change(&r)
	s.record = &r
	if s.changes != nil {
		s.changes.record = s.record
	}
}

// dropDue drops what is over in the semaphore: leases, what cooled, places. At most so much that the node does
// not stall, but always one; the answer says if more is due.
func (v *visit) dropDue() {
	m, limits := v.semaphore, &engine.NodeLimits
	count, slots := 0, 0
	room := func(weight int) bool {
		if count > 0 && (count >= limits.DropLeases || slots+weight > limits.DropSlots) {
			v.answer.More = true
			return false
		}
		count++
		slots += weight
		return true
	}
	for m.lapses.first() <= v.now && room(m.lapses.items[0].slots.Len()) {
		v.drop(m.lapses.items[0], true)
	}
	for m.cooling.first() <= v.now && room(m.cooling.items[0].slots.Len()) {
		v.warm(m.cooling.items[0])
	}
	for i := 0; i < len(m.line); {
		if v.now < m.line[i].lapses() || !room(0) {
			i++
			continue
		}
		m.line = slices.Delete(m.line, i, i+1)
		v.stirred = true
	}
}
