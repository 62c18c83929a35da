package engine

import (
	"context"
	"fmt"
	"time"
)

const (
	// lookAfter is how long a coordinator may renew without having heard from Q nodes that they hold the lease: a tombstone
	// lives 10 s longer. Later it finds the lease first.
	lookAfter = 50 * time.Second
	// renewEvery is how often a lease the engine keeps is renewed at the latest; else at a third of its TTL.
	renewEvery = 45 * time.Second
	// renewRetry is the pause before a renewal that failed is tried again, within the validity.
	renewRetry = 250 * time.Millisecond
)

// renewal is one round that lengthens a lease on the nodes. Guarded by the lease's s.mu.
type renewal struct {
	l       *lease
	t0, ttl time.Duration
	ver     int64 // of the lease when it was sent
	acks    []bool
	terms   []int64 // by node: out of which memory it acknowledged
	ends    []time.Duration
	noes    int
	silent  int
	moved   bool
	decided bool
	timer   *time.Timer
	done    []func(error) // called with mu held
}

// renew lengthens the lease to ttl from now on, on all nodes; done hears the verdict at the Q-th answer: nil,
// ErrLeaseExpired when the nodes have it no more, errMoved, errOutdated, ErrQuorumUnavailable. A renewal under way is joined if it
// is as long. mu is held.
func (l *lease) renew(ttl time.Duration, done func(error)) {
	if rn := l.renewal; rn != nil && rn.ttl >= ttl {
		rn.done = append(rn.done, done)
		return
	}
	s, now := l.s, l.s.e.cfg.Now()
	n := len(s.e.peers)
	rn := &renewal{l: l, t0: now, ttl: ttl, ver: l.ver, acks: make([]bool, n), terms: make([]int64, n), ends: make([]time.Duration, n), done: []func(error){done}}
	l.renewal = rn
	for i, p := range s.e.peers {
		if !p.voting.Load() {
			rn.silent++
			continue
		}
		op := &Renew{
			Semaphore: s.name, Lease: l.id, By: l.by, Owner: l.owner, Ver: l.ver, Slots: l.slots, Fence: l.fence,
			Ballot: l.ballot, Until: l.untilAt(p, now, l.end), TTL: ttl,
		}
		s.queue(p, p.askAgain(op, p.nodeTime(now), nil, rn.undecided, func(a *Answer) { rn.heard(i, a) }))
	}
	if rn.silent > n-s.e.quorum {
		go s.locked(rn.decide)
		return
	}
	rn.timer = time.AfterFunc(s.e.cfg.NodeTimeout, func() {
		s.locked(func() {
			rn.silent = n // nobody is waited for any longer
			rn.decide()
		})
	})
}

func (rn *renewal) undecided() bool {
	rn.l.s.mu.Lock()
	defer rn.l.s.mu.Unlock()
	return !rn.decided
}

func (rn *renewal) heard(i int, a *Answer) {
	s := rn.l.s
	s.locked(func() {
		switch {
		case a.Err != nil:
			rn.silent++
		case a.Says == SaysRenewed || a.Says == SaysMended:
			rn.acks[i], rn.terms[i], rn.ends[i] = true, a.Term, end(a)
		case a.Says == SaysMissing && !rn.decided:
			rn.mendAt(i)
			return
		case a.Says == SaysMissing:
			rn.l.mendAt(i, a.Definition, 1)
		default:
			rn.noes++
			rn.moved = rn.moved || a.Says == SaysMoved
		}
		rn.decide()
	})
}

// mendAt answers a node that misses the lease, and counts its answer.
func (rn *renewal) mendAt(i int) {
	l, s, now := rn.l, rn.l.s, rn.l.s.e.cfg.Now()
	p := s.e.peers[i]
	op := l.mend(p, now, l.end)
	op.TTL, op.First = rn.ttl, false
	s.queue(p, p.call(op, p.nodeTime(now), nil, func(a *Answer) { rn.heard(i, a) }))
}

// decide acts when Q have renewed it, or can not any more. mu is held.
func (rn *renewal) decide() {
	l := rn.l
	s, n := l.s, len(l.s.e.peers)
	if rn.decided {
		return
	}
	rn.discardOld()
	var members []int
	for i, ack := range rn.acks {
		if ack {
			members = append(members, i)
		}
	}
	var err error
	switch {
	case len(members) >= s.e.quorum && s.leases[l.id] != l:
		err = ErrLeaseExpired // it was released meanwhile
	case len(members) >= s.e.quorum:
		l.lengthened(rn, members)
	case rn.noes > n-s.e.quorum && rn.moved:
		err = errMoved
	case rn.noes > n-s.e.quorum && rn.ver != l.ver: // a part was given back meanwhile: the next renewal tells
		err = errOutdated
	case rn.noes > n-s.e.quorum:
		err = ErrLeaseExpired
	case rn.noes+rn.silent > n-s.e.quorum:
		err = ErrQuorumUnavailable
	default:
		return
	}
	rn.decided = true
	if rn.timer != nil {
		rn.timer.Stop()
	}
	if l.renewal == rn {
		l.renewal = nil
	}
	for _, done := range rn.done {
		done(err)
	}
}

