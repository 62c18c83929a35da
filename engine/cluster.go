package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// A start that finds a mistake which waiting does not mend.
var ErrConfiguration = errors.New("the nodes do not fit together")

// steering is the goroutine that looks at all nodes together whenever one was probed or lost: which of them count, whether
// a new cluster is to be formed, whether what they say fits together.
type steering struct {
	wake chan struct{}
}

// poke asks for another look.
func (s *steering) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// steerLoop runs until the engine is closed.
func (e *Engine) steerLoop() {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.steer.wake:
		}
		e.look()
	}
}

// look decides which nodes vote, and forms or completes the cluster where that is called for.
func (e *Engine) look() {
	probes, heard := e.probes()
	if err := e.misfit(probes); err != nil {
		for _, p := range e.peers { // some may vote already, as they were heard of first
			p.setOut(err.Error())
		}
		e.setFatal(err)
		return
	}
	if heard == len(e.peers) {
		defer e.settle()
	}
	e.adopt(probes)
	if e.clusterID() == "" {
		if formable(probes) {
			e.form(probes)
		}
		return
	}
	e.follow(probes)
	all := e.stand(probes)
	pl := e.plan(probes, all)
	voting := e.count(probes, all, pl)
	if !e.complete(probes) {
		e.heal(pl)
	}
	e.suspendJumped(probes)
	if voting >= e.quorum {
		e.recovered()
		e.learnSecret()
		e.tellNodes(probes)
	}
}

// probes are the last looks at the nodes, by position, nil for those that can not be reached; and how many were heard of, be it
// that they can not.
func (e *Engine) probes() (probes []*Probe, heard int) {
	probes = make([]*Probe, len(e.peers))
	for i, p := range e.peers {
		p.mu.Lock()
		if p.probed && !p.outdated {
			pr := p.probe
			probes[i] = &pr
		}
		if p.heard {
			heard++
		}
		p.mu.Unlock()
	}
	return probes, heard
}

// misfit tells what in the nodes' answers no waiting mends. It is looked for at the start, until every node has been
// heard of; what comes later only matters at the node concerned.
func (e *Engine) misfit(probes []*Probe) error {
	if e.settled() {
		return nil
	}
	servers := map[string]int{}
	clusters := map[string]int{}
	for i, pr := range probes {
		if pr == nil {
			continue
		}
		if pr.Fatal {
			return fmt.Errorf("%w: %s: %w", ErrConfiguration, e.peers[i].node.Name(), pr.Refusal)
		}
		if j, twice := servers[pr.RunID]; twice && pr.RunID != "" {
			return fmt.Errorf("%w: %s and %s are the same server (run_id %s)", ErrConfiguration,
				e.peers[j].node.Name(), e.peers[i].node.Name(), pr.RunID)
		}
		servers[pr.RunID] = i
		if pr.Record == nil || pr.Record.Cluster == "" {
			continue
		}
		clusters[pr.Record.Cluster] = i
		if pr.Record.N != len(e.peers) {
			return fmt.Errorf("%w: %s belongs to a cluster of %d nodes, %d are listed", ErrConfiguration,
				e.peers[i].node.Name(), pr.Record.N, len(e.peers))
		}
	}
	if len(clusters) > 1 {
		var told []string
		for id, i := range clusters {
			told = append(told, fmt.Sprintf("%s belongs to cluster %s", e.peers[i].node.Name(), id))
		}
		slices.Sort(told)
		return fmt.Errorf("%w: %s", ErrConfiguration, strings.Join(told, "; "))
	}
	return nil
}

// adopt takes up the cluster whose record a node has that was ever ok.
func (e *Engine) adopt(probes []*Probe) {
	if e.clusterID() != "" {
		return
	}
	for _, pr := range probes {
		if pr != nil && pr.Record != nil && pr.Record.EverOK {
			e.setCluster(pr.Record.Cluster)
			return
		}
	}
}

// count lets those nodes vote that stand well, tells of the others what will become of them, and returns how many vote.
func (e *Engine) count(probes []*Probe, all []*standing, pl plan) int {
	voting := 0
	for i, p := range e.peers {
		switch st := all[i]; {
		case st == nil:
		case st.state == nodeUp:
			p.observe(probes[i].Record.term(), probes[i].Time, probes[i].Sent, probes[i].Received) // when it was probed, the cluster may not have been known
			p.setUp(probes[i].Record)
			voting++
		case pl.next != "" && (st.heals || st.state == nodeSuspended):
			p.setAside(st.state, st.reason+"; "+pl.next)
		case st.state == nodeReplaced:
			p.setAside(st.state, st.reason+"; `permitd nodes readmit` takes it back")
		default:
			p.setAside(st.state, st.reason)
		}
	}
	return voting
}

// setUp lets a node vote under its record. One that was away hears at once what it has missed of the lines and what it is owed.
func (p *peer) setUp(r *NodeRecord) {
	if p.vote(r) {
		p.e.reconnected(p)
		p.pay(p.e.cfg.Now())
	}
}

// vote lets the node vote and reports whether it did not before.
func (p *peer) vote(r *NodeRecord) bool {
	known := p.e.learn(r.Known)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jumped || !p.probed || p.seenIn != r.term() || !p.clock.Known {
		return false // its clock is not known yet as it goes since it was readmitted
	}
	if h := p.header.Load(); h == nil || h.Index != r.Index || h.Cluster != r.Cluster || !slices.Equal(h.Known, known) {
		p.header.Store(&Header{Cluster: r.Cluster, Index: r.Index, Known: known})
	}
	p.status.Index, p.status.Era = r.Index, r.Era
	p.setStatusLocked(nodeUp, "")
	return !p.voting.Swap(true)
}

