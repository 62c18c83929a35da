package enginetest

import (
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// stillFor is for how long after its acknowledgement History.Still looks for a lease that comes back: longer than any message
// of the faults is under way.
const stillFor = 2 * time.Minute

// semaphoreHistory is the part of a History about one semaphore.
type semaphoreHistory struct {
	limits   []limitChange
	leases   map[string]*held
	active   []*held       // those that have not ended by the last grant
	released []*held       // those whose release was acknowledged not long ago
	last     map[int]*held // of each slot: who had it last
	fences   []fenceMark   // in the order of told, fences rising
}

// limitChange says that the limit may have been in force from asked on, and alone from told on (never: not told yet).
type limitChange struct {
	limit       int
	asked, told time.Duration
}

// fenceMark says that of all grants told until then, lease has the largest fence.
type fenceMark struct {
	told  time.Duration
	lease *held
}

// held is a lease and what became of it.
type held struct {
	Grant
	by           string        // the attempt that was granted, as the nodes have it
	slots        quorum.Slots  // what is still held
	ended        time.Duration // release asked or loss told; never: not yet
	acknowledged time.Duration // of its release; never: not yet
}

// validAt reports whether the holder may still trust the lease.
func (h *held) validAt(at time.Duration) bool { return h.Told <= at && at < h.end() }

func (h *held) end() time.Duration { return min(h.ended, h.Until) }

// giveBack ends the lease, or takes slots away from it.
func (h *held) giveBack(at time.Duration, slots quorum.Slots) {
	if len(slots) > 0 && !slots.Contains(h.slots) {
		h.slots = h.slots.Minus(slots)
		return
	}
	h.ended = min(h.ended, at)
}

func (s *semaphoreHistory) add(lease *held) {
	s.leases[lease.Lease] = lease
	s.active = append(s.active, lease)
	for slot := range lease.Slots.All() {
		s.last[slot] = lease
	}
	if n := len(s.fences); n == 0 || s.fences[n-1].lease.Fence < lease.Fence {
		s.fences = append(s.fences, fenceMark{lease.Told, lease})
	}
}

// lengthen moves the end of a lease, which may have been forgotten as ended.
func (s *semaphoreHistory) lengthen(lease *held, until time.Duration) {
	lease.Until = max(lease.Until, until)
	if !slices.Contains(s.active, lease) {
		s.active = append(s.active, lease)
	}
}

// forgetEnded leaves out of active what has ended.
func (s *semaphoreHistory) forgetEnded(at time.Duration) {
	s.active = slices.DeleteFunc(s.active, func(lease *held) bool { return lease.end() <= at })
}

// held counts the permits in valid leases.
func (s *semaphoreHistory) held(at time.Duration) int {
	permits := 0
	for _, lease := range s.active {
		if lease.validAt(at) {
			permits += lease.slots.Len()
		}
	}
	return permits
}

// largestUntil returns the lease with the largest fence of those told at the latest then; nil if there is none.
func (s *semaphoreHistory) largestUntil(at time.Duration) *held {
	n, _ := slices.BinarySearchFunc(s.fences, at, func(m fenceMark, at time.Duration) int {
		if m.told <= at {
			return -1
		}
		return 1
	})
	if n == 0 {
		return nil
	}
	return s.fences[n-1].lease
}

// limitBetween returns the largest limit that may have been in force at some time from one moment to another.
func (s *semaphoreHistory) limitBetween(from, to time.Duration) int {
	largest := 0
	for i, change := range s.limits {
		replaced := never
		for _, next := range s.limits[i+1:] {
			replaced = min(replaced, next.told)
		}
		if change.asked <= to && from <= replaced {
			largest = max(largest, change.limit)
		}
	}
	return largest
}

// alone reports whether nobody was granted a slot of the lease since it was.
func (s *semaphoreHistory) alone(lease *held) bool {
	for slot := range lease.slots.All() {
		if s.last[slot] != lease {
			return false
		}
	}
	return true
}
