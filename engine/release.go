package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// releasing is a release on its way to the nodes. Guarded by s.mu.
type releasing struct {
	s          *semaphore
	l          *lease
	op         *Release
	until      time.Duration
	terms      []int64      // by node: out of which memory it acknowledged
	counted    []*int       // by node: where its acknowledgement is counted; nil: there is none yet
	rest       quorum.Slots // of a part: what it leaves, as far as is known here
	acks, kept int
	before     int           // nodes where it had ended before, as SaysBroken or SaysGone
	outdated   int           // nodes that did not give the part back as it was meant: they have another ver, other slots, or no record
	done       chan struct{} // closed when Q have acknowledged, or can not any more
	closed     bool
	err        error // set before done is closed
}

// errOutdated says that a part was given back before, through another replica, so that this one has changed nothing.
var errOutdated = fmt.Errorf("%w: a part was given back elsewhere", ErrInProgress)

// release ends a lease of this replica, or a part of it (op.Slots): it goes to all nodes until each has
// acknowledged it or the lease's time is over, whoever asked for it has gone or not. If the head of the line fits into what comes
// free, its claim follows in the same pipeline. mu is held.
func (s *semaphore) release(l *lease, op *Release) *releasing {
	now := s.e.cfg.Now()
	s.active = now
	op.Semaphore, op.Lease, op.By, op.Replica = s.name, l.id, l.by, s.e.replica
	freed := op.Slots
	if len(freed) == 0 {
		freed = l.slots
		if s.leases[l.id] == l { // else whoever asked again has it
			delete(s.leases, l.id)
		}
		s.e.keeper.drop(l)
		if l.r != nil && l.r.phase == holding {
			l.r.end()
		}
	} else {
		l.ver++
		op.Ver = l.ver
		l.slots = l.slots.Minus(freed)
		l.weight = l.slots.Len()
	}
	until := now + tombstoneMax
	if l.end != Never {
		op.Left = max(0, l.end-now) + claimTTLMax
		until = l.end + l.ttl/100 + claimTTLMax // later it is over on every node
	} else {
		op.Left = Never
	}
	n := len(s.e.peers)
	rl := &releasing{
		s: s, l: l, op: op, until: until, terms: make([]int64, n), counted: make([]*int, n), done: make(chan struct{}),
	}
	if len(op.Slots) > 0 {
		rl.rest = l.slots
	}
	s.releasing[rl] = struct{}{}
	for i := range s.e.peers {
		s.tell(i, op, nil, until, func(a *Answer) { s.locked(func() { s.acknowledged(rl, i, a) }) })
	}
	if op.Why != WhyGivenBack && s.def != nil && s.def.Definition.MinHold > 0 {
		return rl // it cools: nothing is free yet
	}
	s.free += freed.Len()
	s.roomAt = now
	op.Follows = s.advanceFrom(freed.First()) > 0 // it is not written before mu is let go
	s.roomAt = 0
	return rl
}

// acknowledged takes in a node's answer to a release. mu is held.
func (s *semaphore) acknowledged(rl *releasing, i int, a *Answer) {
	s.note(i, a)
	switch {
	case a.Err != nil:
	case a.Says == SaysReleased && len(rl.rest) > 0 && !rl.leaves(a):
		rl.count(i, a, &rl.outdated)
	case a.Says == SaysReleased:
		rl.count(i, a, &rl.acks)
	case a.Says == SaysBroken || a.Says == SaysGone:
		rl.count(i, a, &rl.before)
	default:
		rl.count(i, a, &rl.kept)
	}
	n := len(s.e.peers)
	outdated, kept := rl.outdated > n-s.e.quorum, rl.kept > n-s.e.quorum
	if !rl.closed && (rl.acks+rl.before >= s.e.quorum || kept || outdated) {
		switch {
		case outdated:
			rl.err = errOutdated
		case kept:
			rl.err = ErrInProgress // somebody has attached it since
		default:
			rl.err = rl.endedBefore()
		}
		rl.closed = true
		close(rl.done)
	}
	if s.unanswered[i] == 0 {
		s.reconcileAt(i)
	}
}

// leaves reports whether a node has left what the part was to leave, or less, as this replica knows by now: a later part of its own did,
// or it has read so. No tombstone bars a part: where there is no record, one may still come that has it. mu is held.
func (rl *releasing) leaves(a *Answer) bool {
	known := a.Ver == rl.l.ver && a.Slots.Equal(rl.l.slots) && !a.Slots.Overlaps(rl.op.Slots)
	return known || a.Ver == rl.op.Ver && a.Slots.Equal(rl.rest)
}

