package engine

import (
	"context"
	"errors"
)

// seek finds out what became of a request that may have been made before, and then lets it in. mu is held.
func (s *semaphore) seek(r *Request) {
	r.phase = seeking
	begin, end := s.turn(r.id)
	s.e.work.Go(func() {
		begin()
		defer end()
		ctx, cancel := context.WithTimeout(s.e.ctx, readTime)
		defer cancel()
		err := s.resume(ctx, r)
		s.locked(func() { s.sought(r, err) })
	})
}

// turn lines up those who take a lease up from the nodes, one at a time, so that of two who ask here the later one has it in the
// end. begin waits until it is one's turn; end lets the next go on. mu is held, but not while these are called.
func (s *semaphore) turn(id string) (begin, end func()) {
	before, mine := s.turns[id], make(chan struct{})
	s.turns[id] = mine
	begin = func() {
		if before != nil {
			<-before
		}
	}
	end = func() {
		s.locked(func() {
			if s.turns[id] == mine {
				delete(s.turns, id)
			}
		})
		close(mine)
	}
	return begin, end
}

// sought takes in that a request has no lease yet (nil), or why it can not have one. mu is held.
func (s *semaphore) sought(r *Request, err error) {
	switch {
	case r.phase != seeking: // answered, or gone
	case errors.Is(err, errOver):
		r.refuse(s.e.cfg.Now())
	case errors.Is(err, ErrInProgress) && s.e.cfg.Now() < r.deadline && r.order.Seq != 0: // it was in line before
		s.comesBack(r)
	case err != nil:
		r.fail(err)
	default:
		s.comesIn(r)
	}
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

// comesBack puts a request back where it stood in line. It claims again when there is reason to. mu is held.
func (s *semaphore) comesBack(r *Request) {
	r.phase = waiting
	s.line.enter(r)
	s.free = min(s.free, r.weight-1)
	s.waits(r, s.e.cfg.Now())
	s.settled()
}

// existed is the refusal of a claim by a node that has another attempt of its lease: it is being given back, or the request was made
// through another replica too, and granted there. mu is held.
func (s *semaphore) existed(r *Request) {
	s.line.leave(r)
	s.named[r.id] = r
	s.seek(r)
}

// resume answers a request with the lease that it has already. It returns nil, and the request still seeks, when there is none.
func (s *semaphore) resume(ctx context.Context, r *Request) error {
	f, err := s.e.find(ctx, s.name, r.id)
	if err != nil {
		return err
	}
	if err := s.mayResume(r, f); err != nil {
		return err
	}
	l, err := s.e.regain(ctx, s, f)
	switch {
	case r.attaches && errors.Is(err, errOver):
		return ErrInProgress
	case err != nil:
		return err
	case l != nil:
		s.locked(func() { s.replay(l, r) })
		return nil
	case r.attaches:
		return f.ended()
	}
	return f.endedLately()
}

// mayResume says why a request does not get the lease that was found: it is another's with the same key, or the request was made
// again elsewhere since.
func (s *semaphore) mayResume(r *Request, f *found) (err error) {
	s.locked(func() {
		if r.phase != seeking { // it is over: nobody wants to have it
			err = ErrCancelled
		}
	})
	if err != nil || r.attaches || len(f.records) == 0 {
		return err
	}
	switch told := decodeInfo(f.best.Info); {
	case told.Params != r.params:
		return ErrKeyReused
	case r.claimed && told.Asked > r.asked && f.mayLive(f.best.By):
		return ErrSuperseded
	}
	return nil
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

// replay gives a request the lease that was found for it. mu is held.
func (s *semaphore) replay(l *lease, r *Request) {
	switch {
	case r.phase != seeking: // whoever asked is gone: the lease lives until its TTL
		return
	case s.leases[l.id] != l: // it is over, or attached elsewhere, meanwhile
		r.fail(ErrInProgress)
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
