package engine

import (
	"context"
	"errors"
	"time"
)

const (
	sweepEvery = time.Minute          // how often the nodes are looked through
	sweepPause = 2 * time.Millisecond // between two semaphores of a sweep, so that it takes no more than a fraction of the nodes
	idleAfter  = 5 * time.Minute      // a semaphore created on use, unused and unchanged for so long, is removed
)

// sweepLoop removes from the nodes what nobody needs any more, and counts what was created on use, until the engine is closed.
func (e *Engine) sweepLoop() {
	for {
		if pause(e.ctx, sweepEvery+random(sweepEvery/4)) != nil {
			return
		}
		if e.voting() >= e.quorum {
			e.sweep(e.ctx)
		}
	}
}

// sweep looks at every semaphore once.
func (e *Engine) sweep(ctx context.Context) {
	created := 0
	_ = e.eachName(ctx, false, func(name string) {
		s, err := e.Semaphore(ctx, name)
		if err != nil || s.Declared {
			return
		}
		created++
		if idle(&s) && e.unused(name) && e.removeIdle(ctx, name, s.Rev) == nil {
			created--
		}
	})
	e.created.Store(int64(created))
	_ = e.eachName(ctx, true, func(name string) { _ = e.dropDeleted(ctx, name) }) // else the next sweep
}

// eachName calls f for every semaphore on the nodes, or every deleted one that is still there.
func (e *Engine) eachName(ctx context.Context, deleted bool, f func(name string)) error {
	for after, more := "", true; more; {
		names, next, err := e.names(ctx, Names{After: after, Count: namesMax, Deleted: deleted})
		if err != nil {
			return err
		}
		for _, name := range names {
			f(name)
			if err := pause(ctx, sweepPause); err != nil {
				return err
			}
		}
		after, more = next, next != ""
	}
	return nil
}

// idle reports whether nothing is held, cools or waits, and the definition is not new.
func idle(s *Semaphore) bool {
	st := &s.Status
	return st.Leases == 0 && st.Cooling == 0 && st.Waiting == 0 && time.Since(s.ChangedAt) > idleAfter
}

// unused reports whether this replica has not been asked for the semaphore lately.
func (e *Engine) unused(name string) bool {
	s := e.known(name)
	if s == nil {
		return true
	}
	defer s.unlock()
	return e.cfg.Now()-s.touched > idleAfter
}

// errChanged ends a removal: somebody has changed the semaphore since it was looked at.
var errChanged = errors.New("changed meanwhile")

// removeIdle deletes a semaphore that was created on use, unless it was changed since revision rev. What was granted
// meanwhile keeps it on the nodes: they drop nothing that is held.
func (e *Engine) removeIdle(ctx context.Context, name string, rev int64) error {
	st, ballot, err := e.write(ctx, name, func(old *stored) (*stored, error) {
		if live(old) == nil || old.Declared || old.Rev != rev {
			return nil, errChanged
		}
		gone := *old
		gone.Deleted, gone.ChangedBy = true, "idle"
		return &gone, nil
	})
	if err != nil {
		return err
	}
	e.took(name, st, ballot)
	return e.dropDeleted(ctx, name)
}

// dropDeleted takes a deleted semaphore off the nodes, once all of them have accepted that it is. While one is away the
// tombstone stays, or that node would bring the definition back.
func (e *Engine) dropDeleted(ctx context.Context, name string) error {
	everywhere := func() (*Answer, bool) {
		answers := e.gather(ctx, func(*peer) Op { return &Peek{Kind: RegisterSemaphore, Name: name} }, nil)
		first := answers[0]
		for _, a := range answers {
			if a == nil || first == nil || a.Definition != first.Definition || !a.Value.Deleted {
				return first, false
			}
		}
		return first, true
	}
	a, all := everywhere()
	if !all {
		r := register{e, RegisterSemaphore, name}
		v, ballot, err := r.read(ctx)
		if err != nil || !v.Deleted {
			return err
		}
		// Whoever has not heard of it is told, under the ballot that was chosen.
		told := e.gather(ctx, func(*peer) Op { return &Accept{Kind: r.kind, Name: r.name, Ballot: ballot, Value: v} }, nil)
		if promised := largestPromised(told); ballot.Less(promised) {
			return e.rewriteDeleted(ctx, name, promised)
		}
		if a, all = everywhere(); !all {
			return nil
		}
	}
	dropped := e.gather(ctx, func(*peer) Op { return &Drop{Kind: RegisterSemaphore, Name: name, Ballot: a.Definition} }, nil)
	if promised := largestPromised(dropped); a.Definition.Less(promised) {
		return e.rewriteDeleted(ctx, name, promised)
	}
	return nil
}

// largestPromised is the largest ballot that those have promised who refuse.
func largestPromised(answers []*Answer) (largest Ballot) {
	for _, a := range answers {
		if a != nil && a.Says == SaysNo && largest.Less(a.Promise) {
			largest = a.Promise
		}
	}
	return largest
}

// rewriteDeleted writes the tombstone anew above a ballot that somebody was promised who changed nothing: nodes drop nothing while it
// may still come. The next sweep drops it.
func (e *Engine) rewriteDeleted(ctx context.Context, name string, promised Ballot) error {
	_, _, err := register{e, RegisterSemaphore, name}.change(ctx, promised, func(v Value) (Value, error) {
		if !v.Deleted {
			return Value{}, errChanged
		}
		return v, nil
	})
	if errors.Is(err, errChanged) {
		return nil // somebody has made it anew
	}
	return err
}
