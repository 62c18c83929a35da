package localnode

import (
	"cmp"
	"slices"
	"strings"

	"github.com/permitd/permitd/engine"
)

// pageMax is the most leases or names that one answer has.
const pageMax = 1000

// pageLen is how many of count one answer has.
func pageLen(count int) int { return min(max(count, 1), pageMax) }

// find reads one lease with its tombstones.
func (v *visit) find(op *engine.Find) {
	v.answer.Says = engine.SaysDone
	if l := v.semaphore.lease(op.Lease); l != nil {
		record := v.recordOf(l)
		v.answer.Record = &record
		for _, twin := range v.semaphore.twins[op.Lease] {
			v.answer.Twins = append(v.answer.Twins, v.recordOf(twin))
		}
	}
	v.answer.Tombstones = v.semaphore.tombstonesOf(op.Lease, v.now)
}

// view reads a page of a semaphore. The leases come in the order of their ids, and the cursor is the last id of the page before.
func (v *visit) view(op *engine.View) {
	m := v.semaphore
	page := &engine.ViewPage{
		Definition: m.ballot, Value: m.value, LastFence: m.lastFence, LongestTTL: micros(m.longestTTL), Wait: until(v.now, v.waitEnd()),
	}
	count := pageLen(op.Count)
	m.leases.Ascend(op.Cursor, func(id string, l *lease) bool {
		if id == op.Cursor {
			return true
		}
		if len(page.Leases) >= count {
			page.Next = page.Leases[len(page.Leases)-1].Lease
			return false
		}
		page.Leases = append(page.Leases, v.recordOf(l))
		for _, twin := range m.twins[id] {
			page.Leases = append(page.Leases, v.recordOf(twin))
		}
		return true
	})
	if op.Cursor == "" {
		page.Cooling, page.Places = v.coolingOf(m), v.placesOf(m)
	}
	v.answer.Says, v.answer.View = engine.SaysDone, page
}

// coolingOf lists what cools, what ends first first.
func (v *visit) coolingOf(m *semaphore) []engine.Cooling {
	var list []engine.Cooling
	for _, c := range m.cooling.items {
		list = append(list, engine.Cooling{Lease: c.lease, Slots: c.slots, Left: until(v.now, c.at)})
	}
	slices.SortFunc(list, func(a, b engine.Cooling) int {
		return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Slots.First(), b.Slots.First()))
	})
	return list
}

// placesOf lists the line, its head first.
func (v *visit) placesOf(m *semaphore) []engine.Placed {
	var list []engine.Placed
	for _, p := range m.line {
		placed := engine.Placed{Place: p.Place, Passed: p.passedOver(v.now)}
		placed.Oldest = micros(v.now - p.since)
		list = append(list, placed)
	}
	return list
}

// names lists the semaphores with a definition, or those whose definition is deleted.
func (v *visit) names(op *engine.Names) {
	count := pageLen(op.Count)
	v.semaphores.Ascend(max(op.Prefix, op.After), func(name string, m *semaphore) bool {
		if len(v.answer.Names) == count || !strings.HasPrefix(name, op.Prefix) {
			return false
		}
		if name > op.After && m.accepted() && m.value.Deleted == op.Deleted {
			v.answer.Names = append(v.answer.Names, name)
		}
		return true
	})
	v.answer.Says = engine.SaysDone
}
