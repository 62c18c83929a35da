package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// owedMax bounds the releases that wait for a node that is away; beyond it the oldest are left to their TTL.
const owedMax = 100_000

// Errors of an answer that does not count.
var (
	errJumped = errors.New("the node's clock jumped")
	errBehind = errors.New("the node and the coordinator do not agree on the eras")

	errForgotten = errors.New("the node has lost the memory out of which it said that")
)

// peer is one node as this replica sees it.
type peer struct {
	e    *Engine
	pos  int // in Config.Nodes and in every slice of ballots
	node Node

	voting atomic.Bool            // it is asked, and its answers count
	wanted atomic.Bool            // an operator wants it back, though it was replaced
	header atomic.Pointer[Header] // set before voting is

	mu       sync.Mutex // guards what follows; held briefly, never while calling out
	clock    quorum.Interval
	seenIn   int64 // the term in which the clock was seen so: a later one may have another clock
	probe    Probe // the last one
	probed   bool  // there was one on this connection
	outdated bool  // the node has since said that it is out
	heard    bool  // there was one, or a failure to connect, since the start
	status   NodeStatus
	jumped   bool // its clock jumped in seenIn: it does not count any more
	work     work // of whoever froze it, and when that last went on
	workSeen time.Duration
	patience int              // how often his work was taken over
	healed   map[string]int64 // how often it was readmitted by this replica, by what it was out for
	owed     []*debt
	dropped  int // of owed, since they were too many
}

// debt is a release or give-back that a node has to hear.
type debt struct {
	call  func() *Call  // builds it anew, with a fresh At
	until time.Duration // by the coordinator's clock; then the lease is over anyway
}

// call builds a request to the node. done hears the answer, with Err set when it does not count.
func (p *peer) call(op Op, at int64, fill func() Placement, done func(*Answer)) *Call {
	c := &Call{Header: p.header.Load(), At: at, Op: op, Fill: fill}
	c.Done = func(a *Answer) {
		p.receive(a, c.Header)
		done(a)
	}
	return c
}

// askAgain is call, but an answer stale or late is asked once more, with what was learned and At staying, as long as
// undecided says so; after that the node gave no answer.
func (p *peer) askAgain(op Op, at int64, fill func() Placement, undecided func() bool, done func(*Answer)) *Call {
	return p.call(op, at, fill, func(a *Answer) {
		if a.Err == nil || !errors.Is(a.Err, errBehind) || !undecided() {
			done(a)
			return
		}
		p.node.Send(p.call(op, at, fill, done))
	})
}

// receive takes in what every answer tells: the node's clock and its eras. It sets Err on an answer that is none.
func (p *peer) receive(a *Answer, h *Header) {
	if a.Err != nil {
		return
	}
	a.Term = h.term()
	if a.Term != p.term() {
		a.Err = errForgotten
		return
	}
	if p.observe(a.Term, a.Time, a.Sent, a.Received) {
		a.Err = errJumped
		return
	}
	if a.Known != nil {
		p.e.learn(a.Known)
	}
	switch a.Says {
	case SaysOut:
		p.turnedAway(a)
		a.Err = fmt.Errorf("%w: %s %s", ErrOut, a.State, a.Reason)
	case SaysStale, SaysLate:
		a.Err = fmt.Errorf("%w (%s)", errBehind, a.Says)
	}
}

// nodeTime estimates the node's clock at the coordinator's time t, in µs: the lower end of what it may be, so
// that nothing is taken for younger than it is.
func (p *peer) nodeTime(t time.Duration) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64((t + p.clock.Widened(t).Lo) / time.Microsecond)
}

// clockAt returns what is known of the node's clock at the coordinator's time t.
func (p *peer) clockAt(t time.Duration) quorum.Interval {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock.Widened(t)
}

// setOut stops asking the node until its next probe says otherwise.
func (p *peer) setOut(reason string) { p.setAside(nodeOut, reason) }

// turnedAway stops asking the node, since it has said that it is out. What it looked like before is not true any more.
func (p *peer) turnedAway(a *Answer) {
	p.mu.Lock()
	p.outdated = true
	p.mu.Unlock()
	switch {
	case a.State == "":
		p.setOut("its memory is gone")
	case a.Reason == "":
		p.setOut("its record says " + a.State)
	default:
		p.setOut(fmt.Sprintf("its record says %s: %s", a.State, a.Reason))
	}
}

