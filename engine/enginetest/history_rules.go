package enginetest

import (
	"fmt"
	"time"
)

// checkNew: one id is granted once (asking again by a key is not part of histories), and not for nothing.
func (s *semaphoreHistory) checkNew(g *held) error {
	if s.leases[g.Lease] != nil {
		return fmt.Errorf("at %s: lease %s of %q was granted twice", g.Told, g.Lease, g.Semaphore)
	}
	if g.Slots.Len() == 0 {
		return fmt.Errorf("at %s: lease %s of %q was granted without slots", g.Told, g.Lease, g.Semaphore)
	}
	return nil
}

// checkLimit: with the new lease, no more permits are in valid leases than the largest limit that may have been in force since
// it was asked for, and none of its slots is beyond that. (A shrunken limit revokes nothing, so only grants are checked.)
func (s *semaphoreHistory) checkLimit(g *held) error {
	limit := s.limitBetween(g.Asked, g.Told)
	if used := s.held(g.Told) + g.Slots.Len(); used > limit {
		return fmt.Errorf("at %s: with lease %s (slots %s) %d permits of %q are held; its limit is %d",
			g.Told, g.Lease, g.Slots, used, g.Semaphore, limit)
	}
	if beyond := g.Slots.From(limit); len(beyond) > 0 {
		return fmt.Errorf("at %s: lease %s has slots %s of %q; its limit is %d", g.Told, g.Lease, beyond, g.Semaphore, limit)
	}
	return nil
}

// checkSlots: no other valid lease has a slot of the new one.
func (s *semaphoreHistory) checkSlots(g *held) error {
	for _, lease := range s.active {
		if lease.validAt(g.Told) && lease.slots.Overlaps(g.Slots) {
			return fmt.Errorf("at %s: leases %s (slots %s) and %s (slots %s) of %q share a slot; the first is valid until %s",
				g.Told, lease.Lease, lease.slots, g.Lease, g.Slots, g.Semaphore, lease.end())
		}
	}
	return nil
}

// checkFence: the fence is larger than that of whoever had one of the slots before, and than that of every lease
// that was told before this one was asked for.
func (s *semaphoreHistory) checkFence(g *held) error {
	for slot := range g.Slots.All() {
		if last := s.last[slot]; last != nil && last.Fence >= g.Fence {
			return fmt.Errorf("at %s: lease %s has fence %d; slot %d of %q was last held by %s with fence %d",
				g.Told, g.Lease, g.Fence, slot, g.Semaphore, last.Lease, last.Fence)
		}
	}
	if before := s.largestUntil(g.Asked); before != nil && before.Fence >= g.Fence {
		return fmt.Errorf("at %s: lease %s has fence %d; it was asked for after lease %s of %q was told, which has fence %d",
			g.Told, g.Lease, g.Fence, before.Lease, g.Semaphore, before.Fence)
	}
	return nil
}

// checkHeld: a quorum of the nodes has the lease of one attempt, with exactly these slots and this fence, and not as a copy.
func (h *History) checkHeld(g *held) error {
	if h.Records == nil {
		return nil
	}
	votes, most := map[string]int{}, 0
	for _, record := range h.Records(g.Semaphore, g.Lease) {
		if record == nil || record.Copy || !record.Slots.Equal(g.Slots) || record.Fence != g.Fence {
			continue
		}
		if votes[record.By]++; votes[record.By] > most {
			most, g.by = votes[record.By], record.By
		}
	}
	if most < h.Quorum {
		return fmt.Errorf("at %s: lease %s of %q was granted and is held on %d nodes; the quorum is %d", g.Told, g.Lease, g.Semaphore, most, h.Quorum)
	}
	return nil
}

// checkGone: no quorum of the nodes has the lease any more, of the attempt that was granted. (Others are given back.)
func (h *History) checkGone(at time.Duration, lease *held) error {
	if h.Records == nil {
		return nil
	}
	votes := 0
	for _, record := range h.Records(lease.Semaphore, lease.Lease) {
		if record != nil && !record.Copy && record.By == lease.by {
			votes++
		}
	}
	if votes >= h.Quorum {
		return fmt.Errorf("at %s: lease %s of %q is held on %d nodes; its release was acknowledged at %s", at, lease.Lease, lease.Semaphore, votes, lease.acknowledged)
	}
	return nil
}
