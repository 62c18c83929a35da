package engine

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// note takes in what an answer tells of the semaphore besides its verdict. mu is held.
func (s *semaphore) note(i int, ans *Answer) {
	if ans.Err != nil {
		return
	}
	s.places[i] = ans.Place
	s.elsewhere, s.before = ans.Elsewhere, ans.Before
	s.fence = max(s.fence, ans.Fence)
}

// refused puts a request whose claim was refused back in line, or ends it. mu is held.
func (s *semaphore) refused(a *attempt) {
	r, now := a.r, s.e.cfg.Now()
	if r.phase != waiting {
		s.noteFree(a)
		return
	}
	r.splits, r.roomAt = 0, 0
	s.line.returns(r)
	s.noteFree(a)
	if countSays(a.says, SaysExists) > 0 {
		if r.keyed() {
			s.existed(r)
			return
		}
		r.id = newID() // an earlier attempt's record is in the way, until its node hears of it or cleans it; nobody knows this id
	}
	r.over = maskSays(a.says, SaysOver)
	r.bounded = r.roused && a.op.Bound > 0 && countSays(a.says, SaysFull) >= s.e.quorum
	if a.partial() {
		s.startAfter(a)
	}
	if a.partial() || r.bounded {
		r.lost(now)
	}
	s.free = min(s.free, r.weight-1) // whatever nodes call free (paused, or each another slot), it was not to be had
	if countSays(a.says, SaysUndefined) >= s.e.quorum {
		s.undefined(r)
		return
	}
	if countSays(a.says, SaysBallot) > 0 {
		s.read() // its bound was read under another definition
	}
	s.noteBeyond(a)
	if r.joins && r.claims == 1 && s.elsewhere > 0 && s.line.ahead(r)+s.elsewhere >= s.def.Definition.MaxWaiters {
		s.leaves(r)
		r.fail(ErrTooManyWaiters) // they wait at other replicas, which it did not know when it came
		return
	}
	if r.ask.AllFree && !r.judged && r.sizes < sizesMax && s.freeSeen > 0 { // others have taken some of it
		s.leaves(r)
		s.size(r)
		return
	}
	if r.weight > s.limit() { // the limit has shrunk: it would block the line for ever
		s.leaves(r)
		r.fail(&WeightError{Requested: r.ask.Permits, Weight: r.weight, Limit: s.limit()})
		return
	}
	s.setRecheck(now, a)
	s.waits(r, now)
}

// settled is called when something was decided or somebody left: it makes the places on the nodes true, claims for
// whoever can be served, and sees that the head is never forgotten. mu is held.
func (s *semaphore) settled() {
	s.reconcile()
	s.advance()
	if now := s.e.cfg.Now(); s.line.head() != nil && s.recheckAt <= now {
		s.recheckIn(now, recheckAfter)
	}
}

func countSays(all []Says, want Says) int { return bits.OnesCount64(maskSays(all, want)) }

// maskSays has bit i set where node i says so.
func maskSays(all []Says, want Says) (mask uint64) {
	for i, s := range all {
		if s == want {
			mask |= 1 << i
		}
	}
	return mask
}

// noteFree learns from a verdict, whose request claims no more, how many slots are free: so many that Q nodes have as many.
// Behind others none is free for us.
func (s *semaphore) noteFree(a *attempt) {
	var frees, beyond []int
	var rests []time.Duration
	behind := false
	for i, b := range a.ballots {
		if b.Kind >= quorum.No {
			if a.says[i] == SaysFull && a.frees[i] >= a.r.weight {
				rests = append(rests, a.nextEnd[i])
			}
			frees, beyond = append(frees, a.frees[i]), append(beyond, a.beyond[i])
			behind = behind || a.says[i] == SaysBehind
		}
	}
	if len(frees) < s.e.quorum {
		return
	}
	now := s.e.cfg.Now()
	slices.Sort(frees)
	free := frees[len(frees)-s.e.quorum]
	s.freeSeen, s.freeAt, s.restsUntil = free, now, 0
	if len(rests) >= s.e.quorum {
		slices.Sort(rests)
		s.restsUntil = now + rests[s.e.quorum-1]
	}
	if s.def != nil {
		s.inUse = max(0, s.limit()-free)
	}
	if a.op.Bound == 0 { // below a bound so many are free that those beyond the limit are counted
		slices.Sort(beyond)
		s.inUse += beyond[len(beyond)-s.e.quorum]
	}
	s.free = 0
	if !behind && s.before == 0 {
		s.free = max(0, free-s.line.underway)
	}
}

