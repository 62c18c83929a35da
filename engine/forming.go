package engine

import (
	"context"
	"time"
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
func (e *Engine) form(probes []*Probe) {
	token := e.largerToken(probes)
	everyone := func(int) bool { return true }
	cluster := newID()
	known := make([]int64, len(e.peers))
	for i := range known {
		known[i] = 1
	}
	done := e.allDo(everyone, func(i int) Op {
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
}

// formPauseMin is the least pause after a forming or completion that did not come through.
const formPauseMin = 100 * time.Millisecond

// complete finishes a forming that stopped between its commits: a node that was never ok and still holds
// what the forming of our cluster loaded becomes what it was told to be. No lease can be missing on it, as it
// has never answered one.
func (e *Engine) complete(probes []*Probe) {
	unfinished := func(i int) bool {
		pr := probes[i]
		return pr != nil && !pr.Fatal && pr.Record != nil && !pr.Record.EverOK && pr.Record.State == StateFrozen &&
			pr.Record.Pending != nil && pr.Record.Pending.Cluster == e.clusterID()
	}
	any := false
	for i := range probes {
		any = any || unfinished(i)
	}
	if !any {
		return
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
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.NodeTimeout)
	defer cancel()
	heard := make(chan *Answer, len(e.peers))
	asked := 0
	for i, p := range e.peers {
		if chosen(i) {
			asked++
			p.node.Send(&Call{Header: &Header{}, Op: op(i), Done: func(a *Answer) {
				p.note(a)
				heard <- a
			}})
		}
	}
	all := true
	for range asked {
		select {
		case <-ctx.Done():
			return false
		case a := <-heard:
			all = all && a.Err == nil && a.Says == SaysDone
		}
	}
	return all
}

// note takes over the record that an operation of forming answers with.
func (p *peer) note(a *Answer) {
	if a.Err != nil || a.Node == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.probed {
		return
	}
	p.probe.Record = a.Node
	if a.Node.State == StateOK && !p.probe.Fatal && a.Node.RunID == p.probe.RunID && a.Node.Replid == p.probe.Replid {
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
