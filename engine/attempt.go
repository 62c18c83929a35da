package engine

import (
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// How an attempt goes about ballots that differ (quorum.md section 4, Grant).
const (
	mendRounds   = 3                    // then what was granted is given back and a new attempt made
	splitsMax    = 4                    // so many splits in a row count as refused
	rereadsMax   = 8                    // so many changes of the definition in a row count as unreachable
	mendLateMax  = 9                    // tries to put a granted lease on a node whose ballot differed
	graceMin     = 3 * time.Millisecond // what the rest has once Q have answered without a verdict
	graceFactor  = 3                    // or so many times what the Q-th answer took
	retryMin     = 500 * time.Microsecond
	retryMax     = 4 * time.Millisecond
	recheckAfter = 500 * time.Millisecond // a head claims again so long after its last claim, woken or not
	expirySlack  = time.Millisecond       // a claim at a told expiry comes so much later
)

// attempt is one try of this replica to get the permits of a request. What it leaves on nodes carries its nonce `by`, and only that
// is ever given back.
type attempt struct {
	s   *semaphore
	r   *Request
	op  *Claim
	t0  time.Duration // its start, by the coordinator's clock
	ats []int64       // by node: its start, by the estimated node clock

	// Guarded by s.mu.
	ballots   []quorum.Ballot
	terms     []int64         // by node: out of which memory it answered
	ends      []time.Duration // by node: until when it holds the lease, by the coordinator's clock
	asked     []bool
	mended    []bool
	stood     []bool // by node: it granted the claim, and was told of the request's place again
	says      []Says
	toldFence int64 // the largest fence that was told when it began
	nextEnd   []time.Duration
	frees     []int
	beyond    []int // by node: how many slots beyond the limit are in use there
	more      bool
	round     int          // 0: the claim; then mends
	under     Ballot       // of mends: the definition that the slots were voted for under
	onto      quorum.Slots // of mends: where the last of them were to move the lease
	began     time.Duration
	decided   bool
	closed    bool // nobody is waited for any longer
	timer     *time.Timer
	grace     *time.Timer
}

// jitter is the random pause before another try.
func jitter() time.Duration { return retryMin + random(retryMax-retryMin) }

// claim sends a claim for a request in line to every node that votes. start >= 0 names a slot that is likely free. mu is held.
func (s *semaphore) claim(r *Request, start int) {
	if start < 0 {
		start = r.start
	}
	if start < 0 {
		start = s.start()
	}
	now, n := s.e.cfg.Now(), len(s.e.peers)
	int64s, ints, bools, times := make([]int64, 2*n), make([]int, 2*n), make([]bool, 3*n), make([]time.Duration, 2*n) // each allocated once
	a := &attempt{
		s: s, r: r, t0: now, began: now, ats: int64s[:n], ballots: make([]quorum.Ballot, n),
		terms: int64s[n:], ends: times[:n], asked: bools[:n], mended: bools[n : 2*n], stood: bools[2*n:],
		toldFence: s.toldFence, says: make([]Says, n), nextEnd: times[n:], frees: ints[:n], beyond: ints[n:],
	}
	by := newID()
	a.op = &Claim{
		Semaphore: s.name, Lease: r.id, By: by, Owner: Owner{Nonce: by}, Info: r.info(), Weight: r.weight,
		TTL: min(r.ttl, claimTTLMax), Start: start, Wait: r.ask.Wait > 0, Order: r.order, Fence: s.proposedFence(now),
	}
	a.op.Bound, a.op.Ballot = s.boundFor()
	s.line.claims(r)
	r.attempt, r.claimed = a, true
	r.claims++
	if s.roomAt > 0 {
		r.roomAt = s.roomAt
	}
	r.unwoken()
	s.free = max(0, s.free-r.weight)
	asked := 0
	for i, p := range s.e.peers {
		if !p.voting.Load() {
			a.ballots[i].Kind = quorum.Silent
			continue
		}
		asked++
		a.asked[i] = true
		a.ats[i] = p.nodeTime(now)
		s.unanswered[i]++
		s.queue(p, p.askAgain(a.op, a.ats[i], a.fill, a.undecided, func(ans *Answer) { a.heard(i, 0, ans) }))
	}
	if asked < s.e.quorum {
		go s.locked(a.decide) // not from here: it may end the request and claim for the next, and so on
		return
	}
	a.timer = time.AfterFunc(s.e.cfg.NodeTimeout, a.close)
}

// proposedFence is what a replica that knows no fence of the semaphore proposes, so that the first claims do not split
// over the nodes' clocks; else 0.
func (s *semaphore) proposedFence(now time.Duration) int64 {
	if s.fence > 0 {
		return 0
	}
	return s.e.latestTime(now) + int64(100*time.Millisecond/time.Microsecond)
}

// fill is the placement of a claim, made when it is written.
func (a *attempt) fill() Placement {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.e.cfg.Now()
	p := Placement{Next: s.line.place(s.line.head(), now)}
	if a.op.Wait && s.line.has(a.r) {
		p.Mode, p.Place = PlaceIfLast, s.line.place(a.r, now)
	}
	return p
}

// partial reports whether some nodes granted something, or may have, though no quorum did.
func (a *attempt) partial() bool {
	partial := a.round > 0
	for _, b := range a.ballots {
		partial = partial || b.Kind == quorum.Yes
	}
	return partial
}

// undecided reports whether an answer may still matter.
func (a *attempt) undecided() bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return !a.decided
}

