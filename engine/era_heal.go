package engine

import (
	"errors"
	"fmt"
	"time"
)

// How patient replicas are with each other.
const (
	healSpread  = 50 * time.Millisecond  // replicas that see the same loss do not begin at one instant
	healPause   = 100 * time.Millisecond // at least, after a try that failed; then twice as long each time
	healPauseUp = 5 * time.Second        // at most
	patience    = 2 * time.Second        // before another replica's work that stands still is taken over; then twice as long each time
	patienceUp  = 30 * time.Second
)

// Why a try to readmit nodes ended. Each is tried again.
var (
	errOvertaken = errors.New("another replica is at it, or the node was started anew")
	errMoving    = errors.New("the nodes have changed meanwhile")
)

// heal carries a plan out, in a goroutine of its own: one at a time.
func (e *Engine) heal(pl plan) {
	switch pl.kind {
	case planNothing:
		return
	case planReseed:
		var ready []int
		for _, i := range pl.targets {
			if e.peers[i].ready(e.replica, e.cfg.Now()) {
				ready = append(ready, i)
			}
		}
		if pl.targets = ready; len(ready) == 0 {
			return
		}
	case planColdStart, planForm:
		for _, p := range e.peers {
			if !p.ready(e.replica, e.cfg.Now()) {
				return
			}
		}
	}
	if !e.healing.CompareAndSwap(false, true) {
		return
	}
	e.work.Go(func() {
		e.rest(random(healSpread))
		e.carryOut(pl)
		e.healing.Store(false)
		e.reprobe()
	})
}

// carryOut does what was planned, and rests after what failed.
func (e *Engine) carryOut(pl plan) {
	var err error
	switch pl.kind {
	case planReseed:
		for _, i := range pl.targets {
			err = errors.Join(err, e.readmit(e.peers[i]))
		}
	case planColdStart, planForm:
		e.refresh(e.peers)
		probes, _ := e.probes() // what was planned may be done by now
		switch again := e.plan(probes, e.stand(probes)); again.kind {
		case planColdStart:
			err = e.startCold(probes)
		case planForm:
			e.formAnew(probes)
		}
	}
	if err == nil || e.closed() {
		e.failures = 0
		return
	}
	e.failures++
	e.cfg.Log.Warn("nodes could not be readmitted yet", "error", err)
	pause := min(healPause<<min(e.failures, 10), healPauseUp)
	e.rest(pause/2 + random(pause))
}

// refresh reads the records of nodes: what was seen of them may be a second old, and another replica may have finished meanwhile.
func (e *Engine) refresh(nodes []*peer) {
	e.askEach(e.ctx, nodes, func(*peer) Op { return &Commit{} }) // of no token: it commits nothing, and answers with the record
}

// readmit reseeds a node and says so.
func (e *Engine) readmit(p *peer) error {
	e.refresh([]*peer{p})
	probes, _ := e.probes() // what was planned may be done by now
	st := e.stand(probes)[p.pos]
	if st == nil || !st.heals && !(st.state == nodeReplaced && p.wanted.Load()) {
		return nil
	}
	if st.outFor(probes[p.pos]) == "overtaken" && p.outSince() < patience {
		e.rest(healPause) // whoever has marked that its era is over may be about to put another node in its place
		return nil
	}
	indexes, ok := e.indexes(probes)
	if !ok || indexes[p.pos] < 0 {
		return fmt.Errorf("%s: which index it gets is not known before all nodes answer", p.node.Name())
	}
	why := p.reason()
	s := &reseed{e: e, p: p, seen: probes[p.pos], index: indexes[p.pos], start: e.cfg.Now()}
	if err := s.run(); err != nil {
		return fmt.Errorf("%s: %w", p.node.Name(), err)
	}
	p.mu.Lock()
	if p.healed == nil {
		p.healed = map[string]int64{}
	}
	p.healed[st.outFor(probes[p.pos])]++
	p.patience = 0
	p.mu.Unlock()
	p.wanted.Store(false)
	e.cfg.Log.Info("node readmitted", "node", p.node.Name(), "index", s.index, "era", s.era, "was", why,
		"sources", len(s.sources), "took", e.cfg.Now()-s.start)
	return nil
}

// noteTokenLocked watches whether the work of whoever froze the node goes on. p.mu is held.
func (p *peer) noteTokenLocked(r *NodeRecord) {
	now := work{}
	if r != nil {
		now.token = r.Token
		if r.Pending != nil {
			now.pages = r.Pending.Pages
		}
	}
	if now != p.work {
		p.work, p.workSeen = now, p.e.cfg.Now()
	}
}

// work is how far somebody is who has frozen a node.
type work struct {
	token Ballot
	pages int
}

// ready reports whether the node may be frozen by this replica now: nobody else is at it, or what he does has stood still for a while.
func (p *peer) ready(replica string, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.probe.Record
	if !p.probed || r == nil || r.State != StateFrozen || r.Token.Replica == replica {
		return true
	}
	wait := patience << p.patience
	if now-p.workSeen < min(wait, patienceUp) {
		return false
	}
	p.patience = min(p.patience+1, 10)
	return true
}

// outSince is for how long the node has been in the state that it is in.
func (p *peer) outSince() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.status.Since)
}

// reason is what was told last about the node.
func (p *peer) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Reason
}
