package localnode

import (
	"slices"

	"github.com/permitd/permitd/engine"
)

// place is a replica's entry in the line.
type place struct {
	engine.Place       // without Oldest
	since        int64 // since when its oldest waits; node clock, µs
	stated       int64 // when it was last stated or refreshed
	passed       int64 // from when on it is passed over unless stated again; never: it was not woken since
}

// lapses is when the place is gone unless it is stated again.
func (p *place) lapses() int64 { return p.stated + engine.NodeLimits.PlaceLapse.Microseconds() }

// passedOver reports whether its replica was woken and did not answer in time.
func (p *place) passedOver(now int64) bool { return now >= p.passed }

// refresh takes over what has changed about the replica's line, apart from the place itself.
func (p *place) refresh(stated engine.Place, now int64) {
	p.Count, p.Total, p.since = stated.Count, stated.Total, now-stated.Oldest.Microseconds()
	p.stated, p.passed = now, never
}

// placeOf returns the place of a replica, or nil.
func (m *semaphore) placeOf(replica string) *place {
	if i := m.indexOf(replica); i >= 0 {
		return m.line[i]
	}
	return nil
}

func (m *semaphore) indexOf(replica string) int {
	return slices.IndexFunc(m.line, func(p *place) bool { return p.Order.Replica == replica })
}

// statePlace makes stated the place of the replica, or clears it, if the mode allows.
func (v *visit) statePlace(replica string, mode engine.Mode, stated engine.Place) {
	m := v.semaphore
	i := m.indexOf(replica)
	var was engine.Order
	if i >= 0 {
		was = m.line[i].Order
	}
	switch {
	case mode == engine.PlaceKeep, mode == engine.PlaceIfWas && was != v.placement.Was:
		return
	case mode == engine.PlaceIfLast && i >= 0 && was.Compare(stated.Order) < 0 && !stated.Order.IsZero():
		m.line[i].refresh(stated, v.now)
		return
	}
	if i >= 0 {
		m.line = slices.Delete(m.line, i, i+1)
	}
	if stated.Order.IsZero() {
		return
	}
	p := &place{Place: stated}
	p.Oldest = 0
	p.refresh(stated, v.now)
	at, _ := slices.BinarySearchFunc(m.line, p, func(a, b *place) int { return a.Order.Compare(b.Order) })
	m.line = slices.Insert(m.line, at, p)
	v.stated = stated.Order
}

// waitsBefore returns the first place before order that counts, and the weight of all who wait at those replicas. One that is
// passed over does not count, nor one that is heavier than the limit: it would block the line for ever.
func (m *semaphore) waitsBefore(order engine.Order, now int64) (first engine.Order, weight int) {
	for _, p := range m.line {
		if p.Order.Compare(order) >= 0 {
			break
		}
		if p.passedOver(now) || p.Weight > m.limit() {
			continue
		}
		if first.IsZero() {
			first = p.Order
		}
		weight += p.Total
	}
	return first, weight
}

// wakeHead wakes the replica of the head of the line if there is room for it: not the replica spared, and not
// the place that this very call stated (v.stated).
func (v *visit) wakeHead(spared string) {
	v.stirred = false
	m := v.semaphore
	if !m.defined() || m.value.Paused || v.now < v.waitEnd() {
		return
	}
	limit := m.limit()
	i := slices.IndexFunc(m.line, func(p *place) bool { return !p.passedOver(v.now) && p.Weight <= limit })
	free := limit - m.used.count // each slot in use beyond the limit takes one below it out of reach: quorum.ShrinkBound
	if i < 0 || free < m.line[i].Weight {
		return
	}
	head := m.line[i]
	if head.Order == v.stated || spared != "" && head.Order.Replica == spared {
		return
	}
	slot := v.freed
	if slot < 0 || slot >= limit || m.used.has(slot) {
		slot = m.used.free(0, limit)
	}
	head.passed = min(head.passed, v.now+engine.NodeLimits.PlacePassedAfter.Microseconds())
	v.wakes = append(v.wakes, engine.Wake{Node: v.record.Index, Semaphore: m.name, Order: head.Order, Slot: slot, Free: free})
}

// tellLine answers with the line as it is now, as a waiter of the replica with this order sees it.
func (v *visit) tellLine(replica string, order engine.Order) {
	a := v.answer
	for _, p := range v.semaphore.line {
		switch {
		case p.Order.Replica == replica:
			a.Place = p.Order
		case p.passedOver(v.now):
		default:
			a.Elsewhere += p.Count
			if p.Order.Compare(order) < 0 {
				a.Before += p.Count
			}
		}
	}
}

// stateLine states the replica's place; see engine.Line. It wakes also the place just stated: what freed a
// permit between its refusal and now did not know of it.
func (v *visit) stateLine(op *engine.Line) {
	v.statePlace(op.Replica, v.placement.Mode, v.placement.Place)
	v.stated = engine.Order{}
	v.wakeHead("")
	v.tellOwnLine(op.Replica)
	v.answer.Free = v.semaphore.free(v.semaphore.limit())
	v.answer.Says = engine.SaysDone
}

// tellOwnLine answers with the line as the oldest waiter of the replica sees it.
func (v *visit) tellOwnLine(replica string) {
	var order engine.Order
	if p := v.semaphore.placeOf(replica); p != nil {
		order = p.Order
	}
	v.tellLine(replica, order)
}
