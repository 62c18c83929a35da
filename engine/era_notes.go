package engine

import (
	"time"
)

// noteEvery is how often nodes are told of each other's clocks.
const noteEvery = 10 * time.Second

// tellNodes tells the nodes that vote of each other: which instance is in use where, and how long leases may last, at once where one does
// not know; and how their clocks stand to each other, every 10 s. It does not wait: the next time will do.
func (e *Engine) tellNodes(probes []*Probe) {
	now := e.cfg.Now()
	voters := e.voters()
	instances := make([]Instance, len(e.peers))
	for _, p := range voters {
		r := probes[p.pos].Record
		instances[r.Index] = Instance{Era: r.Era, Nonce: r.Instance, Address: p.node.Name()}
	}
	longest := e.longestSeen()
	due := e.notedAt == 0 || now-e.notedAt >= noteEvery
	if due {
		e.notedAt = now
	}
	for _, p := range voters {
		r := probes[p.pos].Record
		if due || unknown(r, instances) || r.Longest < longest && longest > claimTTLMax {
			note := &Note{Instances: instances, Offsets: e.offsets(p, r, voters, probes), Longest: longest}
			p.node.Send(p.call(note, p.nodeTime(now), nil, func(*Answer) {})) // late, the offsets would be taken for those of then
		}
	}
}

// unknown reports whether a node has not heard of an instance that is in use.
func unknown(r *NodeRecord, instances []Instance) bool {
	for x, in := range instances {
		if in.Era > 0 && (x >= len(r.InUse) || r.InUse[x].Era < in.Era) {
			return true
		}
	}
	return false
}

// offsets is how far the clocks of the others are ahead of the node's. What it keeps already is not forgotten by that: a wide look
// now would else hide a jump, and many small steps would never add up.
func (e *Engine) offsets(p *peer, r *NodeRecord, voters []*peer, probes []*Probe) []Offset {
	now := e.cfg.Now()
	list := make([]Offset, len(e.peers))
	for _, q := range voters {
		other := probes[q.pos].Record
		seen, known := p.offset(q, now)
		if q == p || !known || r.refutes(other, seen) {
			continue
		}
		if other.Index < len(r.Offsets) && r.Offsets[other.Index].Era == other.Era {
			kept := r.Offsets[other.Index].widened(seen.At)
			if lo, hi := max(kept.Lo, seen.Lo), min(kept.Hi, seen.Hi); lo <= hi {
				seen.Lo, seen.Hi = lo, hi
			} else {
				seen.Lo, seen.Hi = kept.Lo, kept.Hi
			}
		}
		seen.Era = other.Era
		list[other.Index] = seen
	}
	return list
}

// suspendJumped takes nodes out whose clock jumped, so that every replica hears of it, and they are readmitted.
func (e *Engine) suspendJumped(probes []*Probe) {
	for i, p := range e.peers {
		p.mu.Lock()
		jumped, reason := p.jumped, p.status.Reason
		p.mu.Unlock()
		pr := probes[i]
		if !jumped || pr == nil || pr.Refusal != nil || pr.Record == nil || pr.Record.State != StateOK || pr.Record.Cluster != e.clusterID() {
			continue
		}
		if p.header.Load() == nil { // it jumped before it voted here for the first time
			p.header.Store(&Header{Cluster: pr.Record.Cluster, Index: pr.Record.Index, Known: e.learn(pr.Record.Known)})
		}
		p.node.Send(p.call(&Suspend{Reason: reason}, 0, nil, func(*Answer) {}))
	}
}
