package engine

import (
	"context"

	"github.com/permitd/permitd/engine/quorum"
)

// shrink is what lets small requests through while a limit was made smaller than what is in use: slots at or beyond it are
// still held. Nobody is cut off, and no grant lets the use exceed the new limit. Guarded by semaphore.mu.
type shrink struct {
	bound   int    // grants stay below it; 0: not known, or nothing may be granted
	ballot  Ballot // of the definition it was read under; a claim names both
	reading bool
}

// boundFor returns the bound and the ballot a claim carries; zero while no slot beyond the limit is known of. mu is held.
func (s *semaphore) boundFor() (int, Ballot) {
	if s.shrink.bound > 0 && s.shrink.ballot == s.ballot {
		return s.shrink.bound, s.ballot
	}
	return 0, Ballot{}
}

// noteBeyond reads how far grants may go where a verdict tells that slots beyond the limit are in use, or that none may be any
// more: not all nodes have a say in it. mu is held.
func (s *semaphore) noteBeyond(a *attempt) {
	beyond := s.shrink.bound > 0
	for i, b := range a.ballots {
		beyond = beyond || b.Kind >= quorum.No && a.beyond[i] > 0
	}
	if beyond {
		s.readBound()
	}
}

// readBound reads the used slots from a quorum under one definition, and claims for the head if that lets more through than
// before.
func (s *semaphore) readBound() {
	if s.shrink.reading || s.e.closed() {
		return
	}
	s.shrink.reading = true
	s.e.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.e.ctx, readTime)
		defer cancel()
		g, err := s.e.view(ctx, s.name)
		s.locked(func() {
			s.shrink.reading = false
			if err != nil || s.def == nil || s.def.Deleted || g.under[s.ballot].nodes < s.e.quorum {
				return // another definition is under way: the next verdict asks again
			}
			bound := quorum.ShrinkBound(s.limit(), g.under[s.ballot].used)
			more := bound > s.shrink.bound || s.shrink.ballot != s.ballot
			if s.shrink.bound, s.shrink.ballot = bound, s.ballot; bound == s.limit() {
				s.shrink.bound = 0
			}
			if head := s.line.head(); more && bound > 0 && head != nil {
				s.claim(head, 0)
			}
		})
	})
}
