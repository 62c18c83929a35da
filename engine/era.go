package engine

import (
	"slices"

	"github.com/permitd/permitd/engine/quorum"
)

// era is the era of the node as this replica knows it; 0 before anything is known.
func (p *peer) era() int64 {
	if h := p.header.Load(); h != nil {
		return h.era()
	}
	return 0
}

// era is the era of the node that is asked.
func (h *Header) era() int64 {
	if h.Index < 0 || h.Index >= len(h.Known) {
		return 0
	}
	return h.Known[h.Index]
}

// learn takes in the eras somebody knows of, and returns the largest of every node. What nodes of a larger era have said before is
// thrown away: it was said out of a memory that is lost. No lock may be held.
func (e *Engine) learn(known []int64) []int64 {
	eras, grew := e.note(known)
	if grew {
		for _, s := range e.semaphores() {
			s.locked(s.discardOld)
		}
		e.steer.poke()
	}
	return eras
}

// note is learn without what comes of it; it reports whether anything was new.
func (e *Engine) note(known []int64) (eras []int64, grew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	merged := slices.Clone(e.eras)
	for i := range min(len(merged), len(known)) {
		merged[i] = max(merged[i], known[i])
	}
	if slices.Equal(merged, e.eras) {
		return e.eras, false
	}
	e.eras = merged
	for _, p := range e.peers {
		if h := p.header.Load(); h != nil {
			p.header.Store(&Header{Cluster: h.Cluster, Index: h.Index, Known: merged})
		}
	}
	return merged, true
}

// discardOld lets every round under way decide anew, without what was said in an era that is over, and sends releases again to
// nodes that have acknowledged them in one. mu is held.
func (s *semaphore) discardOld() {
	for _, r := range s.line.claimingInOrder() {
		if r.attempt != nil {
			r.attempt.decide()
		}
	}
	for _, l := range s.leases {
		if l.renewal != nil {
			l.renewal.decide()
		}
	}
	for rl := range s.releasing {
		rl.discardOld()
	}
}

// discardOld takes ballots of eras that are over out of the count: their nodes are silent.
func (a *attempt) discardOld() {
	for i, p := range a.s.e.peers {
		if b := &a.ballots[i]; b.Kind >= quorum.No && a.eras[i] < p.era() {
			b.Kind = quorum.Silent
		}
	}
}

// discardOld does so with acknowledgements of a renewal.
func (rn *renewal) discardOld() {
	for i, p := range rn.l.s.e.peers {
		if rn.acks[i] && rn.eras[i] < p.era() {
			rn.acks[i] = false
			rn.silent++
		}
	}
}

// discardOld sends the release again to nodes that have forgotten it. mu is held.
func (rl *releasing) discardOld() {
	s := rl.s
	if s.e.cfg.Now() >= rl.until {
		delete(s.releasing, rl)
		return
	}
	for i, p := range s.e.peers {
		if rl.counted[i] == nil || rl.eras[i] >= p.era() {
			continue
		}
		*rl.counted[i]--
		rl.counted[i] = nil
		again := *rl.op
		again.Follows = false
		s.tell(i, &again, nil, rl.until, func(a *Answer) { s.locked(func() { s.acknowledged(rl, i, a) }) })
	}
}

// current takes out of the answers what was said in an era that is over.
func (e *Engine) current(answers []*Answer) {
	for i, a := range answers {
		if a != nil && a.Era < e.peers[i].era() {
			answers[i] = nil
		}
	}
}
