package enginetest

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// Node is the way of one replica to one Server, an engine.Node. What its Faults leave alone, and the test does not hold, is
// executed and answered in order. Safe for concurrent use.
//
// One goroutine moves everything; it is started by Start and ends with Close, which the cleanup of the test calls too.
type Node struct {
	t      testing.TB
	name   string
	server *Server
	script *transcript
	kicked chan struct{} // has room for one
	ended  chan struct{} // closed when the goroutine has ended

	replica string // these three are set by Start
	now     func() time.Duration
	events  engine.NodeEvents

	mu        sync.Mutex // guards what follows
	dice      *dice
	wakeDice  *dice // of their own, as wakes come from other goroutines: what one of them draws moves nothing else
	started   bool
	closing   bool
	unplugged bool
	conn      *connection // nil: there is none
	redial    time.Time   // when a connection is tried next
	queue     []*engine.Call
	wakes     []*Message // on their way, in the order in which they are due
	holds     []selector
	kept      []*Message    // what Next may hand out
	arrived   chan struct{} // closed and made anew when something is kept
	todo      []func()      // what the goroutine calls without mu: Done and the events
}

// NewNode returns a way to server. It is closed when the test ends.
func NewNode(t testing.TB, server *Server, faults Faults) *Node {
	n := &Node{
		t:      t,
		name:   server.name,
		server: server,
		script: server.script,
		dice:   newDice(faults), wakeDice: newDice(faults),
		kicked:  make(chan struct{}, 1),
		ended:   make(chan struct{}),
		arrived: make(chan struct{}),
	}
	t.Cleanup(n.Close)
	return n
}

// Name returns the name of the server.
func (n *Node) Name() string { return n.name }

// Start connects and begins to serve.
func (n *Node) Start(replica string, now func() time.Duration, events engine.NodeEvents) {
	n.replica, n.now, n.events = replica, now, events
	n.server.attach(n)
	n.mu.Lock()
	n.started = true
	n.redial = time.Now()
	n.mu.Unlock()
	go n.run()
}

// Send puts the calls at the end of the lane, side by side.
func (n *Node) Send(calls ...*engine.Call) {
	n.mu.Lock()
	closing := n.closing
	if !closing {
		n.queue = append(n.queue, calls...)
	}
	n.mu.Unlock()
	if closing {
		go refuse(slices.Clone(calls)) // the sender may hold locks that Done takes, and uses the slice again
		return
	}
	n.kick()
}

func refuse(calls []*engine.Call) {
	for _, call := range calls {
		call.Done(&engine.Answer{Err: engine.ErrClosed})
	}
}

// Close answers what is under way with ErrClosed and ends the goroutine.
func (n *Node) Close() {
	n.mu.Lock()
	n.closing = true
	started := n.started
	n.mu.Unlock()
	if !started {
		return
	}
	n.server.detach(n)
	n.kick()
	<-n.ended
}

// kick makes the goroutine look again.
func (n *Node) kick() {
	select {
	case n.kicked <- struct{}{}:
	default:
	}
}

// run does one thing after the other, each when it is due.
func (n *Node) run() {
	defer close(n.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		do, wait := n.step()
		switch {
		case do != nil:
			do()
			continue
		case wait < 0:
			return
		}
		timer.Reset(wait)
		select {
		case <-n.kicked:
		case <-timer.C:
		}
	}
}

// step does what is due next. It returns what must be called without mu, or how long nothing is due (-1: for ever).
func (n *Node) step() (do func(), wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		n.shut()
	}
	for len(n.todo) == 0 {
		if n.closing {
			return nil, -1
		}
		if call := n.writable(); call != nil {
			return func() { n.write(call) }, 0
		}
		if len(n.todo) > 0 {
			break
		}
		due, act := n.earliest()
		if left := time.Until(due); left > 0 {
			return nil, left
		}
		act()
	}
	do = n.todo[0]
	n.todo = slices.Delete(n.todo, 0, 1)
	return do, 0
}

// earliest returns what is due first. Several things at the same instant go in the order written here.
func (n *Node) earliest() (due time.Time, act func()) {
	due = time.Now().Add(math.MaxInt64 / 4)
	consider := func(at time.Time, do func()) {
		if at.Before(due) {
			due, act = at, do
		}
	}
	if n.conn == nil {
		consider(n.redial, n.dial)
		return due, act
	}
	c := n.conn
	serving := n.server.Answers()
	if m := c.unexecuted(); m != nil && !m.heldRun && serving {
		consider(m.runAt, func() { n.later(n.runMessage(m)) })
	}
	if len(c.flight) > 0 {
		m := c.flight[0]
		if m.answer != nil && !m.heldAnswer {
			consider(m.answerAt, n.answerFirst)
		}
		consider(m.written.Add(n.dice.faults.timeout()), func() { n.breakOff(engine.ErrTimeout) })
	}
	if i := slices.IndexFunc(n.wakes, func(m *Message) bool { return !m.heldRun }); i >= 0 {
		consider(n.wakes[i].runAt, func() { n.deliverWake(i) })
	}
	if !c.cutAt.IsZero() {
		consider(c.cutAt, func() { n.breakOff(engine.ErrLost) })
	}
	n.considerProbe(consider, serving)
	return due, act
}

// later calls the server's subscribers without mu.
func (n *Node) later(wakes []engine.Wake) {
	if len(wakes) > 0 {
		n.todo = append(n.todo, func() { n.server.publish(wakes) })
	}
}

// tell calls an event without mu.
func (n *Node) tell(event func(engine.NodeEvents)) {
	n.todo = append(n.todo, func() { event(n.events) })
}

// finish answers a call without mu.
func (n *Node) finish(call *engine.Call, answer *engine.Answer) {
	n.todo = append(n.todo, func() { call.Done(answer) })
}

// shut ends everything for Close.
func (n *Node) shut() {
	if n.conn != nil {
		n.lose(engine.ErrClosed, true)
	}
	for _, call := range n.queue {
		n.finish(call, &engine.Answer{Err: engine.ErrClosed})
	}
	n.queue = nil
}

// note adds a line to the transcript.
func (n *Node) note(what string, m *Message, answer *engine.Answer) {
	n.script.add(transcriptLine{node: n.name, replica: cmp.Or(n.replica, "nobody"), what: what, message: m, answer: answer})
}
