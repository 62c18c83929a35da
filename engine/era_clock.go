package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// observe takes in the node's time of an answer, or of a probe, that was given in a term, and reports whether the clock jumped in
// that term, now or before. A node that was readmitted since is seen anew: its memory goes by the clock that it has now.
func (p *peer) observe(term, node int64, sent, received time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case term > p.seenIn || !sameIndex(term, p.seenIn):
		p.clock, p.seenIn, p.jumped = quorum.Interval{}, term, false
	case term < p.seenIn || p.jumped:
		return true
	}
	next, jumped := p.clock.Observe(time.Duration(node)*time.Microsecond, sent, received)
	p.clock = next
	if jumped {
		p.jumpedLocked("its clock jumped, or runs more than 0.1 % too fast or slow")
	}
	return jumped
}

// jumpedLocked takes the node out of the count. The steering tells the node so, and has it readmitted. p.mu is held.
func (p *peer) jumpedLocked(reason string) {
	p.jumped = true
	p.voting.Store(false)
	p.setStatusLocked(nodeSuspended, reason)
	p.e.steer.poke()
}

// offset is how far the clock of another node is ahead of this one's, as this replica sees both; µs. ok: both are known.
func (p *peer) offset(other *peer, now time.Duration) (o Offset, ok bool) {
	a, b := p.clockAt(now), other.clockAt(now)
	return Offset{
		Lo: int64((b.Lo - a.Hi) / time.Microsecond), Hi: int64((b.Hi - a.Lo) / time.Microsecond), At: int64((now + a.Lo) / time.Microsecond),
	}, a.Known && b.Known
}

// widened is a kept offset as it may have become until the node's time at.
func (o Offset) widened(at int64) Offset {
	drift := max(at-o.At, o.At-at) * 2 * quorum.DriftPerMille / 1000 // each of both clocks may drift
	return Offset{Lo: o.Lo - drift, Hi: o.Hi + drift, At: at, Era: o.Era}
}

// contradicts reports whether two offsets are farther apart than what counts as a jump.
func (o Offset) contradicts(seen Offset) bool {
	return max(seen.Lo-o.Hi, o.Lo-seen.Hi) > int64(quorum.JumpMin/time.Microsecond)
}

// refutes reports whether what a node keeps of another's clock contradicts what is seen now.
func (r *NodeRecord) refutes(other *NodeRecord, seen Offset) bool {
	if r.Offsets == nil || other.Index >= len(r.Offsets) {
		return false
	}
	kept := r.Offsets[other.Index]
	return kept != (Offset{}) && kept.Era == other.Era && kept.widened(seen.At).contradicts(seen)
}

// checkClocks compares the clocks of the nodes, as this replica sees them, with what the nodes keep of each other's: so a jump
// is noticed that happened before this replica started. Who contradicts so many that no quorum is left to agree with it
// has jumped; where that can be either of two, neither counts until a third one tells: for each, why not, or "".
func (e *Engine) checkClocks(good []*peer, records []*NodeRecord) []string {
	if len(good) == 0 {
		return nil
	}
	now := e.cfg.Now()
	agree, contradicted := make([]int, len(good)), make([]bool, len(good))
	for i, p := range good {
		for j, q := range good {
			seen, known := p.offset(q, now)
			back, _ := q.offset(p, now)
			if known && i != j && (records[i].refutes(records[j], seen) || records[j].refutes(records[i], back)) {
				contradicted[i] = true
			} else {
				agree[i]++
			}
		}
	}
	told := slices.Max(agree) >= e.quorum // some are a quorum that agrees: then it is the others that jumped
	doubts := make([]string, len(good))
	for i, p := range good {
		switch {
		case !contradicted[i] || agree[i] >= e.quorum:
		case told:
			p.mu.Lock()
			p.jumpedLocked(fmt.Sprintf("its clock and those of %d other nodes are not as far apart as they were: it jumped", len(good)-agree[i]))
			p.mu.Unlock()
		default:
			doubts[i] = "its clock and another node's are not as far apart as they were, and no quorum tells which of them jumped"
		}
	}
	return doubts
}
