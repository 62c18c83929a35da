package engine

import (
	"context"
	"fmt"
	"time"
)

// phase is how far a request has come.
type phase uint8

const (
	arriving   phase = iota // waits for the definition
	seeking                 // finds out whether it has a lease already
	weighing                // its policy is asked
	waiting                 // in line, with or without a claim under way
	confirming              // granted with 60 s, its real TTL is under way
	holding                 // granted and told
	ended                   // over; nothing is told any more
)

// Request is one Ask under way, and the lease that comes of it. Safe for concurrent use.
type Request struct {
	s        *semaphore
	ask      Ask
	events   Events // set before, but for Leave
	id       string // of the lease
	params   uint32 // semaphore.params
	asked    int64  // with a key or a ticket: when, by the nodes' clocks, µs; of two that are the same request the later counts
	resumes  bool   // an old place in line
	attaches bool   // to a lease that there is; it never claims

	// Guarded by s.mu.
	phase    phase
	weight   int
	word     Weighed  // of its policy; zero: none was asked
	judged   bool     // it was asked, or need not be
	heir     *Request // the same request, made again while this one was weighed: what is found is its
	asking   bool     // Ask is at it
	inline   func()   // for Ask to do before it returns, without mu; only Ask reads and writes it
	ttl      time.Duration
	order    Order
	since    time.Duration // when it arrived, by the coordinator's clock
	deadline time.Duration // when its wait is over
	timer    *time.Timer   // for the deadline; made when it has to wait
	attempt  *attempt      // the claim under way
	lease    *lease
	splits   int    // in a row
	rereads  int    // of the definition, in a row
	woken    uint64 // bit i: node i has sent a wake for it since its last claim began
	named    []int  // by node: the slot that such a wake named, + 1
	over     uint64 // bit i: node i refused its last claim because of a slot beyond the limit
	losses   int    // claims in a row that some nodes granted and no quorum did, or that were made for a wake and refused below a bound
	bounded  bool   // the last one was that
	roused   bool   // a node woke it for its last claim
	rest     time.Duration
	joins    bool          // it stands in no place of before
	claimed  bool          // it has claimed before
	claims   int           // how often
	sizes    int           // how often it has looked how much is free
	roomAt   time.Duration // when the release or the wake came from which its claim followed; 0: it did not
	start    int           // where to look for slots, as wakes named it; -1: nowhere
	told     int           // the last ahead that was told, and when
	toldAt   time.Duration
}

// Ask puts a request in line and returns at once, unless ask.Weigh takes its time; events hears what becomes of it. It needs no
// goroutine while it waits.
func (e *Engine) Ask(name string, ask Ask, events Events) *Request {
	r := e.ask(name, ask, events)
	if r.inline != nil {
		r.inline()
	}
	return r
}

func (e *Engine) ask(name string, ask Ask, events Events) *Request {
	if ask.Permits == 0 {
		ask.Permits = 1
	}
	r := &Request{ask: ask, events: events, id: newID(), weight: ask.Permits, start: -1, told: -1, asking: true}
	s := e.semaphore(name) // from here on others wait
	defer func() {
		r.asking = false
		s.unlock()
	}()
	r.s = s
	r.since = e.cfg.Now()
	r.deadline = r.since + ask.Wait
	if err := e.refuses(name, &ask); err != nil {
		r.fail(err)
		return r
	}
	switch err := r.identify(); {
	case err != nil:
		r.fail(err)
	case r.keyed():
		s.again(r)
	default:
		s.comesIn(r)
	}
	return r
}