// errMoved says that somebody attached the lease elsewhere.
var errMoved = fmt.Errorf("%w: it was attached elsewhere", ErrLeaseExpired)

// lengthened takes in that Q nodes hold the lease longer. Its validity never shrinks: nodes only lengthen.
func (l *lease) lengthened(rn *renewal, members []int) {
	l.s.active = l.s.e.cfg.Now()
	l.s.e.sawTTL(l.s.name, rn.ttl)
	l.ttl, l.usual, l.heldAt, l.warned, l.first = rn.ttl, rn.ttl, rn.t0, false, false
	l.end = max(l.end, l.s.e.validity(rn.t0, rn.ttl, rn.ends, members))
	if rn.ttl == Never || l.end == Never { // a lease without an end keeps none
		l.end, l.ttl, l.usual = Never, Never, Never
	}
	l.s.e.keeper.set(l, l.nextDue(l.s.e.cfg.Now()))
}

// nextDue is when the keeper looks at the lease: to renew it if the engine keeps it, at the end of its validity in any case.
func (l *lease) nextDue(now time.Duration) time.Duration {
	if l.r == nil || !l.r.ask.Kept {
		return l.end
	}
	return min(l.end, now+min(l.ttl/3, renewEvery))
}

// attend is the keeper's look at a lease that is due.
func (l *lease) attend() {
	l.s.locked(func() {
		s, now := l.s, l.s.e.cfg.Now()
		if s.leases[l.id] != l {
			return
		}
		if now >= l.end {
			s.lapse(l)
			return
		}
		if l.r == nil || !l.r.ask.Kept {
			s.e.keeper.set(l, l.nextDue(now))
			return
		}
		s.e.keeper.set(l, min(l.end, now+renewRetry))
		if max := s.holdMax(); max > 0 && now-l.since >= max {
			l.warn(now, "hold_max")
			return
		}
		if l.renewal == nil {
			l.renew(l.usual, l.kept)
		}
	})
}

// holdMax is the age after which a lease is renewed no more; 0: none. mu is held.
func (s *semaphore) holdMax() time.Duration {
	if s.def == nil {
		return 0
	}
	return s.def.Definition.HoldMax
}

// kept is the verdict of a renewal by the keeper. mu is held.
func (l *lease) kept(err error) {
	s, now := l.s, l.s.e.cfg.Now()
	if s.leases[l.id] != l || l.r.phase != holding {
		return
	}
	l.failed = err != nil
	switch {
	case err == nil:
		l.r.events.Renewed(l.end - now)
	case err == errMoved:
		s.lose(l, "moved")
	case err == ErrLeaseExpired:
		l.look()
	case l.end-now < l.ttl/3:
		l.warn(now, "a renewal failed: "+err.Error())
	}
}

// endedElsewhere takes in that a node says that somebody ended a lease, or a part of it, through another replica. Until Q nodes say so
// it is looked at again with each. mu is held.
func (s *semaphore) endedElsewhere(id string) {
	if l := s.leases[id]; l != nil {
		l.look()
	}
}

// look looks what became of a lease that a node told of, or that Q nodes did not renew: somebody ended it, or gave a part of it back
// through another replica, and then the next renewal is right. mu is held.
func (l *lease) look() {
	s := l.s
	switch {
	case s.e.closed():
		return
	case l.looks:
		l.stirred = true
		return
	}
	l.looks, l.stirred = true, false
	s.e.work.Go(func() {
		reason := ""
		f, err := s.e.find(s.e.ctx, s.name, l.id)
		if err == nil && !f.mayLive(l.by) {
			reason = s.e.lostBy(s.e.ctx, s.name, f)
		}
		s.locked(func() {
			l.looks = false
			switch {
			case s.leases[l.id] != l:
			case err == nil && !l.catchUp(f) && !l.moved(f) && reason != "":
				s.lose(l, reason)
			case l.stirred:
				l.look()
			}
		})
	})
}

// warn tells once that the lease will end.
func (l *lease) warn(now time.Duration, reason string) {
	if !l.warned {
		l.warned = true
		l.r.events.Expiring(max(0, l.end-now), reason)
	}
}

