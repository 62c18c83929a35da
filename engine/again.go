package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// leftoverAfter is how long nobody has touched what may be cleaned away.
const leftoverAfter = 10 * time.Second

// seek finds out what became of a request that may have been made before, and then lets it in. mu is held.
func (s *semaphore) seek(r *Request) {
	r.phase = seeking
	s.e.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.e.ctx, readTime)
		defer cancel()
		err := s.resume(ctx, r)
		s.locked(func() {
			switch {
			case r.phase != seeking: // answered, or gone
			case err != nil:
				r.fail(err)
			default:
				s.comesIn(r)
			}
		})
	})
}

// comesIn lets a request in that has no lease on the nodes. mu is held.
func (s *semaphore) comesIn(r *Request) {
	r.phase = arriving
	if s.def == nil || s.def.Deleted {
		s.arrivals = append(s.arrivals, r)
		s.read()
		return
	}
	s.admit(r)
}

// resume answers a request with the lease that it has already, by the cases of quorum.md section 4, "Asking again with the
// same key". It returns nil, and the request still seeks, when there is none.
func (s *semaphore) resume(ctx context.Context, r *Request) error {
	f, err := s.e.find(ctx, s.name, r.id)
	switch {
	case err != nil:
		return err
	case len(f.records) == 0 && r.attaches:
		return f.ended()
	case len(f.records) == 0:
		return f.endedLately()
	case !r.attaches && decodeInfo(f.best.Info).Params != r.params:
		return ErrKeyReused
	case f.alike:
		return s.replay(ctx, r, f)
	}
	if top := f.takeable(); top != nil {
		return s.takeOver(ctx, r, f, top)
	}
	if f.leftover() && !r.attaches {
		return s.cleanUp(ctx, f)
	}
	return ErrInProgress
}

// endedLately says how the lease of a key ended, for a minute; nil: the key is free again.
func (f *found) endedLately() error {
	var err error
	for _, t := range f.tombstones {
		switch {
		case t.Age >= keyReusedFor:
		case t.Why == WhyBroken:
			return ErrLeaseBroken
		case t.Why == WhyReleased:
			err = ErrLeaseReleased
		}
	}
	return err
}

// takeable returns the record with the largest ver of an attempt whose slots of that ver Q nodes hold, older ones maybe
// more; nil: there is no such attempt.
func (f *found) takeable() *Record {
	for _, of := range f.attempts() {
		top, held := of, 0
		for _, r := range f.records {
			if r.By == of.By && r.Ver > top.Ver {
				top = r
			}
		}
		for _, r := range f.records {
			if r.By == of.By && len(top.Slots.Minus(r.Slots)) == 0 {
				held++
			}
		}
		if held >= quorum.Size(f.n) {
			return top
		}
	}
	return nil
}

// leftover reports whether everything that was seen was left behind by somebody who died: nobody has touched it for a while,
// and it cannot be held by Q nodes.
func (f *found) leftover() bool {
	for _, r := range f.records {
		if r.Touched < leftoverAfter || f.mayLive(r.By) {
			return false
		}
	}
	return true
}

// cleanUp releases leftovers; they cool, as they may have been granted.
func (s *semaphore) cleanUp(ctx context.Context, f *found) error {
	var under []*releasing
	s.locked(func() {
		for _, rec := range f.attempts() {
			under = append(under, s.release(s.leaseOf(rec, f), &Release{Owner: f.owner, Why: WhyCleaned}))
		}
	})
	for _, rl := range under {
		if _, err := s.e.await(ctx, rl, Released{}); err != nil {
			return ErrInProgress
		}
	}
	return nil
}

// replay attaches the lease to a request and answers with it.
func (s *semaphore) replay(ctx context.Context, r *Request, f *found) error {
	l, err := s.e.attach(ctx, s, f)
	if err != nil {
		return err
	}
	s.locked(func() { s.replayed(l, r) })
	return nil
}

// replayed gives a request the lease that was found for it. mu is held.
func (s *semaphore) replayed(l *lease, r *Request) {
	switch {
	case s.leases[l.id] != l: // it is over, or attached elsewhere, meanwhile
		if r.phase == seeking {
			r.fail(ErrInProgress)
		}
		return
	case r.phase != seeking: // whoever asked is gone: the lease lives until its TTL
		return
	}
	delete(s.named, r.id)
	r.lease, l.r, l.replayed = l, r, true
	if l.usual <= claimTTLMax || !l.first {
		s.deliver(l)
		return
	}
	r.phase, r.ttl = confirming, l.usual
	l.confirm(r)
}