// endedBefore says how Q nodes had the lease end otherwise before, as found.why tells it: broken if one of them says so. mu is held.
func (rl *releasing) endedBefore() error {
	switch {
	case rl.op.Why == WhyReleased && rl.before > 0:
		return ErrLeaseBroken
	case rl.op.Why == WhyBroken && rl.acks == 0:
		return ErrLeaseReleased
	}
	return nil
}

// count counts a node's acknowledgement. Once all have acknowledged it the release is over: whoever forgets it then is told by
// the others, when it is readmitted. mu is held.
func (rl *releasing) count(i int, a *Answer, to *int) {
	if rl.counted[i] != nil {
		return
	}
	*to++
	rl.counted[i], rl.terms[i] = to, a.Term
	if !slices.Contains(rl.counted, nil) {
		delete(rl.s.releasing, rl)
	}
}

// dropOverdue forgets releases whose time is over. mu is held.
func (s *semaphore) dropOverdue(now time.Duration) {
	for rl := range s.releasing {
		if now >= rl.until {
			delete(s.releasing, rl)
		}
	}
}

// tell sends a release or give-back to a node until it has been heard there or until has passed. tried hears what has become of
// each try; one without Err is the last. It reports whether one is under way, else the node is away. mu is held.
func (s *semaphore) tell(i int, op *Release, fill func() Placement, until time.Duration, tried func(*Answer)) bool {
	p := s.e.peers[i]
	d := &debt{until: until}
	first := true
	d.call = func() *Call {
		what := op
		if !first {
			again := *op
			again.Follows = false
			what = &again
		}
		first = false
		return p.call(what, p.nodeTime(s.e.cfg.Now()), fill, func(a *Answer) {
			if a.Err != nil && !s.e.closed() {
				p.owe(d)
			}
			tried(a)
		})
	}
	if !p.voting.Load() {
		p.owe(d)
		return false
	}
	s.queue(p, d.call())
	return true
}

// Release gives a lease back by its capability, whoever acquired it; keep > 0 is the weight that stays held. It may be
// repeated. Errors: ErrUnknownLease, ErrLeaseExpired, ErrLeaseBroken, *InvalidError (keep), ErrNotConfirmed,
// ErrQuorumUnavailable.
func (e *Engine) Release(ctx context.Context, name, capability string, keep int) (Released, error) {
	return e.giveBack(ctx, name, capability, keep, false)
}

// ReleaseOwn is Release by a connection that holds the lease through this engine: where somebody has attached it since it changes
// nothing, and is ErrUnknownLease.
func (e *Engine) ReleaseOwn(ctx context.Context, name, capability string, keep int) (Released, error) {
	return e.giveBack(ctx, name, capability, keep, true)
}

// giveBack is Release, and with own ReleaseOwn.
func (e *Engine) giveBack(ctx context.Context, name, capability string, keep int, own bool) (Released, error) {
	id, err := e.openCapability(name, capability)
	if err != nil {
		return Released{}, err
	}
	if keep < 0 {
		return Released{}, &InvalidError{Field: "keep", Detail: "must not be negative"}
	}
	for _, sure := range []bool{false, true} {
		s := e.known(name)
		if s == nil {
			return e.releaseFound(ctx, name, id, keep, own)
		}
		l := s.leases[id]
		if l == nil || l.isOverHere(e.cfg.Now()) {
			s.unlock()
			return e.releaseFound(ctx, name, id, keep, own)
		}
		rd, err := e.releaseKnown(ctx, l, keep, own, sure)
		if own && err == ErrInProgress { // it is somebody else's by now
			s.locked(func() {
				if s.leases[id] == l {
					s.lose(l, "moved")
				}
			})
			return Released{}, ErrUnknownLease
		}
		if err != errOutdated {
			return rd, err
		}
		if err := e.howEnded(ctx, l); errors.Is(err, ErrLeaseReleased) {
			return e.releaseFound(ctx, name, id, keep, own) // it answers as the first release did
		} else if err != nil {
			return Released{}, err
		}
	}
	return Released{}, ErrInProgress
}

// isOverHere reports whether this replica knows no more than the nodes of a lease: its holder may have renewed it elsewhere. mu is held.
func (l *lease) isOverHere(now time.Duration) bool {
	return now >= l.end && (l.r == nil || !l.r.ask.Kept)
}

