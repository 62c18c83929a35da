package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
)

const (
	redialPause = 100 * time.Millisecond // after an attempt to connect that failed
	probePause  = time.Second
)

// connection is one connection of a Node. All methods here need Node.mu.
type connection struct {
	flight     []*Message // written and not answered, in that order
	batch      int        // with OneBatch: how many more may be written before all is answered
	lastRun    time.Time  // when the last message written will be executed: none overtakes it
	lastAnswer time.Time
	cutAt      time.Time // when the connection will break; zero: not known to
	ready      bool      // the first probe was answered
	refusal    error     // of the last probe
	probe      probing
}

// unexecuted returns the first message that the server has not executed, nil if there is none.
func (c *connection) unexecuted() *Message {
	for _, m := range c.flight {
		if m.answer == nil {
			return m
		}
	}
	return nil
}

// dial makes a connection, or plans to try again.
func (n *Node) dial() {
	if n.unplugged || !n.server.Answers() {
		n.redial = time.Now().Add(redialPause)
		n.tell(func(e engine.NodeEvents) { e.Down(fmt.Errorf("%w: connection refused", engine.ErrDown)) })
		n.refuseQueue()
		return
	}
	n.conn = &connection{}
	n.startProbe()
}

// refuseQueue fails what cannot be sent.
func (n *Node) refuseQueue() {
	for _, call := range n.queue {
		n.finish(call, &engine.Answer{Err: engine.ErrDown})
	}
	n.queue = nil
}

// writable takes the next call that may be written from the queue; nil if there is none. What cannot be sent fails.
func (n *Node) writable() *engine.Call {
	c := n.conn
	if c == nil || !c.ready {
		n.refuseQueue()
		return nil
	}
	if len(n.queue) == 0 {
		return nil
	}
	if n.dice.faults.OneBatch && c.batch == 0 {
		if len(c.flight) > 0 {
			return nil
		}
		c.batch = len(n.queue)
	}
	call := n.queue[0]
	n.queue = slices.Delete(n.queue, 0, 1)
	c.batch = max(0, c.batch-1)
	if c.refusal != nil && !engine.ForNodesOut(call.Op) {
		n.finish(call, &engine.Answer{Err: fmt.Errorf("%w: %w", engine.ErrOut, c.refusal)})
		return nil
	}
	return call
}

// write puts the call on the connection. Called without Node.mu, because Fill takes the engine's locks.
func (n *Node) write(call *engine.Call) {
	m := &Message{
		Op: call.Op, Header: call.Header, At: call.At,
		node: n, name: engine.OpName(call.Op), words: words(call.Op), call: call,
	}
	if call.Fill != nil {
		m.Placement = call.Fill()
	}
	m.sent = n.now()

	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.conn
	if c == nil {
		n.finish(call, &engine.Answer{Err: engine.ErrLost})
		return
	}
	m.conn, m.written = c, time.Now()
	m.runAt = later(c.lastRun, m.written.Add(n.dice.latency()))
	c.lastRun = m.runAt
	c.flight = append(c.flight, m)
	if n.dice.hits(n.dice.faults.Cut) && c.cutAt.IsZero() {
		c.cutAt = m.written.Add(n.dice.within(2 * n.dice.faults.LatencyMax))
	}
	n.keep(m)
	n.note("wrote", m, nil)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runMessage lets the server execute m, and plans the answer and what else the dice want. The wakes are the caller's to publish.
func (n *Node) runMessage(m *Message) []engine.Wake {
	answer, wakes := n.server.apply(m.Header, m.At, m.Placement, m.Op)
	m.answer = answer
	m.answerAt = later(m.conn.lastAnswer, time.Now().Add(n.dice.latency()))
	m.conn.lastAnswer = m.answerAt
	n.note("ran", m, answer)
	if n.dice.hits(n.dice.faults.Repeat) {
		n.runLater(m, "repeated", n.dice.within(n.dice.faults.RepeatMax))
	}
	return wakes
}

// runLater lets the server execute m once more, apart from any connection, if it is there by then.
func (n *Node) runLater(m *Message, what string, after time.Duration) {
	time.AfterFunc(after, func() {
		if n.server.Answers() {
			n.note(what, m, n.server.Execute(m.Header, m.At, m.Placement, m.Op))
		}
	})
}

// answerFirst hands the first answer of the connection to its caller.
func (n *Node) answerFirst() {
	c := n.conn
	m := c.flight[0]
	c.flight = slices.Delete(c.flight, 0, 1)
	m.answered = true
	n.forget(m)
	if m.answer.Says == engine.SaysOut {
		n.hurryProbe() // the record may have changed: look before more is sent
	}
	n.todo = append(n.todo, func() {
		answer := *m.answer
		answer.Sent, answer.Received = m.sent, n.now()
		n.note("answered", m, &answer)
		m.call.Done(&answer)
	})
}

// breakOff loses the connection by itself; a new one is tried.
func (n *Node) breakOff(err error) {
	n.lose(err, false)
	n.redial = time.Now().Add(n.dice.within(n.dice.faults.ReconnectMax))
}

// lose ends the connection with err: nothing under way is answered any more. What was not executed stays in the buffer of the closed
// socket, for the dice or the test to execute, unless the server is gone.
func (n *Node) lose(err error, serverGone bool) {
	c := n.conn
	n.conn = nil
	for _, m := range c.flight {
		m.lost = true
		n.forget(m)
		if m.answer == nil && !m.dropped && !serverGone && n.dice.hits(n.dice.faults.LateRun) {
			n.runLater(m, "ran after its connection", n.dice.within(n.dice.faults.LateRunMax))
		}
		n.finish(m.call, &engine.Answer{Err: err, Sent: m.sent})
	}
	for _, m := range n.wakes {
		m.lost = true
		n.forget(m)
	}
	n.wakes = nil
	n.note("lost the connection: "+err.Error(), nil, nil)
	n.tell(func(e engine.NodeEvents) { e.Down(err) })
}

// serverDied ends the connection because the server did.
func (n *Node) serverDied() {
	n.mu.Lock()
	if n.conn != nil {
		n.lose(engine.ErrLost, true)
		n.redial = time.Now().Add(redialPause)
	}
	n.mu.Unlock()
	n.kick()
}
