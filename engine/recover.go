package engine

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// ErrNotNeeded: there is nothing that an operator would have to decide.
var ErrNotNeeded = errors.New("the nodes need no such help")

// Recover goes on without nodes that are lost, given by their positions in Config.Nodes: what the others remember is put together, and
// they vote again, once each of them answers. It returns at once, with what that gives up; Nodes tells how it goes. With dry it only tells.
// Errors: ErrNotNeeded, *InvalidError.
func (e *Engine) Recover(without []int, dry bool, by string) (gives []string, err error) {
	if e.voting() >= e.quorum {
		return nil, fmt.Errorf("%w: %d of %d vote", ErrNotNeeded, e.voting(), len(e.peers))
	}
	given := map[int]bool{}
	for _, i := range without {
		if i < 0 || i >= len(e.peers) {
			return nil, &InvalidError{Field: "without", Detail: fmt.Sprintf("there is no node %d", i)}
		}
		given[i] = true
	}
	if len(e.peers)-len(given) < e.quorum {
		return nil, &InvalidError{Field: "without", Detail: fmt.Sprintf("%d nodes must be left, which are a quorum", e.quorum)}
	}
	gives = e.recoverGives(given)
	if dry {
		return gives, nil
	}
	e.mu.Lock()
	e.recovering = given
	e.mu.Unlock()
	e.cfg.Log.Warn("an operator has the nodes recovered", "by", by, "gives_up", strings.Join(gives, "; "))
	e.steer.poke()
	return gives, nil
}

// recoverGives tells what a recovery without some nodes gives up.
func (e *Engine) recoverGives(given map[int]bool) []string {
	memories := 0
	var gives []string
	for i, p := range e.peers {
		p.mu.Lock()
		r, probed, name := p.probe.Record, p.probed, p.node.Name()
		p.mu.Unlock()
		switch {
		case given[i]:
			gives = append(gives, "what only "+name+" remembers; if it is in use with another list of nodes, permits may be granted twice")
		case !probed:
			gives = append(gives, "nothing yet of "+name+": it does not answer, and is waited for")
		case e.remembers(r):
			memories++
		default:
			gives = append(gives, "nothing of "+name+": it has lost its memory already")
		}
	}
	if memories == 0 && len(given) == 0 && len(gives) == len(e.peers) {
		return append(gives, "all leases: whoever holds one may still do so, and its permits are granted again")
	}
	if memories < e.quorum {
		gives = append(gives, fmt.Sprintf("leases and definitions that only the other nodes knew (full memories left: %d, needed to be sure: %d). "+
			"No semaphore grants anything before the longest lease seen on it has ended, a minute at least", memories, e.quorum))
	}
	return gives
}

// recovered forgets what an operator has decided, once it is done.
func (e *Engine) recovered() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recovering, e.blankSince = nil, 0
}

// Readmit takes a node back, given by its position in Config.Nodes, that was replaced: the instance that is in use in its place is
// not counted any more by whoever lists that one. It returns at once, with what that gives up; with dry it only tells.
// Errors: ErrNotNeeded, *InvalidError.
func (e *Engine) Readmit(position int, dry bool, by string) (gives []string, err error) {
	if position < 0 || position >= len(e.peers) {
		return nil, &InvalidError{Field: "index", Detail: fmt.Sprintf("there is no node %d", position)}
	}
	_, nodes := e.Nodes()
	p, n := e.peers[position], nodes[position]
	if n.State != nodeReplaced {
		return nil, fmt.Errorf("%w: %s is %s, not replaced", ErrNotNeeded, n.Name, n.State)
	}
	gives = []string{"what " + n.Name + " remembers; it gets what the others do", "the node in its place, for replicas that list that one: " + n.Reason}
	if dry {
		return gives, nil
	}
	p.wanted.Store(true)
	e.cfg.Log.Warn("an operator has a node readmitted", "node", n.Name, "by", by)
	e.steer.poke()
	return gives, nil
}

// ColdStarts is how many cold starts this replica has carried out.
func (e *Engine) ColdStarts() int64 { return e.coldStarts.Load() }

// Readmitted is how often this replica has readmitted each node, by position and by what it was out for: blank, restarted, suspended
// (its clock jumped), overtaken (its era was over), unfinished (somebody else had begun), replaced.
func (e *Engine) Readmitted() []map[string]int64 {
	counts := make([]map[string]int64, len(e.peers))
	for i, p := range e.peers {
		p.mu.Lock()
		counts[i] = maps.Clone(p.healed)
		p.mu.Unlock()
	}
	return counts
}

// outFor is what a node is out for, in a word.
func (st *standing) outFor(pr *Probe) string {
	switch {
	case st.state == nodeSuspended, st.state == nodeReplaced:
		return st.state
	case pr.Record == nil:
		return "blank"
	case st.state == nodeReadmitting:
		return "unfinished"
	case pr.Refusal != nil:
		return "restarted" // or another's replica in between
	}
	return "overtaken"
}
