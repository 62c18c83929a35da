package enginetest

import (
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
)

// probing is the look that a connection takes at its server: at the connect, each second, and after an answer that hints at a
// restart.
type probing struct {
	next    time.Time // when the next one starts; zero while one is under way
	started time.Time
	sent    time.Duration
	runAt   time.Time
	doneAt  time.Time
	seen    *engine.Probe // nil: the server has not answered yet
}

// startProbe sends a probe.
func (n *Node) startProbe() {
	now := time.Now()
	n.conn.probe = probing{started: now, sent: n.now(), runAt: now.Add(n.dice.latency())}
}

// hurryProbe lets the next probe start now, if none is under way.
func (n *Node) hurryProbe() {
	if !n.conn.probe.next.IsZero() {
		n.conn.probe.next = time.Now()
	}
}

// considerProbe names the next step of the probe.
func (n *Node) considerProbe(consider func(time.Time, func()), serving bool) {
	p := &n.conn.probe
	switch {
	case !p.next.IsZero():
		consider(p.next, n.startProbe)
		return
	case p.seen != nil:
		consider(p.doneAt, n.endProbe)
	case serving:
		consider(p.runAt, func() {
			seen := n.server.look()
			p.seen, p.doneAt = &seen, time.Now().Add(n.dice.latency())
		})
	}
	consider(p.started.Add(n.dice.faults.timeout()), func() { n.breakOff(engine.ErrTimeout) })
}

// endProbe tells what was seen.
func (n *Node) endProbe() {
	c := n.conn
	seen := *c.probe.seen
	seen.Sent, seen.Received = c.probe.sent, n.now()
	first := !c.ready
	c.ready, c.refusal = true, seen.Refusal
	c.probe = probing{next: time.Now().Add(probePause)}
	n.tell(func(e engine.NodeEvents) { e.Probed(seen, first) })
}

// wake puts a wake on its way to the replica, unless it is lost.
func (n *Node) wake(wake engine.Wake) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.kick()
	if n.conn == nil || n.wakeDice.hits(n.wakeDice.faults.LoseWake) {
		return
	}
	m := &Message{
		Wake: &wake, node: n, name: wakeOp, words: []string{wake.Semaphore, wake.Order.Replica},
		runAt: time.Now().Add(n.wakeDice.latency()),
	}
	n.note("woke", m, nil)
	n.wakes = append(n.wakes, m)
	n.sortWakes()
	n.keep(m)
}

func (n *Node) sortWakes() {
	slices.SortStableFunc(n.wakes, func(a, b *Message) int { return a.runAt.Compare(b.runAt) })
}

// deliverWake hands the i-th wake to the replica.
func (n *Node) deliverWake(i int) {
	m := n.wakes[i]
	n.wakes = slices.Delete(n.wakes, i, i+1)
	m.answered = true
	n.forget(m)
	n.tell(func(e engine.NodeEvents) { e.Woken(*m.Wake) })
}

// loseWake takes a wake off its way.
func (n *Node) loseWake(m *Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.lost = true
	n.wakes = slices.DeleteFunc(n.wakes, func(other *Message) bool { return other == m })
	n.forget(m)
}
