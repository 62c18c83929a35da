package localnode

import (
	"github.com/tidwall/btree"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// semaphore is what the node keeps of one semaphore.
//
// used = the slots of all leases and of all that cools; shared[n] = in how many of them n is, less one (more than one only
// where one is a copy); usedBelow = the used slots below the limit.
type semaphore struct {
	stored
	register
	name       string
	leases     btree.Map[string, *lease]
	twins      map[string][]*lease // by lease: attempts beside the one in leases, which a readmission has brought; nil: none ever was
	lapses     ends[*lease]
	cooling    ends[*cooling]
	tombstones map[string]*tombstone // by lease: one of an attempt, which leads to the others
	line       []*place              // in rising order, one a replica
	lastFence  int64
	longestTTL int64 // µs; of leases that end
	waitEnd    int64 // after a cold start: nothing is granted before; node clock, µs
	used       bitmap
	usedBelow  int
	shared     map[int]int
}

// lease is a record of a lease.
type lease struct {
	stored
	ending
	semaphore        *semaphore
	id, by, info     string
	owner            engine.Owner
	slots            quorum.Slots
	fence, ver       int64
	granted, touched int64 // node clock, µs
	first, copy      bool
	endless          bool // the first file has it
	definition       engine.Ballot
}

// cooling is what a lease that has ended, in whole or in part, still keeps from being granted.
type cooling struct {
	stored
	ending
	semaphore *semaphore
	lease     string
	slots     quorum.Slots
}

// defined reports whether there is a definition to vote under.
func (m *semaphore) defined() bool { return m.accepted() && !m.value.Deleted }

// limit is the number of permits; 0 without a definition.
func (m *semaphore) limit() int {
	if !m.defined() {
		return 0
	}
	return m.value.Limit
}

// bound is below which slots are granted: the limit, or a smaller bound that the claim names.
func (m *semaphore) bound(named int) int {
	if named > 0 {
		return min(m.limit(), named)
	}
	return m.limit()
}

// free counts the free slots below end.
func (m *semaphore) free(end int) int {
	if end == m.limit() {
		return end - m.usedBelow
	}
	return end - m.used.below(end)
}

// recount makes usedBelow right after the limit changed.
func (m *semaphore) recount() { m.usedBelow = m.used.below(m.limit()) }

// beyond returns the used slots at or beyond the limit.
func (m *semaphore) beyond() quorum.Slots {
	if m.used.count == m.usedBelow {
		return nil
	}
	return m.used.from(m.limit())
}

// occupy marks slots as used, once more if they are.
func (m *semaphore) occupy(slots quorum.Slots) {
	limit := m.limit()
	for n := range slots.All() {
		if m.used.has(n) {
			if m.shared == nil {
				m.shared = map[int]int{}
			}
			m.shared[n]++
			continue
		}
		m.used.set(n)
		if n < limit {
			m.usedBelow++
		}
	}
}

// vacate takes one use of each slot away and returns the smallest that is free now, or -1.
func (m *semaphore) vacate(slots quorum.Slots) int {
	first, limit := -1, m.limit()
	for n := range slots.All() {
		if others := m.shared[n]; others > 0 {
			if m.shared[n]--; others == 1 {
				delete(m.shared, n)
			}
			continue
		}
		m.used.clear(n)
		if n < limit {
			m.usedBelow--
		}
		if first < 0 {
			first = n
		}
	}
	return first
}

// othersUse reports whether somebody else than the record has one of slots: another lease, or one that cools.
// Without a record (nil) everybody is somebody else.
func (m *semaphore) othersUse(slots quorum.Slots, record *lease) bool {
	var own quorum.Slots
	if record != nil {
		own = record.slots
	}
	for n := range slots.Minus(own).All() {
		if m.used.has(n) {
			return true
		}
	}
	if len(m.shared) == 0 {
		return false
	}
	for n := range slots.All() {
		if m.shared[n] > 0 {
			return true
		}
	}
	return false
}

// waitEnd is before when nothing is granted after a cold start; node clock, µs.
func (v *visit) waitEnd() int64 { return max(v.semaphore.waitEnd, v.record.WaitEnd) }

// nextFence is the fence of a new grant for which proposed was proposed.
func (m *semaphore) nextFence(floor, proposed int64) int64 {
	return max(m.lastFence+1, floor+1, proposed)
}

// empty reports whether nothing is worth remembering.
func (m *semaphore) empty() bool {
	return m.register == register{} && m.leases.Len() == 0 && len(m.cooling.items) == 0 && len(m.tombstones) == 0 &&
		len(m.line) == 0 && m.lastFence == 0 && m.longestTTL == 0 && m.waitEnd == 0
}