// close ends the waiting for whoever has not answered.
func (a *attempt) close() {
	a.s.locked(func() {
		if !a.decided {
			a.closed = true
			a.decide()
		}
	})
}

// heard takes in a node's answer to the claim (round 0) or a mend.
func (a *attempt) heard(i, round int, ans *Answer) {
	a.s.locked(func() {
		if round == 0 { // the answer to a mend tells nothing of the line
			a.s.note(i, ans)
			a.s.unanswered[i]--
		}
		if round < a.round && !a.decided {
			return // a mend is under way in the same lane, and its answer will say more
		}
		a.cast(i, ans)
		if a.decided {
			a.late(i)
		} else {
			a.decide()
		}
		a.s.reconcileAt(i)
	})
}

// cast turns an answer into a ballot.
func (a *attempt) cast(i int, ans *Answer) {
	a.says[i], a.terms[i] = ans.Says, ans.Term
	b := quorum.Ballot{Definition: ans.Definition}
	switch {
	case ans.Err != nil:
		b.Kind = quorum.Silent
	case ans.Says == SaysGranted || ans.Says == SaysMended:
		b.Kind, b.Slots, b.Fence, b.Ver = quorum.Yes, ans.Slots, ans.Fence, ans.Ver
		a.ends[i] = end(ans)
	default:
		b.Kind = quorum.No
		a.nextEnd[i], a.more = ans.NextEnd, a.more || ans.More
	}
	a.frees[i], a.beyond[i] = ans.Free, ans.Beyond.Len()
	a.ballots[i] = b
}

// end is until when a node holds the lease it answered about: the time of sending + what was left.
func end(ans *Answer) time.Duration {
	if ans.Left == Never {
		return Never
	}
	return ans.Sent + ans.Left
}

// decide acts on the ballots as soon as they amount to something. mu is held.
func (a *attempt) decide() {
	if a.decided {
		return
	}
	a.discardOld()
	v := quorum.Tally(a.ballots, a.closed)
	if a.round > 0 && (v.Outcome == quorum.Granted || v.Outcome == quorum.Split) && v.Definition != a.under {
		v.Outcome = quorum.Redefined // it has slots that were voted for under another definition
	}
	switch v.Outcome {
	case quorum.Undecided:
		a.startGrace()
		return
	case quorum.Granted:
		a.settle()
		a.s.grant(a, v)
	case quorum.Split:
		a.split(v)
	case quorum.Redefined:
		a.settle()
		a.giveBack()
		a.s.redefined(a.r)
	case quorum.Refused:
		if a.round > 0 {
			a.tryAnew() // it was no refusal: another split took the slots of ours
			break
		}
		a.settle()
		a.giveBack()
		a.s.refused(a)
		a.s.heardOf(v.Definition)
		for i := range a.ballots {
			a.teach(i)
		}
	case quorum.Unreachable:
		a.settle()
		a.giveBack()
		a.s.unreachable(a.r)
	}
	if a.decided {
		a.s.settled()
	}
}

// startGrace gives the rest a little more time once Q have answered.
func (a *attempt) startGrace() {
	n := 0
	for _, b := range a.ballots {
		if b.Kind >= quorum.No {
			n++
		}
	}
	if n >= a.s.e.quorum && a.grace == nil {
		a.grace = time.AfterFunc(max(graceMin, graceFactor*(a.s.e.cfg.Now()-a.began)), a.close)
	}
}

// settle marks the attempt decided.
func (a *attempt) settle() {
	a.decided = true
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.grace != nil {
		a.grace.Stop()
	}
	if a.r.attempt == a {
		a.r.attempt = nil
	}
}

// split mends the lease onto the slots and fence that most agree on, a few rounds; then it is given back and tried anew.
func (a *attempt) split(v quorum.Verdict) {
	if a.round < mendRounds && a.r.phase == waiting {
		a.mend(v)
	} else {
		a.tryAnew()
	}
}

// tryAnew gives back what could not be mended and makes another attempt, same order, in a moment.
func (a *attempt) tryAnew() {
	s, r := a.s, a.r
	a.settle()
	a.giveBack()
	r.splits++
	switch {
	case r.phase != waiting:
	case r.splits >= splitsMax:
		s.refused(a)
	default:
		s.startAfter(a)
		s.claimLater(r)
	}
}

// startAfter lets the next claim look for slots from past those on that the attempt could not be mended onto: where leases are on
// different nodes, each node may find another slot first, again and again, while one farther on is free on all. What Q nodes have
// just freed is better. mu is held.
func (s *semaphore) startAfter(a *attempt) {
	if s.def != nil && len(a.onto) > 0 && !s.sure(a.r) {
		a.r.start = (a.onto.First() + 1) % s.limit()
	}
}

