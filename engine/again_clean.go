package engine

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	leftoverAfter = 10 * time.Second // how long nobody has touched what may be cleaned away
	cleanEvery    = 20 * time.Second // how often a replica looks for it
)

// leftovers returns those attempts that somebody has left behind who died: nobody has touched them for a while, and Q nodes can
// not have them.
func (f *found) leftovers() (list []*Record) {
	for _, of := range f.attempts() {
		touched := Never
		for _, r := range f.records {
			if r.By == of.By {
				touched = min(touched, r.Touched)
			}
		}
		if touched > leftoverAfter && !f.mayLive(of.By) {
			list = append(list, of)
		}
	}
	return list
}

// cleanUp releases leftovers; they cool, as they may have been granted. ErrInProgress: not confirmed, or somebody has taken one up.
func (s *semaphore) cleanUp(ctx context.Context, f *found, leftovers []*Record) error {
	var under []*releasing
	s.locked(func() {
		for _, rec := range leftovers {
			if l := s.leases[rec.Lease]; l != nil && l.by == rec.By {
				s.lose(l, "quorum_lost") // nodes have forgotten it since they last renewed it
			}
			under = append(under, s.release(s.leaseOf(rec, f), &Release{Owner: f.owner(rec.By), Why: WhyCleaned}))
		}
	})
	for _, rl := range under {
		if _, err := s.e.await(ctx, rl, Released{}); err != nil {
			return ErrInProgress
		}
	}
	return nil
}

// cleanLoop cleans up after replicas that died, until the engine is closed.
func (e *Engine) cleanLoop() {
	wait := random(cleanEvery) // so that replicas do not all look at once
	for pause(e.ctx, wait) == nil {
		wait = cleanEvery
		if e.voting() < e.quorum {
			continue
		}
		all := e.semaphores()
		slices.SortFunc(all, func(a, b *semaphore) int { return strings.Compare(a.name, b.name) }) // a seed plays the same again
		for _, s := range all {
			if s.worthALook() {
				e.clean(e.ctx, s)
				_ = pause(e.ctx, sweepPause)
			}
		}
	}
}

// worthALook reports whether leftovers may be in the way of somebody here: since the last look the semaphore was used, or it still is.
func (s *semaphore) worthALook() (worth bool) {
	s.locked(func() {
		worth = s.line.len() > 0 || len(s.leases) > 0 || s.touched > s.cleaned
		s.cleaned = s.e.cfg.Now()
	})
	return worth
}

// clean takes off the nodes what a view shows of leftovers. Each is read once more by itself: the pages of a view are not of one
// moment.
func (e *Engine) clean(ctx context.Context, s *semaphore) {
	g, err := e.view(ctx, s.name)
	if err != nil {
		return // in 20 s again
	}
	for _, id := range g.leftovers {
		f, err := e.find(ctx, s.name, id)
		if err != nil {
			return
		}
		if left := f.leftovers(); len(left) > 0 {
			_ = s.cleanUp(ctx, f, left) // else in 20 s again
		}
	}
}
