package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// readTime bounds the reading of a definition, and a creation on use.
const readTime = 2 * time.Second

// read reads the definition, in the background, and then lets those in who wait for it. mu is held.
func (s *semaphore) read() { s.readAbove(Ballot{}) }

// readAbove is read where a node has promised a ballot: if nobody has made use of that one, the definition is written again under a
// larger one, or the node would stay apart. mu is held.
func (s *semaphore) readAbove(promised Ballot) {
	if s.reading {
		return
	}
	s.reading = true
	s.e.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.e.ctx, readTime)
		defer cancel()
		st, ballot, err := s.e.readDefinition(ctx, s.name)
		if err == nil && ballot.Less(promised) {
			st, ballot, err = s.e.writeAgain(ctx, s.name, promised)
		}
		if err == nil && (st == nil || st.Deleted) {
			st, ballot, err = s.createOnUse(ctx, st, ballot)
		}
		s.locked(func() { s.wasRead(st, ballot, err) })
	})
}

// learn reads the definition if this replica does not know any.
func (s *semaphore) learn(ctx context.Context) error {
	known := false
	s.locked(func() { known = s.def != nil })
	if known {
		return nil
	}
	st, ballot, err := s.e.readDefinition(ctx, s.name)
	if err != nil {
		return err
	}
	s.locked(func() {
		if s.def == nil && st != nil {
			s.def, s.ballot = st, ballot
		}
	})
	return nil
}

// heardOf reads the definition if a quorum names another than this replica knows: another replica has changed it. mu is held.
func (s *semaphore) heardOf(ballot Ballot) {
	if ballot != s.ballot && s.def != nil {
		s.read()
	}
}

// teach tells a node that answered under an older definition which one was chosen: else it has no say until the next change. mu is
// held.
func (s *semaphore) teach(i int, under Ballot) {
	p := s.e.peers[i]
	if s.def == nil || !under.Less(s.ballot) || !p.voting.Load() {
		return
	}
	accept := &Accept{Kind: RegisterSemaphore, Name: s.name, Ballot: s.ballot, Value: s.def.value()}
	s.queue(p, p.call(accept, p.nodeTime(s.e.cfg.Now()), nil, func(ans *Answer) {
		if ans.Err == nil && ans.Says == SaysNo && !s.e.closed() {
			s.locked(func() { s.readAbove(ans.Promise) })
		}
	}))
}

// createOnUse creates the semaphore as the first of the waiting requests says that brings a definition, one by which it can be served
// itself; without one it stays as it is.
func (s *semaphore) createOnUse(ctx context.Context, st *stored, ballot Ballot) (*stored, Ballot, error) {
	var create *Definition
	s.locked(func() {
		for _, r := range s.arrivals {
			if r.phase != ended && r.creates() == nil && r.ask.Create != nil {
				create = r.ask.Create
				return
			}
		}
	})
	if create == nil {
		return st, ballot, nil
	}
	if s.e.created.Load() >= int64(s.e.cfg.MaxSemaphores) {
		return nil, Ballot{}, ErrTooManySemaphores
	}
	s.e.created.Add(1)
	return s.e.write(ctx, s.name, func(old *stored) (*stored, error) {
		if old != nil && !old.Deleted {
			return nil, errUnchanged // somebody else was first
		}
		return &stored{Definition: create.filled(), CreatedBy: create, ChangedBy: "create"}, nil
	})
}

// creates says why the request can not be served by the definition that it brings. mu is held.
func (r *Request) creates() error {
	if r.ask.Create == nil {
		return nil
	}
	d := r.ask.Create.filled()
	return r.fits(&d)
}

