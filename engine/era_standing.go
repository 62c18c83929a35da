package engine

import (
	"fmt"
)

// States of a node as a replica sees it; NodeStatus.State.
const (
	nodeUp          = "up"          // it votes
	nodeDown        = "down"        // it can not be reached
	nodeSuspended   = "suspended"   // its clock jumped
	nodeReadmitting = "readmitting" // it is frozen: somebody copies to it what the others remember, or began to
	nodeOut         = "out"
	nodeReplaced    = "replaced" // another list of nodes has another instance in its place, which is in use
)

// standing is what to think of a node that was probed.
type standing struct {
	state, reason string
	heals         bool // it may be readmitted
}

// stand returns what to think of each node that was probed; nil where it was not.
func (e *Engine) stand(probes []*Probe) []*standing {
	all := make([]*standing, len(probes))
	holder := map[int]int{} // by index: the position of who votes for it
	for i, pr := range probes {
		if pr == nil {
			continue
		}
		st := e.standing(e.peers[i], pr)
		if st.state == nodeOut && st.heals {
			e.seeReplaced(&st, i, probes)
		}
		all[i] = &st
		if st.state != nodeUp {
			continue
		}
		j, twice := holder[pr.Record.Index]
		if twice && probes[j].Record.Era >= pr.Record.Era {
			i, j = j, i
		}
		if holder[pr.Record.Index] = i; twice {
			all[j].state, all[j].heals = nodeOut, true
			all[j].reason = fmt.Sprintf("it has index %d, as %s has, which is of a later era", pr.Record.Index, e.peers[i].node.Name())
		}
	}
	e.seeDoubts(probes, all)
	return all
}

// standing judges a node by its own probe.
func (e *Engine) standing(p *peer, pr *Probe) standing {
	r, id := pr.Record, e.clusterID()
	switch {
	case pr.Fatal:
		return standing{state: nodeOut, reason: pr.Refusal.Error()}
	case r == nil:
		return standing{nodeOut, "it is blank: it has lost its memory, or is new", true}
	case r.Cluster != "" && r.Cluster != id:
		return standing{state: nodeOut, reason: fmt.Sprintf("it belongs to cluster %s, the others to %s", r.Cluster, id)}
	case r.N != 0 && r.N != len(e.peers):
		return standing{state: nodeOut, reason: fmt.Sprintf("its record is of a cluster of %d nodes, %d are listed", r.N, len(e.peers))}
	case r.State == StateFrozen && !r.EverOK:
		return standing{nodeReadmitting, "it was blank, and is frozen by replica " + r.Token.Replica, true}
	case r.State == StateFrozen:
		return standing{nodeReadmitting, "it is frozen by replica " + r.Token.Replica, true}
	case r.State == StateSuspended:
		return standing{nodeSuspended, r.Reason, true}
	case pr.Refusal != nil:
		return standing{nodeOut, pr.Refusal.Error(), true}
	case r.State != StateOK:
		return standing{nodeOut, fmt.Sprintf("its record says %s: %s", r.State, r.Reason), true}
	case r.Index < 0 || r.Index >= len(e.peers) || r.Index >= len(r.Known):
		return standing{state: nodeOut, reason: fmt.Sprintf("its record names index %d of %d nodes", r.Index, len(e.peers))}
	}
	if known := e.eraOf(r.Index); r.Era < known {
		return standing{nodeOut, fmt.Sprintf("its era %d is over: the others know of era %d", r.Era, known), true}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jumped && sameIndex(p.seenIn, r.term()) && p.seenIn >= r.term() {
		return standing{nodeSuspended, p.status.Reason, false} // it is told so first
	}
	return standing{state: nodeUp}
}

// eraOf is the largest era heard of a node, by its index.
func (e *Engine) eraOf(index int) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.eras[index]
}

// seeReplaced finds out whether a node of an era that is over, whose memory is whole, was replaced by one that is not listed here.
// It is not taken back by itself: replicas with different lists would fight for ever.
func (e *Engine) seeReplaced(st *standing, i int, probes []*Probe) {
	r := probes[i].Record
	if r == nil || probes[i].Refusal != nil || r.State != StateOK {
		return
	}
	if by := e.replacedBy(i, probes); by != (Instance{}) {
		st.state, st.heals = nodeReplaced, false
		st.reason = fmt.Sprintf("%s, which is not listed here, is in use in its place (index %d, era %d)", by.Address, r.Index, by.Era)
	}
}

// replacedBy returns the instance that is in use in place of node i, as the records of the others name it, if that is none of those
// that were probed; zero: there is none.
func (e *Engine) replacedBy(i int, probes []*Probe) Instance {
	r, by := probes[i].Record, Instance{}
	for _, other := range probes {
		if other == nil || other.Record == nil || other.Record.Cluster != r.Cluster {
			continue
		}
		if in := other.Record.InUse; r.Index < len(in) && in[r.Index].Era > max(r.Era, by.Era) {
			by = in[r.Index]
		}
	}
	for j, other := range probes {
		if other == nil || other.Record == nil || other.Record.Instance != by.Nonce {
			continue
		}
		// A server that was another's replica for a while has the other's nonce, in another place and, unless it is node i, under
		// another index.
		if e.peers[j].node.Name() == by.Address || j != i && other.Record.Index == r.Index {
			return Instance{}
		}
	}
	return by
}

// seeDoubts compares the clocks of those that would vote.
func (e *Engine) seeDoubts(probes []*Probe, all []*standing) {
	var good []*peer
	var records []*NodeRecord
	for i, st := range all {
		if st != nil && st.state == nodeUp {
			good, records = append(good, e.peers[i]), append(records, probes[i].Record)
		}
	}
	for i, doubt := range e.checkClocks(good, records) {
		p := good[i]
		p.mu.Lock()
		jumped, reason := p.jumped, p.status.Reason
		p.mu.Unlock()
		if jumped {
			*all[p.pos] = standing{state: nodeSuspended, reason: reason}
		} else if doubt != "" {
			*all[p.pos] = standing{state: nodeSuspended, reason: doubt}
		}
	}
}
