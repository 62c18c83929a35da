package engine

import (
	"context"
	"errors"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// errOver says that what was found can not be taken over: it has slots beyond the limit.
var errOver = errors.New("it has slots beyond the limit")

// regain takes up a lease that was found, by the cases of quorum.md section 4, "Asking again with the same key". It returns
// nil when nothing is left of it. ErrInProgress: the nodes do not agree; then nothing is given back.
func (e *Engine) regain(ctx context.Context, s *semaphore, f *found) (*lease, error) {
	if len(f.records) == 0 {
		return nil, nil
	}
	top := f.takeable()
	switch left := f.leftovers(); {
	case f.alike && (top == nil || top.Ver <= f.best.Ver): // else a part of it was given back on fewer than Q nodes: it is completed
		return e.attach(ctx, s, f)
	case top != nil:
		return e.takeOver(ctx, s, f, top)
	case len(left) == len(f.attempts()):
		return nil, s.cleanUp(ctx, f, left)
	}
	return nil, ErrInProgress
}

// takeable returns a record whose slots Q nodes hold, be it that some hold more under an older ver; nil: there is no such attempt.
func (f *found) takeable() *Record {
	for _, top := range f.records {
		held := 0
		for _, r := range f.records {
			if r.By == top.By && r.Slots.Contains(top.Slots) {
				held++
			}
		}
		if top.Ver == f.ver(top.By) && held >= quorum.Size(f.n) {
			return top
		}
	}
	return nil
}

// attach takes a lease over from the replica that has it, or from the life before a restart.
func (e *Engine) attach(ctx context.Context, s *semaphore, f *found) (*lease, error) {
	if err := s.learn(ctx); err != nil { // it is renewed by hold_max, also where nobody has asked for the semaphore
		return nil, err
	}
	was := f.best
	owner := Owner{Gen: f.owner(was.By).Gen + 1, Nonce: newID()}
	op := &Attach{
		Semaphore: s.name, Lease: was.Lease, By: was.By, Owner: owner, Slots: was.Slots, Ver: was.Ver, Left: f.left(was.By),
	}
	attached := func(a *Answer) bool { return a.Says == SaysAttached && a.Fence == was.Fence }
	asked := e.cfg.Now()
	answers := e.gather(ctx, func(*peer) Op { return op }, e.quorumOf(attached))
	ends := make([]time.Duration, len(e.peers))
	var members []int
	for i, a := range answers {
		if a != nil && attached(a) {
			members = append(members, i)
			ends[i] = end(a)
		}
	}
	switch {
	case answered(answers) < e.quorum:
		return nil, ErrQuorumUnavailable
	case len(members) < e.quorum:
		return nil, ErrInProgress // somebody else is at it, or it ended
	}
	var l *lease
	s.locked(func() {
		l = s.leaseOf(was, f)
		l.owner = owner
		s.regained(l, asked, ends, members)
	})
	return l, nil
}

// regained makes a lease this replica's that was taken up from the nodes. mu is held.
func (s *semaphore) regained(l *lease, asked time.Duration, ends []time.Duration, members []int) {
	if old := s.leases[l.id]; old != nil {
		s.lose(old, "moved")
	}
	l.heldAt = asked
	l.end = s.e.validity(asked, l.ttl, ends, members)
	s.fence = max(s.fence, l.fence)
	s.leases[l.id] = l
	s.e.keeper.set(l, l.nextDue(asked))
}

// takeOver completes what a replica that died in the middle has left of a grant, or of giving back a part, by a larger owner and under
// the definition as it is now. What it does not get it leaves as it is.
func (e *Engine) takeOver(ctx context.Context, s *semaphore, f *found, top *Record) (*lease, error) {
	st, under, err := e.readDefinition(ctx, s.name)
	switch {
	case err != nil:
		return nil, err
	case live(st) == nil:
		return nil, ErrUnknownSemaphore
	}
	s.locked(func() {
		if s.def == nil {
			s.def, s.ballot = st, under
		}
	})
	e.took(s.name, st, under)
	mend := &Mend{
		Semaphore: s.name, Lease: top.Lease, By: top.By, Owner: Owner{Gen: f.owner(top.By).Gen + 1, Nonce: newID()}, Info: top.Info,
		Ver: top.Ver, Slots: top.Slots, Fence: f.fence(top.By), Ballot: under, TTL: f.left(top.By), First: f.first(top.By), New: true,
	}
	for range mendRounds {
		mend.Ver++
		l, err := e.mendFound(ctx, s, f, top, mend)
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, ErrInProgress
}

// mendFound is one round of a take-over. It returns nil, and the fence to go on with is in mend, when nodes took it up with other
// fences each.
func (e *Engine) mendFound(ctx context.Context, s *semaphore, f *found, top *Record, mend *Mend) (*lease, error) {
	asked := e.cfg.Now()
	late := int64(min(mend.TTL, attemptLate) / time.Microsecond)
	answers := e.gather(ctx, func(p *peer) Op {
		op := *mend
		op.Until = p.nodeTime(asked) + late
		return &op
	}, nil)
	ballots, ends, over := mendBallots(answers)
	v := quorum.Tally(ballots, true)
	switch {
	case v.Outcome == quorum.Granted:
		var l *lease
		s.locked(func() {
			l = s.leaseOf(top, f)
			l.owner, l.slots, l.weight, l.fence, l.ver, l.ballot = mend.Owner, v.Slots, v.Slots.Len(), v.Fence, v.Ver, v.Definition
			s.regained(l, asked, ends, v.Members)
			for i := range ballots {
				if ballots[i].Kind >= quorum.No && !l.agrees(&ballots[i]) {
					l.mendAt(i, ballots[i].Definition, 1)
				}
			}
		})
		return l, nil
	case over:
		return nil, errOver
	case answered(answers) < e.quorum:
		return nil, ErrQuorumUnavailable
	case v.Outcome != quorum.Split:
		return nil, ErrInProgress
	}
	mend.Fence = v.Fence
	return nil, nil
}

// mendBallots turns the answers to mends into ballots, and says whether a slot is beyond the limit.
func mendBallots(answers []*Answer) (ballots []quorum.Ballot, ends []time.Duration, over bool) {
	ballots, ends = make([]quorum.Ballot, len(answers)), make([]time.Duration, len(answers))
	for i, a := range answers {
		switch {
		case a == nil:
			ballots[i].Kind = quorum.Silent
			continue
		case a.Says == SaysMended:
			ballots[i] = quorum.Ballot{Kind: quorum.Yes, Slots: a.Slots, Fence: a.Fence, Ver: a.Ver}
			ends[i] = end(a)
		default:
			ballots[i].Kind = quorum.No
			over = over || a.Says == SaysOver
		}
		ballots[i].Definition = a.Definition
	}
	return ballots, ends, over
}
