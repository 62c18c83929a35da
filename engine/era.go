package engine

import (
	"slices"

	"github.com/permitd/permitd/engine/quorum"
)

// termOf names the memory of an index in an era by one number, which grows with the era. Both are needed: a node that takes over another
// index goes on in an era of that one, which may be smaller than its last.
func termOf(index int, era int64) int64 { return era<<8 | int64(index)&0xff }

// sameIndex reports whether two terms are of one index.
func sameIndex(a, b int64) bool { return (a^b)&0xff == 0 }

func (r *NodeRecord) term() int64 { return termOf(r.Index, r.Era) }

// term is that of the node that is asked.
func (h *Header) term() int64 {
	if h.Index < 0 || h.Index >= len(h.Known) {
		return 0
	}
	return termOf(h.Index, h.Known[h.Index])
}

// term is that of the node as this replica knows it; 0 before anything is known.
func (p *peer) term() int64 {
	if h := p.header.Load(); h != nil {
		return h.term()
	}
	return 0
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
		if b := &a.ballots[i]; b.Kind >= quorum.No && a.terms[i] != p.term() {
			b.Kind = quorum.Silent
		}
	}
}

// discardOld does so with acknowledgements of a renewal.
func (rn *renewal) discardOld() {
	for i, p := range rn.l.s.e.peers {
		if rn.acks[i] && rn.terms[i] != p.term() {
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
		if rl.counted[i] == nil || rl.terms[i] == p.term() {
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
		if a != nil && a.Term != e.peers[i].term() {
			answers[i] = nil
		}
	}
}