// wasRead takes in what was read. mu is held.
func (s *semaphore) wasRead(st *stored, ballot Ballot, err error) {
	s.reading = false
	arrivals := s.arrivals
	s.arrivals = nil
	if err == nil {
		if st == nil {
			st = &stored{Deleted: true}
		}
		s.def, s.ballot = st, ballot
	}
	for _, r := range arrivals {
		switch {
		case r.phase == ended:
			s.line.leave(r)
		case err != nil:
			s.line.leave(r)
			r.fail(s.readError(err))
		case s.def.Deleted && r.creates() != nil:
			s.line.leave(r)
			r.fail(r.creates())
		case s.def.Deleted && r.ask.Create != nil && r.rereads < rereadsMax: // it came too late to be created for, or it was deleted since
			r.rereads++
			s.arrivals = append(s.arrivals, r)
			s.read()
		case r.phase == arriving:
			s.admit(r)
		default: // it was in line when the definition changed
			if refused := s.refuses(r); refused != nil {
				s.line.leave(r)
				r.fail(refused)
				continue
			}
			s.claimAnew(r)
		}
	}
	if err == nil {
		s.refit()
	} else if s.def == nil && s.line.len() > 0 {
		s.failWaiters(s.readError(err))
	}
	s.settled()
}

// readError is what a request hears when the definition can not be read.
func (s *semaphore) readError(err error) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) || errors.Is(err, ErrTooManySemaphores) {
		return err
	}
	return ErrQuorumUnavailable
}

// refit ends waiters that the definition as it is now can never serve, so that they do not block the line for ever. mu
// is held.
func (s *semaphore) refit() {
	for _, r := range s.line.all() {
		if s.line.claimsFor(r) {
			continue // its verdict will tell, or what is read for it
		}
		if s.def.Deleted {
			s.line.leave(r)
			r.fail(ErrUnknownSemaphore)
		} else if r.weight > s.limit() {
			s.line.leave(r)
			r.fail(&WeightError{Requested: r.ask.Permits, Weight: r.weight, Limit: s.limit()})
		}
	}
}

// errUnchanged ends a change that has nothing to write.
var errUnchanged = errors.New("nothing to change")

// readDefinition reads the chosen definition; nil if there never was one.
func (e *Engine) readDefinition(ctx context.Context, name string) (*stored, Ballot, error) {
	v, ballot, err := register{e, RegisterSemaphore, name}.read(ctx)
	if err != nil {
		return nil, Ballot{}, err
	}
	st, err := storedOf(v)
	return st, ballot, err
}

// writeAgain writes the definition as it is under a ballot larger than the one that was promised.
func (e *Engine) writeAgain(ctx context.Context, name string, promised Ballot) (*stored, Ballot, error) {
	v, ballot, err := register{e, RegisterSemaphore, name}.change(ctx, promised, func(v Value) (Value, error) { return v, nil })
	if err != nil {
		return nil, Ballot{}, err
	}
	st, err := storedOf(v)
	return st, ballot, err
}

// write changes a definition to what next makes of it. Where next has nothing to change (errUnchanged), or an objection, nothing is
// written and nobody is woken. It returns what is in force.
func (e *Engine) write(ctx context.Context, name string, next func(*stored) (*stored, error)) (*stored, Ballot, error) {
	now, ballot, err := e.readDefinition(ctx, name)
	if err != nil {
		return nil, Ballot{}, err
	}
	switch _, err := next(now); {
	case errors.Is(err, errUnchanged):
		return now, ballot, nil
	case err != nil:
		return nil, Ballot{}, err
	}
	nonce := newID()
	var result *stored
	_, ballot, err = register{e, RegisterSemaphore, name}.change(ctx, ballot, func(v Value) (Value, error) {
		old, err := storedOf(v)
		if err != nil {
			return Value{}, err
		}
		if old != nil && slices.Contains(old.Writes, nonce) {
			result = old // an earlier try of ours was chosen, and perhaps others' on top
			return v, nil
		}
		result = old
		st, err := next(old)
		if errors.Is(err, errUnchanged) {
			return v, nil
		}
		if err != nil {
			return Value{}, err
		}
		st.Rev, st.ChangedAt, st.Writes = 1, time.Now().UTC().Truncate(time.Millisecond), []string{nonce}
		if old != nil {
			st.Rev = old.Rev + 1
			st.Writes = append(st.Writes, old.Writes[:min(len(old.Writes), writesKept-1)]...)
		}
		result = st
		return st.value(), nil
	})
	return result, ballot, err
}