// takeOver completes what a replica that died in the middle has left of a grant, by a larger owner and under the definition as it is
// now. What it does not get it leaves as it is.
func (s *semaphore) takeOver(ctx context.Context, r *Request, f *found, top *Record) error {
	if _, err := s.e.definition(ctx, s.name); err != nil {
		return err
	}
	var under Ballot
	s.locked(func() { under = s.ballot })
	owner := Owner{Gen: f.owner.Gen + 1, Nonce: newID()}
	fence := top.Fence
	for _, rec := range f.records {
		if rec.By == top.By {
			fence = max(fence, rec.Fence)
		}
	}
	for ver := top.Ver + 1; ver <= top.Ver+mendRounds; ver++ {
		asked := s.e.cfg.Now()
		late := int64(min(cmp.Or(f.left, attemptLate), attemptLate) / time.Microsecond)
		answers := s.e.gather(ctx, func(p *peer) Op {
			return &Mend{
				Semaphore: s.name, Lease: top.Lease, By: top.By, Owner: owner, Info: top.Info, Ver: ver, Slots: top.Slots, Fence: fence,
				Ballot: under, TTL: f.left, First: top.First, New: true, Until: p.nodeTime(asked) + late,
			}
		}, nil)
		ballots, ends, over := s.mendBallots(answers)
		v := quorum.Tally(ballots, true)
		switch {
		case v.Outcome == quorum.Granted:
			s.locked(func() { s.tookOver(r, f, top, owner, asked, v, ends) })
			return nil
		case over:
			s.locked(func() {
				if r.phase == seeking {
					r.refuse(s.e.cfg.Now())
				}
			})
			return nil
		case answered(answers) < s.e.quorum:
			return ErrQuorumUnavailable
		case v.Outcome != quorum.Split:
			return ErrInProgress
		}
		fence = v.Fence
	}
	return ErrInProgress
}

// mendBallots turns the answers to mends into ballots, and says whether a slot is beyond the limit.
func (s *semaphore) mendBallots(answers []*Answer) (ballots []quorum.Ballot, ends []time.Duration, over bool) {
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

// tookOver makes the lease of what was taken over. mu is held.
func (s *semaphore) tookOver(r *Request, f *found, top *Record, owner Owner, asked time.Duration, v quorum.Verdict, ends []time.Duration) {
	if old := s.leases[top.Lease]; old != nil {
		s.lose(old, "moved")
	}
	l := s.leaseOf(top, f)
	l.owner, l.heldAt, l.slots, l.weight, l.fence, l.ver, l.ballot = owner, asked, v.Slots, v.Slots.Len(), v.Fence, v.Ver, v.Definition
	l.end = s.e.validity(asked, l.ttl, ends, v.Members)
	s.fence = max(s.fence, v.Fence)
	s.leases[l.id] = l
	s.e.keeper.set(l, l.nextDue(asked))
	s.replayed(l, r)
}

// Attach takes a lease over by its capability, from whoever has it: another replica, another connection, a client over HTTP. events
// hears Granted with what is left of it, and from then on what a request with Ask.Kept hears; who had it hears that it moved.
// Failed: ErrUnknownLease, ErrLeaseExpired, ErrLeaseReleased, ErrLeaseBroken, ErrInProgress, ErrQuorumUnavailable, ErrDraining.
func (e *Engine) Attach(name, capability string, events Events) *Request {
	r := &Request{ask: Ask{Permits: 1, Kept: true}, events: events, start: -1, told: -1, attaches: true}
	s := e.semaphore(name)
	defer s.unlock()
	r.s = s
	id, err := e.openCapability(name, capability)
	switch {
	case e.draining.Load():
		r.fail(ErrDraining)
	case err != nil:
		r.fail(err)
	default:
		r.id = id
		s.seek(r)
	}
	return r
}

// Leave ends what a request tells: its holder is gone. A lease is renewed for grace, within which it can be attached, and then
// given back; without one it is as Cancel.
func (r *Request) Leave(grace time.Duration) {
	held := false
	r.s.locked(func() {
		if held = r.phase == holding && grace > 0; held {
			r.events = silent{}
			r.timer = time.AfterFunc(grace, r.Cancel)
		}
	})
	if !held {
		r.Cancel()
	}
}

// silent hears nothing.
type silent struct{}

func (silent) Waiting(int)                    {}
func (silent) Granted(Lease)                  {}
func (silent) Refused(Refusal)                {}
func (silent) Failed(error)                   {}
func (silent) Renewed(time.Duration)          {}
func (silent) Expiring(time.Duration, string) {}
func (silent) Lost(string)                    {}
