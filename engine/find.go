package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// found is what the nodes know of one lease.
type found struct {
	records    []*Record // of all nodes; one node may have several attempts
	best       *Record   // of the most frequent attempt, the record with the largest ver; nil: there is none
	alike      bool      // Q nodes have best's By, Slots, Fence, Ver and Ballot, none a copy
	n          int       // nodes
	answered   int       // of them
	tombstones []Tombstone
	asked      time.Duration
}

// find reads a lease from Q nodes at least.
func (e *Engine) find(ctx context.Context, name, id string) (*found, error) {
	now := e.cfg.Now()
	answers := e.gather(ctx, func(*peer) Op { return &Find{Semaphore: name, Lease: id} }, func(answers []*Answer) bool {
		f := foundIn(answers)
		return f.alike
	})
	if answered(answers) < e.quorum {
		return nil, ErrQuorumUnavailable
	}
	f := foundIn(answers)
	f.asked = now
	return f, nil
}

// foundIn sorts what the nodes said.
func foundIn(answers []*Answer) *found {
	f := &found{n: len(answers), answered: answered(answers)}
	for _, a := range answers {
		if a == nil {
			continue
		}
		f.tombstones = append(f.tombstones, a.Tombstones...)
		if a.Record != nil {
			f.records = append(f.records, a.Record)
		}
		for i := range a.Twins {
			f.records = append(f.records, &a.Twins[i])
		}
	}
	most := 0
	for _, r := range f.records {
		n, same := 0, 0
		for _, q := range f.records {
			if q.By == r.By {
				n++
			}
			if !q.Copy && !r.Copy && sameGrant(q, r) {
				same++
			}
		}
		if same >= quorum.Size(len(answers)) {
			f.best, f.alike = r, true
		}
		if !f.alike && (n > most || n == most && r.Ver > f.best.Ver) {
			most, f.best = n, r
		}
	}
	return f
}

// owner is the largest owner that was seen of an attempt.
func (f *found) owner(by string) (largest Owner) {
	for _, r := range f.records {
		if r.By == by && largest.Compare(r.Owner) < 0 {
			largest = r.Owner
		}
	}
	return largest
}

// first reports whether any record of an attempt is still on its first minute.
func (f *found) first(by string) bool {
	return slices.ContainsFunc(f.records, func(r *Record) bool { return r.By == by && r.First })
}

// largestOf is the largest of what the records of an attempt say.
func largestOf[T cmp.Ordered](f *found, by string, says func(*Record) T) (largest T) {
	for _, r := range f.records {
		if r.By == by {
			largest = max(largest, says(r))
		}
	}
	return largest
}

// ver is the largest ver that was seen of an attempt.
func (f *found) ver(by string) int64 { return largestOf(f, by, func(r *Record) int64 { return r.Ver }) }

// fence is the largest fence that was seen of an attempt.
func (f *found) fence(by string) int64 {
	return largestOf(f, by, func(r *Record) int64 { return r.Fence })
}

// left is how long the node that keeps an attempt longest still does.
func (f *found) left(by string) time.Duration {
	return largestOf(f, by, func(r *Record) time.Duration { return r.Left })
}

// age is how long ago an attempt was placed first: a node that was mended has had it for less.
func (f *found) age(by string) time.Duration {
	return largestOf(f, by, func(r *Record) time.Duration { return r.Age })
}

// sameGrant reports whether two nodes' records are votes for the same grant.
func sameGrant(a, b *Record) bool {
	return a.By == b.By && a.Ver == b.Ver && a.Fence == b.Fence && a.Ballot == b.Ballot && a.Slots.Equal(b.Slots)
}

// attempts returns a record of every attempt that was seen.
func (f *found) attempts() []*Record {
	var list []*Record
	seen := map[string]bool{}
	for _, r := range f.records {
		if !seen[r.By] {
			seen[r.By] = true
			list = append(list, r)
		}
	}
	return list
}

// why says how a lease without records ended: broken before released; "" if no tombstone tells.
func (f *found) why() string {
	why := ""
	for _, t := range f.tombstones {
		switch t.Why {
		case WhyBroken:
			return WhyBroken
		case WhyReleased:
			why = WhyReleased
		}
	}
	return why
}

// lostBy is the reason for which a lease that the nodes have no more was lost. What a deletion breaks is broken after the semaphore's
// definition was deleted.
func (e *Engine) lostBy(ctx context.Context, name string, f *found) string {
	switch f.why() {
	case WhyBroken:
		if st, _, err := e.readDefinition(ctx, name); err == nil && live(st) == nil {
			return "deleted"
		}
		return "broken"
	case WhyReleased:
		return "released"
	}
	return "expired"
}

