package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// Grant is a lease as its holder was told of it. Times count from the start of the history, by one clock for all.
type Grant struct {
	Semaphore string
	Lease     string
	Slots     quorum.Slots
	Fence     int64
	Asked     time.Duration // when the request was made
	Told      time.Duration // when the holder heard of it
	Until     time.Duration // the end of its validity as told; engine.Never: until released
}

// History is what holders were told, checked step by step against what the engine promises:
//
//   - never more than limit permits in valid leases, no slot in two of them, none beyond the limit
//   - a grant is held on a quorum of the nodes when its holder hears of it
//   - an acknowledged release is final: the lease is never renewed after it, nor held on a quorum
//   - fences grow: from one holder of a slot to the next, and of two grants of a semaphore where the second was asked for
//     after the first was told
//   - at the end the nodes hold nothing that nobody has
//
// A lease is valid from Told until its validity ends, its release is asked for, or its loss is told. Events are told in the
// order of their times. Each method returns what its event broke, nil if nothing; Broken returns all of it. Safe for
// concurrent use.
type History struct {
	// Quorum and Records let the history look at the nodes. Records returns, for each node, the lease as it is there,
	// nil where it is not. Records nil: the nodes are not looked at.
	Quorum  int
	Records func(semaphore, lease string) []*engine.Record

	mu         sync.Mutex // guards what follows
	semaphores map[string]*semaphoreHistory
	broken     []error
}

// LimitAsked says that a change of the limit was asked for; the first one of a semaphore declares it.
func (h *History) LimitAsked(at time.Duration, semaphore string, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(semaphore)
	s.limits = append(s.limits, limitChange{limit, at, never})
}

// LimitTold says that the last change of the limit that was asked for is in force.
func (h *History) LimitTold(at time.Duration, semaphore string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(semaphore)
	s.limits[len(s.limits)-1].told = at
}

// Granted says that a holder was told of a lease.
func (h *History) Granted(g Grant) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(g.Semaphore)
	s.forgetEnded(g.Told)
	lease := &held{Grant: g, slots: g.Slots, ended: never, acknowledged: never}
	err := cmp.Or(s.checkNew(lease), s.checkLimit(lease), s.checkSlots(lease), s.checkFence(lease), h.checkHeld(lease))
	s.add(lease)
	return h.verdict(err)
}

// Renewed says that a holder was told of a longer validity; asked is when the renewal began. It may come after the validity has
// ended, if nobody had one of the slots since: the nodes had held the lease all the time.
func (h *History) Renewed(asked, told time.Duration, semaphore, id string, until time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(semaphore)
	lease := s.leases[id]
	switch {
	case lease == nil:
		return h.verdict(fmt.Errorf("at %s: lease %s of %q was renewed and never granted", told, id, semaphore))
	case asked >= lease.acknowledged:
		return h.verdict(fmt.Errorf("at %s: lease %s of %q was renewed; its release was acknowledged at %s", told, id, semaphore, lease.acknowledged))
	case told >= lease.Until && !s.alone(lease):
		return h.verdict(fmt.Errorf("at %s: lease %s of %q was renewed after its validity ended at %s and somebody else was granted its slots",
			told, id, semaphore, lease.Until))
	}
	s.lengthen(lease, until)
	return nil
}

// ReleaseAsked says that a holder gives slots of a lease back (none named: all), and uses them no more.
func (h *History) ReleaseAsked(at time.Duration, semaphore, id string, slots quorum.Slots) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease := h.semaphore(semaphore).leases[id]; lease != nil {
		lease.giveBack(at, slots)
	}
}

// ReleaseTold says that a release of all of a lease was acknowledged.
func (h *History) ReleaseTold(at time.Duration, semaphore, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(semaphore)
	lease := s.leases[id]
	if lease == nil {
		return nil
	}
	lease.ended = min(lease.ended, at)
	if lease.acknowledged == never {
		lease.acknowledged = at
		s.released = append(s.released, lease)
	}
	return h.verdict(h.checkGone(at, lease))
}

// Lost says that a holder was told that its lease is lost.
func (h *History) Lost(at time.Duration, semaphore, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease := h.semaphore(semaphore).leases[id]; lease != nil {
		lease.ended = min(lease.ended, at)
	}
}

// Still checks, between events, that no release that was acknowledged within the last two minutes has been undone.
func (h *History) Still(at time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	for _, s := range h.semaphores {
		s.released = slices.DeleteFunc(s.released, func(lease *held) bool { return lease.acknowledged < at-stillFor })
		for _, lease := range s.released {
			err = cmp.Or(err, h.checkGone(at, lease))
		}
	}
	return h.verdict(err)
}

// Quiet checks what one node holds of a semaphore when everybody has finished and every message has arrived or is dead: each
// of its leases must be held by somebody.
func (h *History) Quiet(at time.Duration, semaphore, node string, leases []engine.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.semaphore(semaphore)
	var left []string
	for _, record := range leases {
		if lease := s.leases[record.Lease]; lease == nil || !lease.validAt(at) {
			left = append(left, fmt.Sprintf("%s (slots %s, %s left)", record.Lease, record.Slots, record.Left))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return h.verdict(fmt.Errorf("at %s: node %s holds leases of %q that nobody has: %s", at, node, semaphore, strings.Join(left, ", ")))
}

// Held returns how many permits of the semaphore are in valid leases.
func (h *History) Held(at time.Duration, semaphore string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.semaphore(semaphore).held(at)
}

// Broken returns everything that was found broken, in order.
func (h *History) Broken() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.broken)
}

func (h *History) semaphore(name string) *semaphoreHistory {
	s := h.semaphores[name]
	if s == nil {
		s = &semaphoreHistory{leases: map[string]*held{}, last: map[int]*held{}}
		if h.semaphores == nil {
			h.semaphores = map[string]*semaphoreHistory{}
		}
		h.semaphores[name] = s
	}
	return s
}

func (h *History) verdict(err error) error {
	if err != nil {
		h.broken = append(h.broken, err)
	}
	return err
}
