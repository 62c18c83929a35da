package engine

import (
	"context"
	"errors"
)

// Broken tells what a break ended.
type Broken struct {
	ID     string
	Weight int // that was held; 0 where only a tombstone is left of it
	HolderInfo
	Policy PolicyVersion // that weighed it
	Again  bool          // it was broken before
}

// Break ends a lease by its id, for an operator, whoever holds it: a holder over a channel of this replica hears broken before
// anyone else can be granted its slots, one of another replica as soon as that hears of it, at the latest with its next renewal. What is
// broken never cools. It may be repeated as long as nodes remember, a minute at least. Errors: ErrUnknownLease, ErrLeaseReleased, ErrInProgress
// (its holder has not heard of the grant yet), ErrNotConfirmed, ErrQuorumUnavailable.
func (e *Engine) Break(ctx context.Context, name, id string) (Broken, error) {
	if err := ValidName(name); err != nil {
		return Broken{}, err
	}
	return e.breakLease(ctx, name, id, "broken")
}

// breakLease is Break; reason is what the holder hears.
func (e *Engine) breakLease(ctx context.Context, name, id, reason string) (Broken, error) {
	if s := e.known(name); s != nil {
		if l := s.leases[id]; l != nil {
			if l.r != nil && l.r.phase == confirming { // its holder has not even heard of it
				s.unlock()
				return Broken{}, ErrInProgress
			}
			b, rl := s.broken(l, reason, false)
			s.unlock()
			if _, err := e.await(ctx, rl, Released{}); err != nil {
				return Broken{}, err
			}
			return b, nil
		}
		s.unlock()
	}
	return e.breakFound(ctx, name, id, reason)
}

// breakFound breaks a lease that this replica does not know, each attempt of it: any may be the one that was granted.
func (e *Engine) breakFound(ctx context.Context, name, id, reason string) (Broken, error) {
	f, err := e.find(ctx, name, id)
	if err != nil {
		return Broken{}, err
	}
	if len(f.records) == 0 {
		switch f.why() {
		case WhyBroken:
			return Broken{ID: id, Again: true}, nil
		case WhyReleased:
			return Broken{}, ErrLeaseReleased
		}
		return Broken{}, ErrUnknownLease
	}
	of := decodeInfo(f.best.Info)
	b := Broken{ID: id, Weight: f.best.Slots.Len(), HolderInfo: of.people(), Policy: of.policy()}
	var under []*releasing
	s := e.semaphore(name)
	for _, r := range f.attempts() {
		_, rl := s.broken(s.leaseOf(r, f), reason, true)
		under = append(under, rl)
	}
	s.unlock()
	for _, rl := range under {
		if _, err := e.await(ctx, rl, Released{}); err != nil {
			return Broken{}, err
		}
	}
	return b, nil
}

// broken sends the release of a lease as an operator's, and tells its holder; with tells that of another replica, too. mu is held.
func (s *semaphore) broken(l *lease, reason string, tells bool) (Broken, *releasing) {
	of := decodeInfo(l.info)
	b := Broken{ID: l.id, Weight: l.weight, HolderInfo: of.people(), Policy: of.policy()}
	r := l.r
	hears := r != nil && r.ask.Kept && r.phase == holding // before the release ends it
	rl := s.release(l, &Release{AnyOwner: true, Why: WhyBroken, Tells: tells})
	if hears {
		r.events.Lost(reason)
	}
	return b, rl
}

// DeleteBreaking is Delete of a semaphore that may have holders: first nothing is granted any more, then what is held is broken
// (its holders hear deleted), then the semaphore goes. What it could not break ends with its TTL. Errors: ErrUnknownSemaphore,
// ErrRevMismatch, ErrNotConfirmed, ErrQuorumUnavailable.
func (e *Engine) DeleteBreaking(ctx context.Context, name string, cond Condition, by string) ([]Broken, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	if err := e.writeDeleted(ctx, name, cond, by); err != nil {
		return nil, err
	}
	broken, err := e.breakAll(ctx, name, "deleted")
	return broken, errors.Join(err, e.dropDeleted(ctx, name))
}

// breakAll breaks what is held of a semaphore. A lease that ends meanwhile is none of its business.
func (e *Engine) breakAll(ctx context.Context, name, reason string) (all []Broken, err error) {
	g, err := e.view(ctx, name)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, l := range g.leases {
		if seen[l.Lease] {
			continue // two attempts of it cross
		}
		seen[l.Lease] = true
		b, failed := e.breakLease(ctx, name, l.Lease, reason)
		switch {
		case failed == nil && b.Weight > 0:
			all = append(all, b)
		case errors.Is(failed, ErrUnknownLease) || errors.Is(failed, ErrLeaseReleased):
		default:
			err = errors.Join(err, failed)
		}
	}
	return all, err
}
