package localnode

import (
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// lease returns the record of a lease, or nil; of several the one that is not among the twins.
func (m *semaphore) lease(id string) *lease {
	l, _ := m.leases.Get(id)
	return l
}

// attempt returns the record of an attempt; if there is none, that of another attempt of the lease, or nil.
func (m *semaphore) attempt(id, by string) *lease {
	l := m.lease(id)
	if l != nil && l.by != by {
		for _, twin := range m.twins[id] {
			if twin.by == by {
				return twin
			}
		}
	}
	return l
}

// add puts a new record into the semaphore.
func (v *visit) add(l *lease) {
	m := v.semaphore
	l.semaphore = m
	if m.lease(l.id) == nil {
		m.leases.Set(l.id, l)
	} else {
		if m.twins == nil {
			m.twins = map[string][]*lease{}
		}
		m.twins[l.id] = append(m.twins[l.id], l)
	}
	m.lapses.add(l)
	m.occupy(l.slots)
	v.changes.keep(l)
}

// drop takes a record out of the semaphore. What min_hold still keeps cools, if it may.
func (v *visit) drop(l *lease, cool bool) {
	m := v.semaphore
	m.remove(l)
	m.lapses.remove(l)
	v.freeSlots(l, l.slots, cool)
	v.changes.unkeep(l)
}

// remove takes a record out of its place, which a twin moves up to.
func (m *semaphore) remove(l *lease) {
	twins := m.twins[l.id]
	switch {
	case m.lease(l.id) != l:
		twins = slices.DeleteFunc(twins, func(twin *lease) bool { return twin == l })
	case len(twins) > 0:
		m.leases.Set(l.id, twins[0])
		twins = twins[1:]
	default:
		m.leases.Delete(l.id)
		return
	}
	if m.twins[l.id] = twins; len(twins) == 0 {
		delete(m.twins, l.id)
	}
}

// take takes slots away from a record.
func (v *visit) take(l *lease, slots quorum.Slots, cool bool) {
	l.slots = l.slots.Minus(slots)
	v.freeSlots(l, slots, cool)
}

// freeSlots frees slots that a record had, or lets them cool until granted + min_hold if they may.
func (v *visit) freeSlots(l *lease, slots quorum.Slots, cool bool) {
	if len(slots) == 0 {
		return
	}
	m := v.semaphore
	if ends := l.granted + m.minHold(); cool && ends > v.now {
		if c := m.cools(l.id, slots); c != nil { // two attempts with the same slots cool as one
			if ends > c.at {
				c.at = ends
				m.cooling.moved(c)
				v.changes.keep(c)
			}
			v.vacated(m.vacate(slots))
			return
		}
		c := &cooling{ending: ending{at: ends}, semaphore: m, lease: l.id, slots: slots}
		m.cooling.add(c)
		v.changes.keep(c)
		return
	}
	v.vacated(m.vacate(slots))
}

// cools returns what cools of these slots of a lease, if another attempt had the same; nil: nothing.
func (m *semaphore) cools(lease string, slots quorum.Slots) *cooling {
	if m.shared[slots[0].First] == 0 {
		return nil
	}
	for _, c := range m.cooling.items {
		if c.lease == lease && c.slots.Equal(slots) {
			return c
		}
	}
	return nil
}

// minHold is how long after its grant a permit comes back at the earliest, in µs.
func (m *semaphore) minHold() int64 {
	if !m.defined() {
		return 0
	}
	return m.value.MinHold.Microseconds()
}

// warm ends the cooling of slots.
func (v *visit) warm(c *cooling) {
	v.semaphore.cooling.remove(c)
	v.vacated(v.semaphore.vacate(c.slots))
	v.changes.unkeep(c)
}

// vacated notes the smallest slot that became free; -1: none did.
func (v *visit) vacated(slot int) {
	if slot < 0 {
		return
	}
	v.stirred = true
	if v.freed < 0 || slot < v.freed {
		v.freed = slot
	}
}

// lengthen lets a record live for ttl from now on, if that is longer than it would. It never shortens.
func (v *visit) lengthen(l *lease, ttl time.Duration) {
	v.noteTTL(ttl)
	if at := end(v.now, ttl); at > l.at {
		l.at = at
		v.semaphore.lapses.moved(l)
	}
}

// noteTTL remembers the longest TTL of leases that end: a cold start waits for it.
func (v *visit) noteTTL(ttl time.Duration) {
	if m := v.semaphore; ttl != engine.Never && ttl.Microseconds() > m.longestTTL {
		m.longestTTL = ttl.Microseconds()
		v.changes.keep(m)
		v.changes.noteTTL(m.longestTTL)
	}
}

// raiseFence makes fence the semaphore's last, if it is larger.
func (v *visit) raiseFence(fence int64) {
	if m := v.semaphore; fence > m.lastFence {
		m.lastFence = fence
		v.changes.noteFence(fence)
	}
}

// tellLease answers with a record as it is now (nil: there is none), and with what is free below the bound.
func (v *visit) tellLease(l *lease, bound int) {
	a, m := v.answer, v.semaphore
	if l != nil {
		a.Slots, a.Fence, a.Ver, a.Left = l.slots, l.fence, l.ver, until(v.now, l.at)
	}
	a.Definition = m.ballot
	a.Free = m.free(bound)
}

// recordOf is a lease as it is read.
func (v *visit) recordOf(l *lease) engine.Record {
	return engine.Record{
		Lease: l.id, By: l.by, Owner: l.owner, Slots: l.slots, Fence: l.fence, Ver: l.ver, Left: until(v.now, l.at),
		First: l.first, Copy: l.copy, Ballot: l.definition, Age: micros(v.now - l.granted), Touched: micros(v.now - l.touched), Info: l.info,
	}
}