// setAside does so in another state than out.
func (p *peer) setAside(state, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.voting.Store(false)
	p.setStatusLocked(state, reason)
}

// setStatusLocked notes and logs a change of state. p.mu is held.
func (p *peer) setStatusLocked(state, reason string) {
	if p.status.State == state && p.status.Reason == reason {
		return
	}
	if p.status.State != state {
		p.status.Since = time.Now()
	}
	p.status.State, p.status.Reason = state, reason
	log := p.e.cfg.Log.Warn
	if state == nodeUp || state == nodeOut && p.e.clusterID() == "" { // at the first start nodes are out until they are formed
		log = p.e.cfg.Log.Info
	}
	attrs := []any{"node", p.status.Name}
	if p.status.Index >= 0 {
		attrs = append(attrs, "index", p.status.Index)
	}
	if reason != "" {
		attrs = append(attrs, "reason", reason)
	}
	log("node "+state, attrs...)
}

// Probed implements NodeEvents.
func (p *peer) Probed(pr Probe, _ bool) {
	r := pr.Record
	if r != nil && r.Cluster != "" && r.Cluster == p.e.clusterID() {
		p.e.learn(r.Known)
		p.e.heardTTL(r.Longest)
		if pr.Refusal == nil && r.State == StateOK {
			p.observe(r.term(), pr.Time, pr.Sent, pr.Received)
		}
	}
	warning := p.e.warningOf(&pr)
	p.mu.Lock()
	news := warning != "" && warning != p.status.Warning
	p.status.Warning = warning
	p.noteTokenLocked(pr.Record)
	p.probe, p.probed, p.heard, p.outdated = pr, true, true, false
	p.status.Latency = pr.Received - pr.Sent
	p.status.ClockOffset = time.Duration(pr.Time)*time.Microsecond - time.Duration(time.Now().UnixNano()) + (p.e.cfg.Now() - (pr.Sent+pr.Received)/2)
	p.mu.Unlock()
	if news {
		p.e.cfg.Log.Warn("a node is not as it should be", "node", p.node.Name(), "reason", warning)
	}
	p.e.steer.poke()
}

// warningOf says what is wrong with a node that keeps nothing on disk: when all nodes have forgotten, a replica that has just started
// cannot know how long leases may still be held.
func (e *Engine) warningOf(pr *Probe) string {
	what := ""
	switch {
	case pr.Full:
		return "its memory is used up: it grants nothing and takes no change; give it more (maxmemory), or let leases end"
	case pr.Durable:
		return ""
	case e.cfg.DurableNodes:
		what = "the nodes are said to be durable, but this one keeps nothing: it has no append-only file"
	case pr.Advice == "":
		return ""
	default:
		what = "it has no append-only file: it may lose what it acknowledged when it is restarted"
	}
	if pr.Advice != "" {
		what += "; set " + pr.Advice
	}
	return what
}

// Down implements NodeEvents.
func (p *peer) Down(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.voting.Store(false)
	p.probed, p.heard = false, true
	p.setStatusLocked(nodeDown, err.Error())
	p.e.steer.poke()
}

// Woken implements NodeEvents.
func (p *peer) Woken(w Wake) { p.e.woken(p, w) }

// owe keeps a debt for when the node can hear it.
func (p *peer) owe(d *debt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.owed) >= owedMax {
		p.owed = p.owed[1:]
		p.dropped++
	}
	p.owed = append(p.owed, d)
}

// pay sends what is owed, if the node can hear it. It is called by the engine's tick and after a reconnect.
func (p *peer) pay(now time.Duration) {
	if !p.voting.Load() {
		return
	}
	p.mu.Lock()
	owed := p.owed
	p.owed = nil
	p.mu.Unlock()
	calls := make([]*Call, 0, len(owed))
	for _, d := range owed {
		if now < d.until {
			calls = append(calls, d.call())
		}
	}
	if len(calls) > 0 {
		p.node.Send(calls...)
	}
}