// refuses says why a request can not be served whatever the semaphore is.
func (e *Engine) refuses(name string, ask *Ask) error {
	switch {
	case e.draining.Load():
		return ErrDraining
	case ask.Permits < 1 || ask.Permits > WeightMax:
		return &InvalidError{Field: "permits", Detail: fmt.Sprintf("must be 1 to %d", WeightMax)}
	case ask.AllFree && ask.Wait != 0:
		return &InvalidError{Field: "wait", Detail: "must be 0: who takes all that is free never waits"}
	case ask.Wait < 0 || ask.Wait > WaitMaxChannel:
		return &InvalidError{Field: "wait", Detail: fmt.Sprintf("must be 0 to %v", WaitMaxChannel)}
	case ask.Priority < -PriorityMax || ask.Priority > PriorityMax:
		return &InvalidError{Field: "priority", Detail: fmt.Sprintf("must be %d to %d", -PriorityMax, PriorityMax)}
	case len(ask.Holder.Holder) > HolderMax:
		return &InvalidError{Field: "holder", Detail: fmt.Sprintf("must be at most %d bytes", HolderMax)}
	case e.voting() < e.quorum || !e.hasSecret():
		return ErrQuorumUnavailable
	}
	if err := ValidName(name); err != nil {
		return err
	}
	if ask.Create != nil {
		return ask.Create.Validate()
	}
	return nil
}

// admit lets a request in, now that the definition is known. mu is held.
func (s *semaphore) admit(r *Request) {
	if s.def != nil && !s.def.Deleted && r.ask.AllFree && r.sizes == 0 {
		s.size(r)
		return
	}
	if s.def != nil && !s.def.Deleted && r.unweighed() {
		s.weigh(r)
		return
	}
	if err := s.refuses(r); err != nil {
		r.fail(err)
		return
	}
	now := s.e.cfg.Now()
	resumes := r.order.Arrival != 0
	r.joins = !resumes && r.ask.Wait > 0
	if !resumes {
		r.order.Arrival = s.e.arrival() - int64(r.ask.Priority)*int64(s.def.Definition.PriorityStep/time.Microsecond)
	}
	if r.order.Seq == 0 {
		r.order.Replica, r.order.Seq = s.e.replica, s.e.seq.Add(1)
	}
	head := s.line.head()
	mayClaim := head == nil || r.order.Compare(head.order) < 0
	switch {
	case r.ask.Wait == 0 && !mayClaim:
		r.phase = waiting // a try never overtakes a waiter
		r.refuse(now)
		return
	case !mayClaim && !resumes && s.line.waiters+s.elsewhere >= s.def.Definition.MaxWaiters:
		r.fail(ErrTooManyWaiters)
		return
	}
	r.phase = waiting
	s.line.enter(r)
	if mayClaim && (s.line.underway == 0 || s.line.underway+r.weight <= s.limit()) {
		s.claim(r, -1)
		return
	}
	s.waits(r, now)
}

// refuses says why the semaphore, as it is defined, can not serve the request. mu is held.
func (s *semaphore) refuses(r *Request) error {
	if s.def == nil || s.def.Deleted {
		return ErrUnknownSemaphore
	}
	d := &s.def.Definition
	if c := r.ask.Create; c != nil && s.def.CreatedBy != nil && !s.def.Declared && c.filled() != s.def.CreatedBy.filled() {
		return &DefinitionConflict{Yours: c.filled(), Existing: s.def.CreatedBy.filled()}
	}
	return r.fits(d)
}

// fits says why a definition can not serve the request, or gives it its TTL.
func (r *Request) fits(d *Definition) error {
	if most := min(d.Limit, WeightMax); r.weight > most {
		return &WeightError{Requested: r.ask.Permits, Weight: r.weight, Limit: most}
	}
	switch ttl := r.ask.TTL; {
	case ttl == 0:
		r.ttl = d.TTL
	case ttl == Never:
		r.ttl = Never
	case ttl < TTLMin || ttl > d.TTLMax:
		return &InvalidError{Field: "ttl", Detail: fmt.Sprintf("must be %v to %v", TTLMin, d.TTLMax)}
	default:
		r.ttl = ttl
	}
	return nil
}

// waits lets a request stand in line until it is woken or its wait is over. mu is held.
func (s *semaphore) waits(r *Request, now time.Duration) {
	if now >= r.deadline {
		s.leaves(r)
		r.refuse(now)
		return
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(r.deadline-now, func() { s.locked(func() { s.waitOver(r) }) })
	}
	r.tellAhead(now)
}

// waitOver ends a wait whose time is over; a claim under way is left to decide. mu is held.
func (s *semaphore) waitOver(r *Request) {
	if r.phase != waiting || r.attempt != nil {
		return
	}
	s.leaves(r)
	r.refuse(s.e.cfg.Now())
}

