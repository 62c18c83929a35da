package engine

import (
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// formable reports whether a new cluster may be formed: every configured node answered, may be used, and none was ever ok
// (quorum.md section 5, Forming).
func formable(probes []*Probe) bool {
	for _, pr := range probes {
		if pr == nil || pr.Fatal || pr.Record != nil && pr.Record.EverOK {
			return false
		}
	}
	return true
}

// form makes one cluster of nodes of which none was ever ok: all are frozen for a token of ours, then all are told who
// they are to be, and only when all have acknowledged that do they become it. Another former with a larger token stops
// us; then the next probe shows what has come of it.
func (e *Engine) form(probes []*Probe) (cluster string, done bool) {
	token := e.largerToken(probes)
	everyone := func(int) bool { return true }
	cluster = newID()
	known := make([]int64, len(e.peers))
	for i := range known {
		known[i] = 1
	}
	done = e.allDo(everyone, func(i int) Op {
		return &Freeze{Token: token, Was: tokenOf(probes[i]), RunID: probes[i].RunID}
	}) && e.allDo(everyone, func(i int) Op {
		return &Load{Token: token, RunID: probes[i].RunID, Cluster: cluster, N: len(e.peers), Index: i, Known: known}
	}) && e.allDo(everyone, func(i int) Op {
		return &Commit{Token: token, RunID: probes[i].RunID}
	})
	if done {
		e.cfg.Log.Info("formed a new cluster", "cluster", cluster, "nodes", len(e.peers))
	} else {
		// Two replicas that start together would else stop each other again and again.
		e.rest(formPauseMin + random(formPauseMin))
	}
	e.reprobe()
	return cluster, done
}

// formAnew forms a new cluster out of nodes that all have forgotten the one this replica has seen, and goes on with it.
func (e *Engine) formAnew(probes []*Probe) {
	if cluster, done := e.form(probes); done {
		e.rejoin(cluster)
	}
}

// follow goes on with another cluster when the nodes have formed one: they have forgotten the one that this replica has seen, as
// all that answer say, a quorum at least.
func (e *Engine) follow(probes []*Probe) {
	other, n := "", 0
	for _, pr := range probes {
		if pr == nil || pr.Record == nil || !pr.Record.EverOK {
			continue
		}
		if pr.Record.Cluster == e.clusterID() || other != "" && pr.Record.Cluster != other {
			return
		}
		other = pr.Record.Cluster
		n++
	}
	if n >= e.quorum && e.settled() {
		e.rejoin(other)
	}
}

// rejoin makes this replica one of another cluster on the same nodes. What it knew of the old one is gone: whoever holds
// something hears that it is lost, and whoever waits is told to come again.
func (e *Engine) rejoin(cluster string) {
	e.mu.Lock()
	e.eras, e.blankSince = make([]int64, len(e.peers)), 0
	e.secretLost = e.secret != nil
	e.mu.Unlock()
	for _, p := range e.peers {
		p.mu.Lock()
		p.voting.Store(false)
		p.header.Store(nil)
		p.clock, p.seenIn, p.jumped = quorum.Interval{}, 0, false
		p.mu.Unlock()
	}
	e.setCluster(cluster)
	for _, s := range e.semaphores() {
		s.locked(func() {
			s.failWaiters(ErrQuorumUnavailable)
			for _, l := range s.leases {
				s.lose(l, "quorum_lost")
			}
			clear(s.releasing)
			s.def, s.ballot = nil, Ballot{}
		})
	}
	for _, p := range e.peers {
		p.mu.Lock()
		p.owed = nil // releases of what is forgotten
		p.mu.Unlock()
	}
}

// formPauseMin is the least pause after a forming or completion that did not come through.
const formPauseMin = 100 * time.Millisecond

// complete finishes a forming that stopped between its commits: a node that was never ok and still holds
// what the forming of our cluster loaded becomes what it was told to be. No lease can be missing on it, as it
// has never answered one. It reports whether there was one.
func (e *Engine) complete(probes []*Probe) bool {
	unfinished := func(i int) bool {
		pr := probes[i]
		return pr != nil && !pr.Fatal && pr.Record != nil && !pr.Record.EverOK && pr.Record.State == StateFrozen &&
			pr.Record.Pending != nil && pr.Record.Pending.Cluster == e.clusterID() && pr.Record.Pending.Pages == 0
	}
	any := false
	for i := range probes {
		any = any || unfinished(i)
	}
	if !any || e.healing.Load() {
		return any
	}
	token := e.largerToken(probes)
	done := e.allDo(unfinished, func(i int) Op {
		// It names no cluster, as a forming does: a node that has become ok meanwhile must not be stopped again.
		return &Freeze{Token: token, Was: tokenOf(probes[i]), RunID: probes[i].RunID}
	}) && e.allDo(unfinished, func(i int) Op {
		was := probes[i].Record.Pending
		return &Load{Token: token, RunID: probes[i].RunID, Cluster: was.Cluster, N: was.N, Index: was.Index, Known: was.Known}
	}) && e.allDo(unfinished, func(i int) Op {
		return &Commit{Token: token, RunID: probes[i].RunID}
	})
	if done {
		e.cfg.Log.Info("completed the forming of the cluster", "cluster", e.clusterID())
	} else {
		e.rest(formPauseMin + random(formPauseMin))
	}
	e.reprobe()
	return true
}

// largerToken returns a token of ours that is larger than any a node has.
func (e *Engine) largerToken(probes []*Probe) Ballot {
	token := Ballot{Counter: 1, Replica: e.replica}
	for _, pr := range probes {
		if pr != nil && pr.Record != nil {
			token.Counter = max(token.Counter, pr.Record.Token.Counter+1)
		}
	}
	return token
}

func tokenOf(pr *Probe) Ballot {
	if pr.Record == nil {
		return Ballot{}
	}
	return pr.Record.Token
}

// allDo asks all chosen nodes, whether they vote or not, and reports whether every one did it.
func (e *Engine) allDo(chosen func(int) bool, op func(int) Op) bool {
	var nodes []*peer
	for i, p := range e.peers {
		if chosen(i) {
			nodes = append(nodes, p)
		}
	}
	answers := e.askEach(e.ctx, nodes, func(p *peer) Op { return op(p.pos) })
	return !slices.ContainsFunc(nodes, func(p *peer) bool { return answers[p.pos] == nil || answers[p.pos].Says != SaysDone })
}

// takeRecord takes over the record that an operation of forming and readmission answers with.
func (p *peer) takeRecord(a *Answer) {
	if a.Err != nil || a.Node == nil {
		return
	}
	p.mu.Lock()
	own := p.probed && a.Node.RunID == p.probe.RunID && a.Node.Replid == p.probe.Replid // else it may be a copy of another's
	p.mu.Unlock()
	if own && a.Node.State == StateOK {
		p.observe(a.Node.term(), a.Time, a.Sent, a.Received)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probed {
		return
	}
	p.noteTokenLocked(a.Node)
	p.outdated = false
	p.probe.Record, p.probe.Time, p.probe.Sent, p.probe.Received = a.Node, a.Time, a.Sent, a.Received
	if own && a.Node.State == StateOK && !p.probe.Fatal {
		p.probe.Refusal = nil
	}
}

// reprobe looks again at once at what the last operations have told.
func (e *Engine) reprobe() { e.steer.poke() }

// rest pauses the steering, unless the engine is closed meanwhile.
func (e *Engine) rest(d time.Duration) {
	select {
	case <-e.ctx.Done():
	case <-time.After(d):
	}
}