// setRecheck sets when the head claims again if nobody wakes it: at the next end that Q nodes were asked about, or half a
// second from now. mu is held.
func (s *semaphore) setRecheck(now time.Duration, a *attempt) {
	wait := recheckAfter
	var ends []time.Duration
	for i, b := range a.ballots {
		if b.Kind == quorum.No && a.nextEnd[i] > 0 {
			ends = append(ends, a.nextEnd[i])
		}
	}
	slices.Sort(ends)
	if len(ends) > 0 {
		wait = min(wait, ends[min(len(ends), s.e.quorum)-1]+expirySlack)
	}
	if a.more {
		wait = expirySlack // not none at all, which would count as no plan
	}
	s.recheckIn(now, max(wait, a.r.rest-now))
}

func (s *semaphore) recheckIn(now, wait time.Duration) {
	s.recheckAt = now + wait
	if s.recheck == nil {
		s.recheck = time.AfterFunc(wait, func() { s.locked(s.recheckNow) })
		return
	}
	s.recheck.Reset(wait)
}

// recheckNow claims for the head, which nobody has woken. mu is held.
func (s *semaphore) recheckNow() {
	if s.gone || s.def == nil {
		return
	}
	s.recheckAt = 0
	if r := s.line.head(); r != nil {
		s.claim(r, -1)
	}
	s.settled()
}

// advance claims for the head, and those after it, as far as there is reason to think that they will be granted: Q wakes,
// or so many free slots. mu is held.
func (s *semaphore) advance() { s.advanceFrom(-1) }

// advanceFrom is advance with a slot that was just freed, and returns how many it claimed for.
func (s *semaphore) advanceFrom(slot int) int {
	claims := 0
	for s.def != nil && !s.def.Deleted {
		r := s.line.head()
		if r == nil || !s.due(r, slot >= 0) {
			break
		}
		s.claim(r, slot)
		slot = -1
		claims++
	}
	return claims
}

// claimLater tries anew, with a new attempt and the same order, in a moment. The request stays among those that claim. mu is held.
func (s *semaphore) claimLater(r *Request) {
	time.AfterFunc(jitter(), func() { s.locked(func() { s.claimAnew(r) }) })
}

func (s *semaphore) claimAnew(r *Request) {
	if r.phase == waiting && r.attempt == nil && s.line.has(r) {
		s.line.returns(r)
		s.claim(r, -1)
	}
}

// unreachable ends a request of which fewer than Q nodes have heard. mu is held.
func (s *semaphore) unreachable(r *Request) {
	if r.phase == waiting {
		s.keepPlace(r)
		s.line.leave(r)
		r.fail(ErrQuorumUnavailable)
	}
}

// redefined reads the definition anew and then claims again: the nodes do not answer under one. mu is held.
func (s *semaphore) redefined(r *Request) {
	if r.phase != waiting {
		return
	}
	if r.rereads++; r.rereads > rereadsMax {
		s.unreachable(r)
		return
	}
	s.arrivals = append(s.arrivals, r)
	s.read()
}

// undefined is the end of a request that Q nodes know no semaphore for, unless it may create it. mu is held.
func (s *semaphore) undefined(r *Request) {
	if r.rereads++; r.rereads > rereadsMax {
		s.leaves(r)
		r.fail(ErrUnknownSemaphore)
		return
	}
	s.line.claims(r)
	s.arrivals = append(s.arrivals, r)
	s.read()
}

// reconcile brings this replica's place on every node in accord with its line, but for nodes that will tell the place
// anew with the answer to a claim. mu is held.
func (s *semaphore) reconcile() {
	for i := range s.e.peers {
		if s.unanswered[i] == 0 {
			s.reconcileAt(i)
		}
	}
}

// stands reports whether a request that claims should have its place on a node: where it was refused, or put in line again, and
// everywhere while it pauses between two attempts. (A node that refused a mend granted the claim: there the give-back states the place.)
func (r *Request) stands(i int) bool {
	a := r.attempt
	return r.ask.Wait > 0 && (a == nil || a.stood[i] || a.round == 0 && a.ballots[i].Kind == quorum.No)
}

// reconcileAt sends a line to a node on which this replica's place is not what it should be: its oldest waiter, one
// that claims counting where it was refused. While claims are under way there, only a place of a waiter that is gone is
// replaced; while give-backs are, nothing is, as their answers tell it anew, and a line would wake us for what we gave
// back. mu is held.
func (s *semaphore) reconcileAt(i int) {
	p := s.e.peers[i]
	if !p.voting.Load() || s.lining[i] || s.givingBack[i] > 0 {
		return
	}
	want := s.line.head()
	if s.line.claiming.Len() > 0 {
		want = s.oldestAt(i, want)
	}
	var order Order
	if want != nil {
		order = want.order
	}
	was := s.places[i]
	if was == order || s.unanswered[i] > 0 && (was.IsZero() || s.line.find(was) != nil) {
		return
	}
	s.queueLine(i, s.replaces(was, want))
}

