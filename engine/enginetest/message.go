package enginetest

import (
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

// Message is a call, or a wake, on its way. Its methods are for the test's goroutine; each returns when the bubble has
// come to rest, so the coordinator has seen what there was to see.
type Message struct {
	Op        engine.Op
	Header    *engine.Header
	At        int64
	Placement engine.Placement
	Wake      *engine.Wake // of a wake; then the rest is zero

	node  *Node
	name  string // what selectors call it
	words []string
	call  *engine.Call
	conn  *connection // it was written on; nil of a wake
	sent  time.Duration

	// What follows is guarded by node.mu.
	written    time.Time
	runAt      time.Time // when it is executed, unless held
	answerAt   time.Time // when the answer arrives, unless held
	heldRun    bool
	heldAnswer bool
	taken      bool // handed out by Next
	dropped    bool
	lost       bool // its connection is gone, or the wake was dropped
	answered   bool
	answer     *engine.Answer // nil: not executed yet
}

// Lease returns the lease that the message is about, "" if about none.
func (m *Message) Lease() string {
	if m.Op == nil {
		return ""
	}
	return leaseOf(m.Op)
}

// Execute lets the server execute the call now, and holds the answer. On a connection that is gone, this is what was left in
// its buffer; the answer goes nowhere. A call that was written earlier on the same live connection and has not been executed
// is a mistake of the test: lanes keep their order.
func (m *Message) Execute() *engine.Answer {
	m.node.t.Helper()
	answer := m.execute()
	m.settle()
	return answer
}

func (m *Message) execute() *engine.Answer {
	n := m.node
	n.t.Helper()
	n.mu.Lock()
	problem := ""
	switch {
	case m.Wake != nil:
		problem = "a wake is not executed but delivered"
	case m.dropped:
		problem = "it was dropped"
	case m.answer != nil:
		problem = "it was executed already (Repeat does it again)"
	case !m.lost && m.conn.unexecuted() != m:
		problem = "on this connection " + m.conn.unexecuted().String() + " is before it"
	}
	if problem != "" {
		n.mu.Unlock()
		n.t.Fatalf("enginetest: %s: cannot execute %s: %s", n.name, m, problem)
	}
	if m.lost {
		answer, wakes := n.server.apply(m.Header, m.At, m.Placement, m.Op)
		m.answer = answer
		n.mu.Unlock()
		n.note("ran after its connection", m, answer)
		n.server.publish(wakes)
		return answer
	}
	m.heldRun, m.heldAnswer = false, true
	wakes := n.runMessage(m)
	n.mu.Unlock()
	n.server.publish(wakes)
	n.kick()
	return m.answer
}

// Answer hands the answer of an executed call to the coordinator, as soon as those before it on the connection are.
func (m *Message) Answer() {
	m.node.t.Helper()
	n := m.node
	n.mu.Lock()
	problem := ""
	switch {
	case m.lost:
		problem = "its connection is gone"
	case m.answer == nil:
		problem = "it was not executed"
	}
	m.heldAnswer = false
	n.mu.Unlock()
	if problem != "" {
		n.t.Fatalf("enginetest: %s: cannot answer %s: %s", n.name, m, problem)
	}
	n.kick()
	m.settle()
}

// Deliver executes a call, if that was not done yet, and answers it; it hands a wake to the coordinator.
func (m *Message) Deliver() *engine.Answer {
	m.node.t.Helper()
	if m.Wake != nil {
		m.DeliverAfter(0)
		return nil
	}
	n := m.node
	n.mu.Lock()
	executed := m.answer != nil
	n.mu.Unlock()
	if !executed {
		m.execute()
	}
	m.Answer()
	return m.answer
}

// DeliverAfter lets go of the message so that it arrives d from now; what is behind it waits for it. It does not wait.
func (m *Message) DeliverAfter(d time.Duration) {
	n := m.node
	n.mu.Lock()
	m.heldRun, m.heldAnswer = false, false
	m.runAt = time.Now().Add(d)
	m.answerAt = m.runAt
	n.mu.Unlock()
	n.kick()
	if d == 0 {
		m.settle()
	}
}

// Repeat lets the server execute the call once more; this answer goes nowhere.
func (m *Message) Repeat() *engine.Answer {
	m.node.t.Helper()
	if m.Wake != nil {
		m.node.t.Fatalf("enginetest: %s: cannot repeat %s", m.node.name, m)
	}
	answer := m.node.server.Execute(m.Header, m.At, m.Placement, m.Op)
	m.node.note("repeated", m, answer)
	m.settle()
	return answer
}

// Drop makes sure that a call is never executed: its connection is cut, with all that is under way on it. A wake is
// simply lost.
func (m *Message) Drop() {
	m.node.t.Helper()
	n := m.node
	n.mu.Lock()
	executed := m.answer != nil
	m.dropped = true
	n.mu.Unlock()
	switch {
	case m.Wake != nil:
		n.loseWake(m)
	case executed:
		n.t.Fatalf("enginetest: %s: cannot drop %s: it was executed", n.name, m)
	default:
		n.Cut()
	}
	m.settle()
}

func (m *Message) settle() { synctest.Wait() }

func (m *Message) String() string { return describe(m.name, m.words) }

// held reports whether the message does not move by itself.
func (m *Message) held() bool { return m.heldRun || m.heldAnswer }
