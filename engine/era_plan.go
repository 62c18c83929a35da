package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What the steering does next about nodes that do not vote.
type planKind uint8

const (
	planNothing   planKind = iota
	planReseed             // copy to the nodes that are out what a quorum of the others remembers
	planColdStart          // fewer than a quorum are ok: merge what all have
	planForm               // all have forgotten everything
)

// plan is what is to be done, and how it is told.
type plan struct {
	kind    planKind
	targets []int // of reseed: positions
	next    string
}

// plan decides by what the nodes say. It is made anew at every look.
func (e *Engine) plan(probes []*Probe, all []*standing) plan {
	voting := 0
	var targets []int
	for i, st := range all {
		switch {
		case st == nil:
		case st.state == nodeUp:
			voting++
		case st.heals || st.state == nodeReplaced && e.peers[i].wanted.Load():
			targets = append(targets, i)
		}
	}
	switch {
	case voting >= e.quorum && len(targets) > 0:
		return plan{planReseed, targets, "what the others remember is copied to it, then it votes again"}
	case voting >= e.quorum:
		return plan{}
	}
	return e.planWithoutQuorum(probes, all)
}

// planWithoutQuorum decides whether there can be a cold start.
func (e *Engine) planWithoutQuorum(probes []*Probe, all []*standing) plan {
	given := e.givenUp()
	var missing []string
	blank, foreign := 0, false
	for i, pr := range probes {
		switch st := all[i]; {
		case given[i]:
		case pr == nil || pr.Fatal:
			missing = append(missing, e.peers[i].node.Name())
		case st.state != nodeUp && !st.heals && st.state != nodeSuspended:
			foreign = foreign || pr.Record.Cluster != e.clusterID()
		case !e.remembers(pr.Record):
			blank++
		}
	}
	memories := e.memories(probes)
	decide := "; if they are lost, `permitd nodes recover` goes on without them"
	switch {
	case len(missing) > 0:
		return plan{next: fmt.Sprintf("fewer than %d vote, and what they remember is put together once all answer: %s is missing%s",
			e.quorum, strings.Join(missing, ", "), decide)}
	case foreign:
		return plan{next: "an operator has to see to it: nodes of two clusters are listed"}
	case blank == len(probes):
		return e.planAnew(given != nil)
	case memories < e.quorum && given == nil:
		return plan{next: fmt.Sprintf("only %d of %d nodes have a full memory of the cluster, %d are needed: the others may be in use with another "+
			"list of nodes. `permitd nodes recover` goes on with what is left", memories, len(probes), e.quorum)}
	}
	return plan{kind: planColdStart, next: "what all nodes remember is put together, then all vote again"}
}

// planAnew is for when all nodes answer and none remembers the cluster that this replica has seen: nobody knows any more what
// is held, so the longest lease is waited out, unless an operator knows better.
func (e *Engine) planAnew(decided bool) plan {
	now := e.cfg.Now()
	e.mu.Lock()
	if e.blankSince == 0 {
		e.blankSince, e.blankAt = now, time.Now()
	}
	since, at := e.blankSince, e.blankAt
	e.mu.Unlock()
	longest := e.longestSeen()
	if decided || now-since >= longest {
		return plan{kind: planForm}
	}
	return plan{next: fmt.Sprintf("all nodes have lost their memory; leases may be held until %s, then a new cluster is formed. "+
		"`permitd nodes recover` does it at once", at.Add(longest).UTC().Format(time.DateTime+" MST"))}
}

// memories counts the full memories of the cluster, one an index, less those that the records show as replaced: elsewhere another
// node has that index, and may have granted what is not known here. (An older memory of a node that is the one in use is one.)
func (e *Engine) memories(probes []*Probe) int {
	full := map[int]bool{}
	for i, pr := range probes {
		if pr == nil || !e.remembers(pr.Record) {
			continue
		}
		if by := e.replacedBy(i, probes); by == (Instance{}) || by.Address == e.peers[i].node.Name() {
			full[pr.Record.identity().Index] = true
		}
	}
	return len(full)
}

// remembers reports whether the node has a full memory of this cluster.
func (e *Engine) remembers(r *NodeRecord) bool {
	return r.HasMemory() && r.identity().Cluster == e.clusterID()
}

// identity is who the node is, or would be by what was loaded into it as a whole if it never was anything.
func (r *NodeRecord) identity() Pending {
	if !r.EverOK && r.Pending != nil {
		return *r.Pending
	}
	return Pending{Cluster: r.Cluster, N: r.N, Index: r.Index, Known: r.Known}
}

// indexes decides which index each of the nodes gets that a plan is about, or has. ok: that could be decided. A node that
// remembers the cluster keeps its index, the overtaken one of two with the same aside; a blank one gets the index that the
// records name for its address, else the one left over, several in order of run_id.
func (e *Engine) indexes(probes []*Probe) (index []int, ok bool) {
	n := len(probes)
	index = make([]int, n)
	holder := map[int]int{}
	var without []int
	for i, pr := range probes {
		index[i] = -1
		p := e.peers[i]
		switch h := p.header.Load(); {
		case pr == nil && h != nil:
			holder[h.Index], index[i] = i, h.Index
		case pr != nil && e.remembers(pr.Record):
			x := pr.Record.identity()
			if j, twice := holder[x.Index]; twice && (probes[j] == nil || eraIn(probes[j].Record) >= x.Known[x.Index]) {
				without = append(without, i)
				continue
			} else if twice {
				index[j] = -1
				without = append(without, j)
			}
			holder[x.Index], index[i] = i, x.Index
		default:
			without = append(without, i)
		}
	}
	without = slices.DeleteFunc(without, func(i int) bool { return e.knownByAddress(probes, holder, index, i) })
	if len(without) == 0 {
		return index, true
	}
	var free []int
	for x := range n {
		if _, taken := holder[x]; !taken {
			free = append(free, x)
		}
	}
	for _, i := range without {
		if probes[i] == nil { // it may have any of them
			return index, len(without) == 0
		}
	}
	slices.SortFunc(without, func(i, j int) int { return strings.Compare(probes[i].RunID, probes[j].RunID) })
	for k, i := range without {
		index[i] = free[k]
	}
	return index, true
}

// eraIn is the era that a node is of, by its record.
func eraIn(r *NodeRecord) int64 {
	x := r.identity()
	return x.Known[x.Index]
}

// knownByAddress gives a node without an index the one that the records name for its address, if nobody has it.
func (e *Engine) knownByAddress(probes []*Probe, holder map[int]int, index []int, i int) bool {
	best := Instance{}
	at := -1
	for _, pr := range probes {
		if pr == nil || pr.Record == nil || pr.Record.Cluster != e.clusterID() {
			continue
		}
		for x, in := range pr.Record.InUse {
			if _, taken := holder[x]; !taken && in.Address == e.peers[i].node.Name() && in.Era > best.Era {
				best, at = in, x
			}
		}
	}
	if at >= 0 {
		holder[at], index[i] = i, at
	}
	return at >= 0
}

// givenUp are the positions of the nodes that an operator has given up; nil: no operator has decided anything.
func (e *Engine) givenUp() map[int]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.recovering)
}