// definition returns the definition, as this replica knows it if it knows any; nil: there is no such semaphore.
func (e *Engine) definition(ctx context.Context, name string) (*stored, error) {
	if s := e.known(name); s != nil {
		st := s.def
		s.unlock()
		if st != nil {
			return live(st), nil
		}
	}
	st, _, err := e.readDefinition(ctx, name)
	return live(st), err
}

// live is nil for a definition that is deleted.
func live(st *stored) *stored {
	if st == nil || st.Deleted {
		return nil
	}
	return st
}

// Put declares a semaphore, or changes it to exactly def; by is for people. created tells whether there was none.
// Errors: *InvalidError, ErrRevMismatch, ErrQuorumUnavailable.
func (e *Engine) Put(ctx context.Context, name string, def Definition, cond Condition, by string) (s Semaphore, created bool, err error) {
	if err := errors.Join(ValidName(name), def.Validate()); err != nil {
		return Semaphore{}, false, firstInvalid(err)
	}
	st, ballot, err := e.write(ctx, name, func(old *stored) (*stored, error) {
		old = live(old)
		created = old == nil
		next := &stored{Definition: def.filled(), Declared: true, ChangedBy: by}
		if old == nil {
			if cond.IfRev > 0 {
				return nil, ErrRevMismatch
			}
			return next, nil
		}
		next.CreatedBy = old.CreatedBy
		switch {
		case old.Declared && old.Definition == def.filled():
			return nil, errUnchanged // whoever asks again, with the old revision too, has what it asked for
		case cond.IfAbsent || cond.IfRev > 0 && cond.IfRev != old.Rev:
			return nil, ErrRevMismatch
		}
		return next, nil
	})
	if err != nil {
		return Semaphore{}, false, err
	}
	e.took(name, st, ballot)
	status := Status{Available: def.Limit} // if somebody has deleted it since
	switch now, err := e.Semaphore(ctx, name); {
	case err == nil:
		status = now.Status
	case !errors.Is(err, ErrUnknownSemaphore):
		return Semaphore{}, created, err
	}
	return st.semaphore(name, status), created, nil // what it was changed to, whoever has changed it since
}

// firstInvalid unwraps the first *InvalidError of a join.
func firstInvalid(err error) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return invalid
	}
	return err
}

// Delete removes a semaphore; its waiters get ErrUnknownSemaphore. Errors: ErrUnknownSemaphore, ErrRevMismatch,
// ErrSemaphoreInUse, ErrQuorumUnavailable.
func (e *Engine) Delete(ctx context.Context, name string, cond Condition, by string) error {
	now, err := e.Semaphore(ctx, name)
	switch {
	case err != nil:
		return err
	case now.Status.Leases > 0:
		return ErrSemaphoreInUse
	}
	if err := e.writeDeleted(ctx, name, cond, by); err != nil {
		return err
	}
	return e.dropDeleted(ctx, name)
}

// writeDeleted puts a definition in force that says that the semaphore is deleted. Errors: ErrUnknownSemaphore, ErrRevMismatch,
// ErrQuorumUnavailable.
func (e *Engine) writeDeleted(ctx context.Context, name string, cond Condition, by string) error {
	st, ballot, err := e.write(ctx, name, func(old *stored) (*stored, error) {
		switch {
		case live(old) == nil:
			return nil, ErrUnknownSemaphore
		case cond.IfRev > 0 && cond.IfRev != old.Rev:
			return nil, ErrRevMismatch
		}
		gone := *old
		gone.Deleted, gone.ChangedBy = true, by
		return &gone, nil
	})
	if err != nil {
		return err
	}
	e.took(name, st, ballot)
	return nil
}

// took lets this replica act on a definition it has just written.
func (e *Engine) took(name string, st *stored, ballot Ballot) {
	s := e.known(name)
	if s == nil {
		return
	}
	defer s.unlock()
	if s.def != nil && s.ballot.Less(ballot) {
		s.def, s.ballot = st, ballot
		s.refit()
		s.free = 0
		s.settled()
		if head := s.line.head(); head != nil && !st.Definition.Paused {
			s.claim(head, -1) // a raised limit, or an end of pause, may serve it; the nodes wake it too
		}
	}
}