// lapse ends a lease whose validity is over. Its release still goes out: it may be held on nodes for a little longer,
// and a late claim of its attempt must find a tombstone. mu is held.
func (s *semaphore) lapse(l *lease) {
	kept := l.r != nil && l.r.ask.Kept
	if !kept {
		// Its holder may still renew it: validity is short of the end at the nodes, which settles it. A renewal under way was
		// asked for in time.
		if l.renewal != nil {
			s.e.keeper.set(l, s.e.cfg.Now()+renewRetry)
			return
		}
		s.forget(l)
		return
	}
	reason := "expired" // by hold_max, or as this replica was stopped for so long
	if max := s.holdMax(); (max == 0 || s.e.cfg.Now()-l.since < max) && (l.failed || l.renewal != nil) {
		reason = "quorum_lost"
	}
	s.lose(l, reason)
}

// lose tells a holder that it holds nothing any more, before anyone else can be granted it. mu is held.
func (s *semaphore) lose(l *lease, reason string) {
	r := l.r
	hears := r != nil && r.ask.Kept && r.phase == holding // before the release ends it
	switch reason {
	case "moved":
		s.forget(l)
	case "expired", "quorum_lost": // nobody released it, so its key is free
		s.release(l, &Release{Owner: l.owner, Why: WhyCleaned})
	case "broken", "deleted": // else it would cool where the break has not come yet
		s.release(l, &Release{Owner: l.owner, Why: WhyBroken})
	default:
		s.release(l, &Release{Owner: l.owner, Why: WhyReleased})
	}
	if hears {
		r.end()
		r.events.Lost(reason)
	}
}

// forget drops a lease from this replica's memory. mu is held.
func (s *semaphore) forget(l *lease) {
	delete(s.leases, l.id)
	s.e.keeper.drop(l)
	if l.r != nil && !l.r.ask.Kept && l.r.phase == holding {
		l.r.end()
	}
}

// Renew lengthens a lease to ttl from now on (0: as before) by its capability. It never shortens, and never acquires again.
// Errors: ErrUnknownLease, ErrLeaseExpired, ErrLeaseReleased, ErrLeaseBroken, *InvalidError (ttl), ErrInProgress,
// ErrQuorumUnavailable.
func (e *Engine) Renew(ctx context.Context, name, capability string, ttl time.Duration) (Lease, error) {
	id, err := e.openCapability(name, capability)
	if err != nil {
		return Lease{}, err
	}
	if ttl != 0 && ttl != Never {
		if err := e.validTTL(ctx, name, ttl); err != nil {
			return Lease{}, err
		}
	}
	type result struct {
		lease Lease
		err   error
	}
	for range 2 {
		if err := e.lookUp(ctx, name, id); err != nil {
			return Lease{}, err
		}
		heard := make(chan result, 1)
		s := e.semaphore(name)
		l := s.leases[id]
		if l == nil {
			s.unlock()
			continue // it ended in between
		}
		if err := l.tooOld(e.cfg.Now()); err != nil {
			s.unlock()
			return Lease{}, err
		}
		asked := ttl
		if asked == 0 {
			asked = l.usual
		}
		l.renew(asked, func(err error) { heard <- result{l.told(e.cfg.Now()), err} })
		s.unlock()
		r := <-heard // within the node time-out
		switch r.err {
		case errMoved: // attached by another replica meanwhile: find it there
			s.locked(func() {
				if s.leases[id] == l {
					s.lose(l, "moved")
				}
			})
		case ErrLeaseExpired:
			if err := e.howEnded(ctx, l); err != nil {
				return Lease{}, err
			}
		case errOutdated:
		default:
			return r.lease, r.err
		}
	}
	return Lease{}, ErrInProgress
}

// tooOld says that a lease has reached hold_max and is renewed no more. mu is held.
func (l *lease) tooOld(now time.Duration) error {
	limit := l.s.holdMax()
	if limit == 0 || now-l.since < limit || l.end == Never {
		return nil
	}
	return &InvalidError{Field: "lease", Detail: fmt.Sprintf("is older than hold_max (%v): it is renewed no more, and ends in %v", limit, max(0, l.end-now).Round(time.Millisecond))}
}

// validTTL checks a TTL against the semaphore's definition.
func (e *Engine) validTTL(ctx context.Context, name string, ttl time.Duration) error {
	def, err := e.definition(ctx, name)
	if err != nil {
		return err
	}
	if def != nil && (ttl < TTLMin || ttl > def.Definition.TTLMax) {
		return &InvalidError{Field: "ttl", Detail: fmt.Sprintf("must be %v to %v", TTLMin, def.Definition.TTLMax)}
	}
	return nil
}