// leaves takes a request out of the line and lets the nodes know where it was the head. mu is held.
func (s *semaphore) leaves(r *Request) {
	if !s.line.has(r) {
		return
	}
	s.line.leave(r)
	s.settled()
}

// tellAhead tells a waiter how many are before it, if that changed; at most once a second. mu is held.
func (r *Request) tellAhead(now time.Duration) {
	if r.told >= 0 && now-r.toldAt < time.Second {
		return
	}
	if ahead := r.s.line.ahead(r) + r.s.before; ahead != r.told {
		r.told, r.toldAt = ahead, now
		r.events.Waiting(ahead)
	}
}

// end is the last that happens to a request. mu is held.
func (r *Request) end() {
	r.phase = ended
	if r.s.named[r.id] == r {
		delete(r.s.named, r.id)
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (r *Request) fail(err error) {
	r.end()
	r.events.Failed(err)
}

// Bounds of Refusal.RetryAfter.
const (
	retryAfterMin = time.Second
	retryAfterMax = 30 * time.Second
)

// refuse ends a request that was not granted in time; it is out of the line already. mu is held.
func (r *Request) refuse(now time.Duration) {
	s := r.s
	ref := Refusal{
		Limit: s.limit(), InUse: s.inUse,
		Waiting: s.line.waiters + s.elsewhere, Ahead: s.line.ahead(r) + s.before,
		Paused: s.def != nil && s.def.Definition.Paused, Resting: max(0, s.restsUntil-now),
	}
	after := retryAfterMin
	if next := s.recheckAt - now; s.recheckAt > 0 && next > after {
		after = next
	}
	after = max(after, ref.Resting)
	ref.RetryAfter = min(after+random(after), retryAfterMax)
	if r.ask.Wait > 0 || r.resumes {
		ref.Ticket = r.ticket(now)
		if s.keepPlace(r) {
			ref.PlaceKept = PlaceKept
		}
	}
	r.end()
	r.events.Refused(ref)
}

// Cancel ends the request, wherever it is: a waiter leaves the line, a grant (also one that is just under way or was
// told meanwhile) is given back. It returns at once; no event is told afterwards. The nodes are told on contexts of
// the engine's own, until they have heard it.
func (r *Request) Cancel() {
	r.s.locked(func() {
		phase := r.phase
		r.end()
		switch phase {
		case ended:
		case arriving, seeking:
			r.s.keepPlace(r)
		case weighing:
			r.s.keep(r, r)
		case waiting:
			// A claim under way goes on; what it is granted is given back by its verdict.
			r.s.keepPlace(r)
			r.s.leaves(r)
		case confirming:
			// Its confirmation gives it back.
			r.s.keepPlace(r)
		case holding:
			why := WhyReleased
			if r.ask.Key != "" {
				why = WhyCleaned // it was told, but maybe in vain: it cools, and its key is free
			}
			r.s.release(r.lease, &Release{Owner: r.lease.owner, Why: why})
		}
	})
}

// outcome is how Acquire hears of its request.
type outcome struct {
	heard chan struct{}
	Outcome
	err error
}

func (o *outcome) Waiting(int)                    {}
func (o *outcome) Renewed(time.Duration)          {}
func (o *outcome) Expiring(time.Duration, string) {}
func (o *outcome) Lost(string)                    {}
func (o *outcome) Granted(l Lease)                { o.Lease = l; close(o.heard) }
func (o *outcome) Refused(f Refusal)              { o.Refusal = &f; close(o.heard) }
func (o *outcome) Failed(err error)               { o.err = err; close(o.heard) }

// Acquire is Ask for a caller that waits. When ctx ends first, nothing is held and the error is the context's.
// Errors: *InvalidError, *WeightError, *DefinitionConflict, ErrUnknownSemaphore, ErrTooManyWaiters,
// ErrQuorumUnavailable, ErrDraining.
func (e *Engine) Acquire(ctx context.Context, name string, ask Ask) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	o := &outcome{heard: make(chan struct{})}
	r := e.Ask(name, ask, o)
	select {
	case <-o.heard:
		return o.Outcome, o.err
	case <-ctx.Done():
		r.Cancel()
		return Outcome{}, ctx.Err()
	}
}
