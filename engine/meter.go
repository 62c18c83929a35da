package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// Meter hears how the engine works. It is called with locks held: a method must not block and must not call the engine.
type Meter interface {
	HandedOver(took time.Duration) // to a waiter: from the release here, or the wake, that made room for it to its grant
	Granted(claims int)            // how many claims a grant took
	Violated(invariant string)     // one of Invariants: a promise was broken; the log has more
}

// Invariants are what an engine looks at while it works: whatever breaks one is a fault of permitd or of a node's memory.
//
//   - fence: a grant has a larger fence than every grant that was told before it was claimed
//   - slots: a grant has as many slots as its weight, all below the limit under which it was claimed
//   - owner: on one node a slot belongs to one lease
var Invariants = []string{"fence", "slots", "owner"}

// violated tells that an invariant is broken.
func (e *Engine) violated(invariant, semaphore string, args ...any) {
	e.cfg.Log.Error("an invariant is broken", append([]any{"invariant", invariant, "semaphore", semaphore}, args...)...)
	if e.cfg.Meter != nil {
		e.cfg.Meter.Violated(invariant)
	}
}

// measure looks at a grant. mu is held.
func (s *semaphore) measure(a *attempt, l *lease) {
	if l.fence <= a.toldFence {
		s.e.violated("fence", s.name, "lease", l.id, "fence", l.fence, "before", a.toldFence)
	}
	if n := len(l.slots); l.slots.Len() != l.weight || l.ballot == s.ballot && n > 0 && l.slots[n-1].Last >= s.limit() {
		s.e.violated("slots", s.name, "lease", l.id, "slots", l.slots, "weight", l.weight, "limit", s.limit())
	}
	if s.e.cfg.Meter == nil {
		return
	}
	s.e.cfg.Meter.Granted(a.r.claims)
	if a.r.roomAt > 0 {
		s.e.cfg.Meter.HandedOver(s.e.cfg.Now() - a.r.roomAt)
	}
}

// checkOwners looks at what one answer of a node tells of a semaphore. What a merge has copied may overlap: it is no vote.
func (e *Engine) checkOwners(node, semaphore string, leases []Record) {
	type held struct {
		quorum.Span
		lease string
	}
	var all []held
	for _, r := range leases {
		if !r.Copy {
			for _, span := range r.Slots {
				all = append(all, held{span, r.Lease})
			}
		}
	}
	slices.SortFunc(all, func(a, b held) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; before.Last >= all[i].First && before.lease != all[i].lease {
			e.violated("owner", semaphore, "node", node, "slot", all[i].First, "leases", []string{before.lease, all[i].lease})
		}
	}
}
