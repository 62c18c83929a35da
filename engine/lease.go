package engine

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// lease is a grant that this replica made or attached, as long as it may be valid. Guarded by s.mu, but for what keeper says.
type lease struct {
	s      *semaphore
	r      *Request // nil: attached for a holder that is not connected
	id, by string
	owner  Owner
	info   string
	weight int
	asked  int // weight asked for
	slots  quorum.Slots
	fence  int64
	ver    int64
	ballot Ballot        // of the definition it was granted under
	ttl    time.Duration // nodes hold it for, from its last renewal on
	usual  time.Duration // what a renewal means that names no TTL
	first  bool          // claimed with 60 s, not yet renewed to its real TTL

	since   time.Duration // the grant, by the coordinator's clock
	end     time.Duration // validity; Never
	heldAt  time.Duration // when Q nodes last held it for sure
	renewal *renewal      // under way
	warned  bool          // expiring was told
	failed  bool          // its last renewal did
	looks   bool          // somebody looks at the nodes what became of it
	stirred bool          // and has to once more: a node told of it meanwhile

	replayed bool // found on the nodes for whoever asked again

	due   time.Duration // guarded by keeper.mu: when the keeper looks at it
	index int           // in the keeper's heap; -1: not in it
}

// agrees reports whether a ballot is a vote for the lease as it was granted.
func (l *lease) agrees(b *quorum.Ballot) bool {
	return b.Kind == quorum.Yes && b.Definition == l.ballot && b.Fence == l.fence && b.Slots.Equal(l.slots)
}

// grant makes a lease of an attempt that Q ballots agreed on. mu is held.
func (s *semaphore) grant(a *attempt, v quorum.Verdict) {
	r, now := a.r, s.e.cfg.Now()
	r.ask.Weigh = nil // nobody will be asked any more, and what it refers to need not be kept as long as the lease
	s.line.leave(r)
	if s.named[r.id] == r {
		delete(s.named, r.id)
	}
	s.noteFree(a)
	s.noteBeyond(a)
	l := &lease{
		s: s, r: r, id: a.op.Lease, by: a.op.By, owner: a.op.Owner, info: a.op.Info, weight: r.weight, asked: r.ask.Permits,
		slots: v.Slots, fence: v.Fence, ver: v.Ver, ballot: v.Definition, ttl: a.op.TTL, usual: r.ttl, since: now, heldAt: a.t0, index: -1,
	}
	l.end = s.e.validity(a.t0, l.ttl, a.ends, v.Members)
	s.fence = max(s.fence, v.Fence)
	r.lease = l
	if s.leases[l.id] == nil { // else whoever asked again has found it on the nodes before these had answered
		s.leases[l.id] = l
	}
	switch {
	case r.phase != waiting: // it was cancelled meanwhile
		s.release(l, &Release{Owner: l.owner, Why: WhyGivenBack})
		return
	case l.end <= now:
		s.release(l, &Release{Owner: l.owner, Why: WhyGivenBack})
		r.fail(fmt.Errorf("%w: the answers came too late for a TTL of %v", ErrQuorumUnavailable, r.ttl))
		return
	}
	s.measure(a, l)
	s.heardOf(v.Definition)
	for i := range a.ballots {
		if a.ballots[i].Kind >= quorum.No && !l.agrees(&a.ballots[i]) {
			l.mendAt(i, a.ballots[i].Definition, 1)
		}
	}
	if r.ttl > claimTTLMax {
		l.first = true
		r.phase = confirming
		l.confirm(r)
		return
	}
	s.deliver(l)
}

// validity is until when a lease may be trusted that these nodes hold until those ends, by the coordinator's clock.
func (e *Engine) validity(asked, ttl time.Duration, ends []time.Duration, members []int) time.Duration {
	if ttl == Never {
		return Never
	}
	now, width := e.cfg.Now(), time.Duration(0)
	held := make([]time.Duration, 0, len(members))
	for _, i := range members {
		held = append(held, ends[i])
		width = max(width, e.peers[i].clockAt(now).Width())
	}
	return quorum.Validity(len(e.peers), asked, ttl, held, width)
}

