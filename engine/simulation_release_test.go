package engine_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// giveBackPart gives a part of the lease back; the lowest slots stay.
func (c *client) giveBackPart(t *tale) {
	e, w := c.other(t), c.w
	w.mu.Lock()
	keep := 0
	if n := t.slots.Len(); n > 1 {
		keep = 1 + c.dice.IntN(n-1)
	}
	stays := t.slots.Lowest(keep)
	w.mu.Unlock()
	if e == nil || keep == 0 {
		return
	}
	_ = c.release(t, e, t.slots.Minus(stays), keep) // the history has it, whatever it came to
}

// release asks a replica for a release: of slots, keeping keep, or of all.
func (c *client) release(t *tale, e *engine.Engine, slots quorum.Slots, keep int) error {
	w := c.w
	w.mu.Lock()
	first, valid, asked := !t.released, t.valid(), w.now()
	t.gives(slots)
	w.mu.Unlock()
	var told error
	w.called("Release", func(ctx context.Context) {
		r, err := e.Release(ctx, t.semaphore, t.lease.Capability, keep)
		told = err
		w.mu.Lock()
		defer w.mu.Unlock()
		w.steps++
		t.parted = t.parted || err != nil && keep > 0
		still := t.lost == "" && w.now() < t.until
		switch {
		case err == nil && (r.ID != t.lease.ID || r.Weight != keep || r.Held != (keep > 0)):
			w.violatedf("the release of lease %s of %s, keeping %d, was told as %+v", t.lease.ID, t.semaphore, keep, r)
		case err == nil && keep == 0:
			w.gone[t.lease.ID] = released{w.now(), t.by}
			w.violated(w.history.ReleaseTold(w.now(), t.semaphore, t.lease.ID))
		case err == nil:
			w.violated(w.checkParted(t, slots))
		case w.mayBeAway(e, err, asked):
		case valid && first && still:
			w.violatedf("a valid lease %s of %s could not be released: %w", t.lease.ID, t.semaphore, err)
		case errors.Is(err, engine.ErrLeaseExpired), errors.Is(err, engine.ErrInProgress): // it has ended, here or there
		default:
			w.violatedf("the release of lease %s of %s: %w", t.lease.ID, t.semaphore, err)
		}
	})
	return told
}

// checkParted: a part whose release was acknowledged is not held by a quorum any more. mu is held.
func (w *world) checkParted(t *tale, slots quorum.Slots) error {
	held := 0
	for _, r := range w.records(t.semaphore, t.lease.ID) {
		if r != nil && r.By == t.by && r.Slots.Overlaps(slots) {
			held++
		}
	}
	if held >= w.quorum() {
		return fmt.Errorf("lease %s of %s gave back %s, which was acknowledged, and %d nodes hold it", t.lease.ID, t.semaphore, slots, held)
	}
	return nil
}

// finish gives the lease back, in one of the ways in which holders do.
func (c *client) finish(t *tale) {
	d, h, w := c.dice, &c.habits, c.w
	w.mu.Lock()
	mustTell := t.ask.TTL == engine.Never
	foreign := t.orphan
	w.mu.Unlock()
	switch {
	case w.isBroken():
		return
	case !mustTell && !t.ask.Kept && !w.winding.Load() && d.chance(h.vanish):
		w.mu.Lock()
		t.finish() // the validity goes on without it
		w.mu.Unlock()
		return
	case !mustTell && !foreign && d.chance(h.cancel):
		t.cancel()
		return
	}
	for tries := 0; ; tries++ {
		e := c.other(t)
		if e != nil {
			twice := d.chance(h.twice)
			err := c.release(t, e, nil, 0)
			if twice && w.sleep(d.upTo(pick(d, time.Millisecond, time.Second))) {
				if again := c.other(t); again != nil {
					_ = c.release(t, again, nil, 0)
				}
			}
			if err == nil || errors.Is(err, engine.ErrLeaseExpired) || !mustTell && tries >= 3 {
				break
			}
		}
		if !w.sleep(d.upTo(time.Second)) {
			return
		}
	}
	if t.ask.Kept && !t.orphan {
		// Its replica may hear of it only with its next renewal; until then it is told of renewals.
		t.cancel()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.finish()
}
