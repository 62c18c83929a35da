package engine

import (
	"math/bits"
	"time"
)

// Where leases are on different nodes, each node may have free slots of which no Q nodes have the same one. Whoever claims
// then is granted something here and there, gives it back, and by that wakes the next waiter, who does the same: a storm of
// claims for as long as such leases last. So a waiter whose claims came to nothing in that way rests, longer each time, unless
// there is better reason to claim than that Q nodes have room: that they name the same slot, or that one was freed here.
//
// Nor does a node know of slots beyond the limit that are in use elsewhere: it has room, and wakes, where the bound of a claim leaves none.
// A waiter that was woken for nothing in that way rests, too.
const (
	restAfter = 2 // claims that some nodes granted and no quorum did
	restMin   = 2 * time.Millisecond
	restMax   = recheckAfter
)

// lost notes a claim that some nodes granted and no quorum did, or one that was woken and refused below a bound.
func (r *Request) lost(now time.Duration) {
	if r.losses++; r.losses > restAfter {
		rest := min(restMin<<min(r.losses-restAfter, 10), restMax)
		r.rest = now + rest/2 + random(rest/2)
	}
}

// wokenBy takes in a wake of a node.
func (r *Request) wokenBy(node int, w Wake, nodes int) {
	r.woken |= 1 << node
	if w.Slot < 0 {
		return
	}
	r.start = w.Slot
	if r.named == nil {
		r.named = make([]int, nodes)
	}
	r.named[node] = w.Slot + 1
}

// forgetWake takes a node's wake back.
func (r *Request) forgetWake(node int) {
	r.woken &^= 1 << node
	if r.named != nil {
		r.named[node] = 0
	}
}

// wakes has bit i set where a wake of node i counts: not that of a node that refused the last claim because of a slot beyond the limit,
// as it will refuse the next one, too, unless so many did that without them there is no quorum. Then the bound is read anew.
func (s *semaphore) wakes(r *Request) uint64 {
	if bits.OnesCount64(r.over) > len(s.e.peers)-s.e.quorum {
		return r.woken
	}
	return r.woken &^ r.over
}

// awake reports whether Q wakes count. mu is held.
func (s *semaphore) awake(r *Request) bool { return bits.OnesCount64(s.wakes(r)) >= s.e.quorum }

// sure reports whether Q wakes that count name the same slot. mu is held.
func (s *semaphore) sure(r *Request) bool {
	counts := s.wakes(r)
	for _, slot := range r.named {
		same := 0
		for i, other := range r.named {
			if other == slot && counts>>i&1 == 1 {
				same++
			}
		}
		if slot > 0 && same >= s.e.quorum {
			return true
		}
	}
	return false
}

// unwoken forgets all wakes: a claim begins.
func (r *Request) unwoken() {
	r.roused = r.woken != 0
	r.woken, r.start = 0, -1
	clear(r.named)
}

// due reports whether there is reason to claim for the head of the line: Q wakes, or so many free slots as far as this replica
// knows. freed says that it has just freed some itself. While the head rests, the recheck is set to the end of that. mu is held.
func (s *semaphore) due(r *Request, freed bool) bool {
	room := r.weight <= s.free && s.before == 0
	if !room && !s.awake(r) {
		return false
	}
	now := s.e.cfg.Now()
	if room && freed || s.sure(r) && !r.bounded {
		r.losses, r.rest = 0, 0
	}
	if r.rest <= now {
		return true
	}
	if s.recheckAt <= now || s.recheckAt > r.rest {
		s.recheckIn(now, r.rest-now)
	}
	return false
}