// mend starts a round of mends. Every node that may hold something of the attempt is asked, and those that said no too.
func (a *attempt) mend(v quorum.Verdict) {
	s := a.s
	a.round++
	a.onto = v.Slots
	round := a.round
	a.began, a.closed = s.e.cfg.Now(), false
	if round == 1 {
		a.under = v.Definition
	}
	if a.grace != nil {
		a.grace.Stop()
		a.grace = nil
	}
	a.timer.Reset(s.e.cfg.NodeTimeout)
	for i, p := range s.e.peers {
		if !a.asked[i] || !p.voting.Load() {
			a.ballots[i] = quorum.Ballot{Kind: quorum.Silent}
			continue
		}
		op := &Mend{
			Semaphore: s.name, Lease: a.op.Lease, By: a.op.By, Owner: a.op.Owner, Info: a.op.Info, Ver: v.Ver, Slots: v.Slots,
			Fence: v.Fence, Ballot: v.Definition, TTL: a.op.TTL, First: a.r.ttl > claimTTLMax, New: true,
			Until: a.ats[i] + int64(min(a.op.TTL, attemptLate)/time.Microsecond),
		}
		if b := a.ballots[i]; b.Kind == quorum.Yes && !b.Slots.Equal(v.Slots) {
			a.standAt(i)
		}
		a.ballots[i] = quorum.Ballot{Kind: quorum.Waiting}
		a.mended[i] = true
		s.queue(p, p.askAgain(op, a.ats[i], nil, a.undecided, func(ans *Answer) { a.heard(i, round, ans) }))
	}
}

// standAt puts the request in line again on a node that granted it something which a mend is about to move: the node may refuse and drop
// the record, and would wake whoever comes next for what it frees, ahead of the request.
func (a *attempt) standAt(i int) {
	s, r := a.s, a.r
	if !a.op.Wait {
		return
	}
	a.stood[i] = true
	fill := func() Placement {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.attempt != a || !s.line.has(r) {
			return Placement{}
		}
		return Placement{Mode: PlaceIfLast, Place: s.line.place(r, s.e.cfg.Now())}
	}
	s.queueLine(i, fill)
}

// giveBack gives back what the attempt left on nodes: where it was granted, got a mend, or no answer will come. A node
// whose answer is still under way is looked at when it comes.
func (a *attempt) giveBack() {
	away := false
	for i := range a.ballots {
		away = away || a.ballots[i].Kind == quorum.Silent
	}
	for i, b := range a.ballots {
		if !a.asked[i] {
			continue
		}
		if b.Kind == quorum.Yes || b.Kind == quorum.Silent || a.mended[i] {
			a.giveBackAt(i)
		}
		if a.stood[i] {
			a.r.forgetWake(i) // it is of what the attempt itself was granted there
		}
		if b.Kind == quorum.Yes && away {
			// The node would have woken us had it not just said yes; with a node away, Q wakes may need it.
			a.r.woken |= 1 << i
		}
	}
}

// giveBackAt gives back on one node.
func (a *attempt) giveBackAt(i int) {
	s, r := a.s, a.r
	op := &Release{
		Semaphore: s.name, Lease: a.op.Lease, By: a.op.By, Owner: a.op.Owner, Left: a.op.TTL,
		Why: WhyGivenBack, Replica: s.e.replica,
	}
	fill := func() Placement {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := s.e.cfg.Now()
		switch {
		case !s.line.has(r) || !a.op.Wait:
			return Placement{Mode: PlaceIfWas, Was: s.places[i], Place: s.line.place(s.line.head(), now)}
		case r.attempt != nil && r.attempt != a:
			return Placement{} // a later claim of this waiter is in the lane and states its place
		}
		return Placement{Mode: PlaceIfLast, Place: s.line.place(r, now)}
	}
	first := false
	first = s.tell(i, op, fill, a.t0+a.op.TTL, func(ans *Answer) {
		s.locked(func() {
			if first {
				first = false
				s.givingBack[i]--
			}
			s.note(i, ans)
			s.reconcileAt(i)
		})
	})
	if first {
		s.givingBack[i]++
	}
}

// teach tells a node that answered under an older definition which one was chosen. One that has none may have forgotten it for good.
func (a *attempt) teach(i int) {
	if b := &a.ballots[i]; b.Kind >= quorum.No && b.Definition != (Ballot{}) {
		a.s.teach(i, b.Definition)
	}
}

// late looks at a ballot that came after the verdict.
func (a *attempt) late(i int) {
	if l := a.s.leases[a.op.Lease]; l != nil && l.by == a.op.By {
		if a.ballots[i].Kind != quorum.Silent && !l.agrees(&a.ballots[i]) {
			l.mendAt(i, a.ballots[i].Definition, 1)
		}
		return
	}
	a.teach(i)
	// Not granted, or over already: a release that went out after the claim bars it on its own.
	if a.r.lease == nil || a.r.lease.by != a.op.By {
		if k := a.ballots[i].Kind; k == quorum.Yes || k == quorum.Silent {
			a.giveBackAt(i)
		}
	}
}