// oldestAt returns whoever claims, was refused at a node and comes before the head; else the head. mu is held.
func (s *semaphore) oldestAt(i int, head *Request) *Request {
	want := head
	s.line.claiming.Scan(func(r *Request) bool { // the oldest first
		if head != nil && r.order.Compare(head.order) >= 0 {
			return false
		}
		if !r.stands(i) {
			return true
		}
		want = r
		return false
	})
	return want
}

// replaces is the placement that puts a request, or the head if it is gone by then, in the place of another.
func (s *semaphore) replaces(was Order, want *Request) func() Placement {
	return func() Placement {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := s.e.cfg.Now()
		if want != nil && s.line.has(want) {
			return Placement{Mode: PlaceIfWas, Was: was, Place: s.line.place(want, now)}
		}
		return Placement{Mode: PlaceIfWas, Was: was, Place: s.line.place(s.line.head(), now)}
	}
}

// queueLine sends a line to a node, and looks at the place that it answers with. mu is held.
func (s *semaphore) queueLine(i int, fill func() Placement) {
	p := s.e.peers[i]
	s.lining[i] = true
	op := &Line{Semaphore: s.name, Replica: s.e.replica}
	s.queue(p, p.call(op, p.nodeTime(s.e.cfg.Now()), fill, func(ans *Answer) {
		s.locked(func() {
			s.lining[i] = false
			s.note(i, ans)
			if ans.Err == nil {
				s.reconcileAt(i)
			}
		})
	}))
}

// woken takes in a node's message that there is room for a place of ours.
func (e *Engine) woken(p *peer, w Wake) {
	if w.Semaphore == "" {
		e.announceRegister()
		return
	}
	s := e.known(w.Semaphore)
	switch {
	case s == nil && w.Order.Replica == EveryReplica:
		return
	case s == nil:
		e.disown(p, w)
		return
	}
	defer s.unlock()
	switch {
	case w.Lease != "":
		s.endedElsewhere(w.Lease)
		return
	case w.Order.Replica == EveryReplica:
		s.read() // another replica has changed the definition
		return
	}
	r := s.line.find(w.Order)
	if r == nil {
		s.places[p.pos] = w.Order
		s.reconcileAt(p.pos)
		return
	}
	r.wokenBy(p.pos, w, len(e.peers))
	if !s.awake(r) || r.attempt != nil {
		return
	}
	if s.before == 0 {
		s.free = max(s.free, w.Free-s.line.underway)
	}
	s.roomAt = e.cfg.Now()
	s.advance()
	s.roomAt = 0
}

// disown clears a place of a semaphore that this replica has no waiter for.
func (e *Engine) disown(p *peer, w Wake) {
	if !p.voting.Load() {
		return
	}
	fill := func() Placement { return Placement{Mode: PlaceIfWas, Was: w.Order} }
	p.node.Send(p.call(&Line{Semaphore: w.Semaphore, Replica: e.replica}, p.nodeTime(e.cfg.Now()), fill, func(*Answer) {}))
}

// reconnected states the places of this replica anew on a node that was away.
func (e *Engine) reconnected(p *peer) {
	all := e.semaphores()
	slices.SortFunc(all, func(a, b *semaphore) int { return strings.Compare(a.name, b.name) }) // a seed plays the same again
	for _, s := range all {
		s.locked(func() {
			s.lining[p.pos] = false
			if s.line.len() > 0 || !s.places[p.pos].IsZero() {
				s.restate(p)
			}
		})
	}
}

// restate states the place on one node whatever it is there. mu is held.
func (s *semaphore) restate(p *peer) {
	if !p.voting.Load() {
		return
	}
	fill := func() Placement {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.line.claiming.Len() > 0 {
			return Placement{Mode: PlaceIfLast, Place: s.line.place(s.line.head(), s.e.cfg.Now())}
		}
		return Placement{Mode: PlaceAlways, Place: s.line.place(s.line.head(), s.e.cfg.Now())}
	}
	s.queue(p, p.call(&Line{Semaphore: s.name, Replica: s.e.replica}, p.nodeTime(s.e.cfg.Now()), fill, func(ans *Answer) {
		s.locked(func() { s.note(p.pos, ans) })
	}))
}