// releaseKnown releases a lease of this replica. sure says that it has just asked the nodes how much is held: another replica may have
// given a part of it back. errOutdated: the nodes are to be asked. s.mu is held, and let go.
func (e *Engine) releaseKnown(ctx context.Context, l *lease, keep int, own, sure bool) (Released, error) {
	s := l.s
	if l.renewal != nil && l.first { // its holder has not even heard of it
		s.unlock()
		return Released{}, ErrInProgress
	}
	if keep > 0 && keep >= l.weight {
		defer s.unlock()
		if keep == l.weight && !sure {
			return Released{}, errOutdated
		}
		return leaves(l.id, keep, l.weight)
	}
	now := e.cfg.Now()
	lapsed := now >= l.end
	rd := Released{ID: l.id, Held: keep > 0, Weight: keep, Cooling: l.cools(now, s.def)}
	r, hears := l.r, keep == 0 && l.r != nil && l.r.ask.Kept && l.r.phase == holding
	op := l.part(keep)
	op.AnyOwner, op.Owner = !own, l.owner
	rl := s.release(l, op)
	if hears {
		r.events.Lost("released")
	}
	s.unlock()
	if lapsed {
		return Released{}, ErrLeaseExpired
	}
	return e.await(ctx, rl, rd)
}

// leaves answers a release that is to leave as much as is held: it was done before, or is no release; or more.
func leaves(id string, keep, held int) (Released, error) {
	if keep > held {
		return Released{}, &InvalidError{Field: "keep", Detail: fmt.Sprintf("%d is more than the %d that are held", keep, held)}
	}
	return Released{ID: id, Held: true, Weight: keep}, nil
}

// part is the release that leaves keep slots, the lowest, to the lease; 0: none.
func (l *lease) part(keep int) *Release {
	op := &Release{AnyOwner: true, Why: WhyReleased}
	if keep > 0 {
		op.Slots = l.slots.Minus(l.slots.Lowest(keep))
	}
	return op
}

// cools is how long from now on what is released of a lease cools, as its definition says (nil: it is not known).
func (l *lease) cools(now time.Duration, def *stored) time.Duration {
	if def == nil {
		return 0
	}
	return max(0, l.since+def.Definition.MinHold-now)
}

// await waits until Q nodes have acknowledged a release, and then tells it. It goes on by itself in any case.
func (e *Engine) await(ctx context.Context, rl *releasing, rd Released) (Released, error) {
	timer := time.NewTimer(e.cfg.NodeTimeout)
	defer timer.Stop()
	select {
	case <-rl.done:
	case <-ctx.Done():
		return Released{}, ErrNotConfirmed
	case <-timer.C:
		return Released{}, ErrNotConfirmed
	}
	return rd, rl.err
}

// releaseFound releases a lease that this replica does not know: another has granted it, or this one did before a restart, or
// it is over.
func (e *Engine) releaseFound(ctx context.Context, name, id string, keep int, own bool) (Released, error) {
	f, err := e.find(ctx, name, id)
	if err != nil {
		return Released{}, err
	}
	if len(f.records) == 0 {
		switch f.why() {
		case WhyReleased:
			return Released{ID: id, Again: true}, nil // as it was answered the first time
		case WhyBroken:
			return Released{}, ErrLeaseBroken
		}
		return Released{}, ErrLeaseExpired
	}
	if own && f.alike {
		return Released{}, ErrUnknownLease
	}
	if keep > 0 && !f.alike {
		return Released{}, ErrInProgress
	}
	def, err := e.definition(ctx, name)
	if err != nil {
		return Released{}, err
	}
	s := e.semaphore(name)
	if keep > 0 && keep >= f.best.Slots.Len() {
		s.unlock()
		return leaves(id, keep, f.best.Slots.Len())
	}
	rd := Released{ID: id, Held: keep > 0, Weight: keep}
	ended := f.attempts()
	if keep > 0 {
		ended = []*Record{f.best} // another record of the attempt may have other slots
	}
	var under []*releasing
	for _, rec := range ended {
		l := s.leaseOf(rec, f)
		rd.Cooling = max(rd.Cooling, l.cools(e.cfg.Now(), def))
		op := l.part(keep)
		op.Tells = true
		under = append(under, s.release(l, op))
	}
	s.unlock()
	for _, rl := range under { // any of the attempts may be the one that was granted
		if _, err := e.await(ctx, rl, rd); err != nil {
			return Released{}, err
		}
	}
	return rd, nil
}