// confirm gives a lease that was claimed with 60 s its real TTL before its holder hears of it, so what a claim leaves behind
// ends within a minute.
func (l *lease) confirm(r *Request) {
	s := l.s
	l.renew(r.ttl, func(err error) {
		switch {
		case s.leases[l.id] != nil && s.leases[l.id] != l || err == errMoved: // whoever asked again has it
			s.superseded(l)
		case r.phase == ended && l.replayed: // whoever asked is gone: it lives until its TTL
		case r.phase == ended: // cancelled meanwhile
			s.release(l, &Release{Owner: l.owner, Why: WhyGivenBack})
		case err != nil && l.replayed: // it was granted by another, and stays
			s.forget(l)
			r.fail(ErrQuorumUnavailable)
		case err != nil:
			s.release(l, &Release{Owner: l.owner, Why: WhyGivenBack})
			r.fail(ErrQuorumUnavailable)
		default:
			s.deliver(l)
		}
	})
}

// superseded ends the request of a lease that somebody who asked again has taken up before its holder heard of it. mu is held.
func (s *semaphore) superseded(l *lease) {
	if s.leases[l.id] == l {
		s.forget(l)
	}
	if l.r.phase != ended {
		l.r.fail(ErrSuperseded)
	}
}

// deliver tells a request that it holds its lease. mu is held.
func (s *semaphore) deliver(l *lease) {
	r, now := l.r, s.e.cfg.Now()
	r.phase = holding
	if r.timer != nil {
		r.timer.Stop()
	}
	if !l.replayed {
		s.granted++
		s.toldFence = max(s.toldFence, l.fence)
		s.active = now
		s.lastGrant = time.Now()
	}
	s.e.keeper.set(l, l.nextDue(now))
	r.events.Granted(l.told(now))
}

// told is the lease as its holder hears it.
func (l *lease) told(now time.Duration) Lease {
	t := Lease{
		Capability: l.s.e.capability(l.s.name, l.id), ID: l.id, Semaphore: l.s.name,
		Requested: l.asked, Weight: l.weight, Slots: l.slots, Fence: l.fence, TTL: l.ttl, Replayed: l.replayed,
	}
	if l.r != nil && !l.replayed {
		t.Holder, t.Policy = l.r.ask.Holder.Holder, l.r.word.Policy
	} else {
		of := decodeInfo(l.info)
		t.Holder, t.Policy = of.Holder, of.policy()
	}
	if l.ttl != Never {
		t.Validity = max(0, l.end-now)
		t.RenewAfter = l.ttl / 3
	}
	if l.replayed {
		t.TTL = l.usual // not what was left of it
	}
	return t
}

// mendAt puts a granted lease on a node whose ballot differed, again and again while it is refused: one try may meet a slot
// that another wrong ballot holds for a moment. mu is held.
func (l *lease) mendAt(i int, under Ballot, tries int) {
	s, p, now := l.s, l.s.e.peers[i], l.s.e.cfg.Now()
	if s.leases[l.id] != l || !p.voting.Load() || now >= l.end {
		return
	}
	s.teach(i, under)
	s.queue(p, p.call(l.mend(p, now, l.end), p.nodeTime(now), nil, func(ans *Answer) {
		if ans.Err == nil && ans.Says == SaysNo && tries < mendLateMax {
			time.AfterFunc(jitter(), func() { s.locked(func() { l.mendAt(i, ans.Definition, tries+1) }) })
		}
	}))
}

// mend is the request that puts the lease, as it was granted, on a node that lacks it. until is the validity it is sent under.
func (l *lease) mend(p *peer, now, until time.Duration) *Mend {
	ttl := l.ttl
	if ttl != Never {
		ttl = max(time.Millisecond, l.end-now)
	}
	return &Mend{
		Semaphore: l.s.name, Lease: l.id, By: l.by, Owner: l.owner, Info: l.info, Ver: l.ver, Slots: l.slots, Fence: l.fence,
		Ballot: l.ballot, TTL: ttl, First: l.first, Until: l.untilAt(p, now, until),
	}
}

// untilAt is a point of the coordinator's clock on the node's; of a lease without an end, as long as a coordinator may
// go on without looking.
func (l *lease) untilAt(p *peer, now, until time.Duration) int64 {
	until = min(until, max(l.heldAt, now-lookAfter)+lookAfter)
	return p.nodeTime(now) + int64((until-now)/time.Microsecond)
}