// ended turns how a lease ended into an error.
func (f *found) ended() error {
	switch f.why() {
	case WhyBroken:
		return ErrLeaseBroken
	case WhyReleased:
		return ErrLeaseReleased
	}
	return ErrLeaseExpired
}

// mayLive reports whether Q nodes may still have this attempt.
func (f *found) mayLive(by string) bool {
	seen := 0
	for _, r := range f.records {
		if r.By == by {
			seen++
		}
	}
	return quorum.MayHold(f.n, f.answered, seen)
}

// catchUp takes in what the nodes know better of a lease of this replica: a part of it was given back through another one. It
// reports whether the lease is still this replica's, as the nodes have it. mu is held.
func (l *lease) catchUp(f *found) bool {
	if !f.alike || f.best.By != l.by || f.owner(l.by) != l.owner {
		return false
	}
	if f.best.Ver >= l.ver { // what this replica gave back under the same ver was given back in vain
		l.ver, l.slots, l.weight = f.best.Ver, f.best.Slots, f.best.Slots.Len()
	}
	l.heldAt = max(l.heldAt, f.asked)
	return true
}

// howEnded says how a lease ended that Q nodes did not renew; nil if it did not: a part of it was given back elsewhere, or
// somebody attached it.
func (e *Engine) howEnded(ctx context.Context, l *lease) error {
	f, err := e.find(ctx, l.s.name, l.id)
	if err != nil {
		return err
	}
	if !f.mayLive(l.by) {
		e.forgetEnded(ctx, l, f)
		return f.ended()
	}
	err = ErrInProgress
	l.s.locked(func() {
		if l.catchUp(f) || l.moved(f) {
			err = nil
		}
	})
	return err
}

// moved drops a lease that somebody attached elsewhere and reports whether it is one. mu is held.
func (l *lease) moved(f *found) bool {
	moved := f.alike && f.best.By == l.by && f.owner(l.by).Compare(l.owner) > 0
	if moved && l.s.leases[l.id] == l {
		l.s.lose(l, "moved")
	}
	return moved
}

// leaseOf makes a lease of a record on the nodes. It is not kept: its holder is not connected. mu is held.
func (s *semaphore) leaseOf(r *Record, f *found) *lease {
	told, left := decodeInfo(r.Info), f.left(r.By)
	l := &lease{
		s: s, id: r.Lease, by: r.By, owner: f.owner(r.By), info: r.Info, weight: r.Slots.Len(), slots: r.Slots, fence: r.Fence,
		asked: cmp.Or(told.Requested, r.Slots.Len()), ver: r.Ver, ballot: r.Ballot, first: f.first(r.By),
		ttl: left, usual: cmp.Or(told.TTL, left),
		since: f.asked - f.age(r.By), heldAt: f.asked, index: -1, end: Never,
	}
	if left != Never {
		l.end = f.asked + left
	}
	return l
}

// lookUp sees to it that this replica knows a lease that is still held, and has heard of Q nodes lately that they hold it: else it
// finds the lease and takes it up, so that the duty for it is here.
func (e *Engine) lookUp(ctx context.Context, name, id string) error {
	s := e.semaphore(name)
	if l := s.leases[id]; l != nil && e.cfg.Now()-l.heldAt < lookAfter {
		s.unlock()
		return nil
	}
	begin, end := s.turn(id)
	s.unlock()
	begin()
	defer end()
	f, err := e.find(ctx, name, id)
	if err != nil {
		return err
	}
	ours, parting := false, false
	var l *lease
	s.locked(func() {
		if l = s.leases[id]; l != nil {
			ours, parting = l.catchUp(f), f.owner(l.by) == l.owner
		}
	})
	switch {
	case ours:
		return nil
	case parting: // a part of it is being given back
		return ErrInProgress
	}
	switch again, err := e.regain(ctx, s, f); {
	case errors.Is(err, errOver):
		return ErrInProgress
	case err == nil && again == nil:
		if l != nil {
			e.forgetEnded(ctx, l, f)
		}
		return f.ended()
	default:
		return err
	}
}

// forgetEnded drops what this replica still has of a lease that the nodes have no more.
func (e *Engine) forgetEnded(ctx context.Context, l *lease, f *found) {
	reason := e.lostBy(ctx, l.s.name, f)
	l.s.locked(func() {
		if l.s.leases[l.id] == l {
			l.s.lose(l, reason)
		}
	})
}