// clusterID is the cluster this engine serves; "" before it is known.
func (e *Engine) clusterID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cluster
}

func (e *Engine) setCluster(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cluster = id
	e.cfg.Log.Info("serving cluster", "cluster", id, "nodes", len(e.peers), "quorum", e.quorum)
}

// settled reports whether every node has been heard of, be it that it can not be reached.
func (e *Engine) settled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allHeard
}

func (e *Engine) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.allHeard = true
	e.changedLocked()
}

func (e *Engine) setFatal(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fatal == nil {
		e.fatal = err
		e.cfg.Log.Error("can not serve", "error", err)
	}
	e.changedLocked()
}

// changedLocked wakes those who wait for Ready. e.mu is held.
func (e *Engine) changedLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Ready waits until a quorum of the nodes votes or ctx ends. An error that wraps ErrConfiguration (nodes of two
// clusters, the same server listed twice, …) is not mended by waiting; any other says what is missing.
func (e *Engine) Ready(ctx context.Context) error {
	for {
		e.mu.Lock()
		fatal, ready, changed := e.fatal, e.secret != nil && e.allHeard, e.changed
		e.mu.Unlock()
		if fatal != nil {
			return fatal
		}
		if ready && e.voting() >= e.quorum {
			return nil
		}
		if ctx.Err() != nil {
			return e.missing()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(readyPoll):
		}
	}
}

// readyPoll is how often Ready looks by itself.
const readyPoll = 50 * time.Millisecond

// voting counts the nodes that vote.
func (e *Engine) voting() int {
	n := 0
	for _, p := range e.peers {
		if p.voting.Load() {
			n++
		}
	}
	return n
}

// missing says which nodes do not vote, and why.
func (e *Engine) missing() error {
	var told []string
	_, nodes := e.Nodes()
	for _, n := range nodes {
		if n.State != nodeUp {
			told = append(told, fmt.Sprintf("%s is %s: %s", n.Name, n.State, n.Reason))
		}
	}
	return fmt.Errorf("%w: %d of %d vote, %d are needed; %s", ErrQuorumUnavailable, e.voting(), len(e.peers), e.quorum,
		strings.Join(told, "; "))
}

// Nodes tells the state of every node, in the order of Config.Nodes, and the quorum.
func (e *Engine) Nodes() (need int, nodes []NodeStatus) {
	for _, p := range e.peers {
		p.mu.Lock()
		n := p.status
		if left := p.restLeftLocked(); left > 0 {
			n.GrantingAt = time.Now().Add(left).Truncate(time.Second)
		}
		p.mu.Unlock()
		nodes = append(nodes, n)
	}
	relateClocks(nodes)
	return e.quorum, nodes
}

// restLeftLocked is how long a node grants nothing yet after a cold start. p.mu is held.
func (p *peer) restLeftLocked() time.Duration {
	r := p.probe.Record
	if !p.voting.Load() || r == nil || r.WaitEnd == 0 {
		return 0
	}
	now := p.e.cfg.Now()
	return time.Duration(r.WaitEnd)*time.Microsecond - now - p.clock.Widened(now).Lo
}

// relateClocks makes the offsets, which are to this machine's clock, those to the median of the nodes' clocks: only how they
// differ among themselves matters.
func relateClocks(nodes []NodeStatus) {
	var offsets []time.Duration
	for _, n := range nodes {
		if n.ClockOffset != 0 {
			offsets = append(offsets, n.ClockOffset)
		}
	}
	if len(offsets) == 0 {
		return
	}
	slices.Sort(offsets)
	for i := range nodes {
		if nodes[i].ClockOffset != 0 {
			nodes[i].ClockOffset -= offsets[len(offsets)/2]
		}
	}
}

// gather asks every voting node what op says (nil: nothing) and waits until all have answered, enough says that the
// answers so far will do, or ctx ends. The answers are in the order of the nodes; nil stands for none that counts.
func (e *Engine) gather(ctx context.Context, op func(*peer) Op, enough func([]*Answer) bool) []*Answer {
	type said struct {
		pos int
		a   *Answer
	}
	answers := make([]*Answer, len(e.peers))
	heard := make(chan said, len(e.peers))
	start, asked := e.cfg.Now(), 0
	ctx, cancel := context.WithTimeout(ctx, e.cfg.NodeTimeout)
	defer cancel()
	for _, p := range e.peers {
		if !p.voting.Load() {
			continue
		}
		what := op(p)
		if what == nil {
			continue
		}
		asked++
		live := func() bool { return ctx.Err() == nil }
		p.node.Send(p.askAgain(what, p.nodeTime(start), nil, live, func(a *Answer) { heard <- said{p.pos, a} }))
	}
	for range asked {
		select {
		case <-ctx.Done():
			return answers
		case h := <-heard:
			e.current(answers)
			if h.a.Err == nil {
				answers[h.pos] = h.a
				if enough != nil && enough(answers) {
					return answers
				}
			}
		}
	}
	return answers
}

// answered counts the answers that are there.
func answered(answers []*Answer) int {
	n := 0
	for _, a := range answers {
		if a != nil {
			n++
		}
	}
	return n
}

// quorumOf returns an enough for gather: Q answers of which want holds.
func (e *Engine) quorumOf(want func(*Answer) bool) func([]*Answer) bool {
	return func(answers []*Answer) bool {
		n := 0
		for _, a := range answers {
			if a != nil && want(a) {
				n++
			}
		}
		return n >= quorum.Size(len(answers))
	}
}
