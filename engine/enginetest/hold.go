package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

// nextWithin is how long Next lets the bubble's time run until what it waits for is sent: longer than the random pauses
// of the coordinator (4 ms), shorter than anything that times out.
const nextWithin = 10 * time.Millisecond

// Hold keeps from now on what matches from being executed (a wake: from being told), until it is let go. op is an operation's name,
// "wake" or Any; each of the words must be its semaphore (or register), lease, attempt, replica, why of a release, "new" or
// "renewal" of a mend. What is written behind a held call waits too, as on any connection.
func (n *Node) Hold(op string, words ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holds = append(n.holds, selector{op, words})
}

// Pass ends a Hold that was given the same arguments, and lets go of what it alone holds and Next has not taken. Pass(Any) ends all of
// them and lets go of everything, taken or not.
func (n *Node) Pass(op string, words ...string) {
	ended := selector{op, words}
	all := ended.equal(selector{op: Any})
	n.mu.Lock()
	n.holds = slices.DeleteFunc(n.holds, func(s selector) bool { return all || s.equal(ended) })
	for _, m := range n.kept {
		if all || ended.matches(m.name, m.words) && !m.taken && !n.holding(m) {
			m.heldRun, m.heldAnswer = false, false
		}
	}
	n.mu.Unlock()
	n.kick()
	synctest.Wait()
}

// Next returns the first message that matches, is on its way, and was not returned before. It waits for one to be sent, for 10 ms of the
// bubble at most; else the test fails. The message stays held until it is let go by its own methods.
func (n *Node) Next(op string, words ...string) *Message {
	n.t.Helper()
	return n.NextWithin(nextWithin, op, words...)
}

// NextWithin is Next that waits for at most d of the bubble's time.
func (n *Node) NextWithin(d time.Duration, op string, words ...string) *Message {
	n.t.Helper()
	m := n.Try(d, op, words...)
	if m == nil {
		n.t.Fatalf("enginetest: %s of %s: no %s within %s; on their way: %s", n.name, n.replica, selector{op, words}, d, n.waiting())
	}
	return m
}

// Try is NextWithin that returns nil when none was sent.
func (n *Node) Try(d time.Duration, op string, words ...string) *Message {
	wanted := selector{op, words}
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		synctest.Wait()
		m, arrived := n.take(wanted)
		if m != nil {
			return m
		}
		select {
		case <-arrived:
		case <-end.C:
			return nil
		}
	}
}

// None fails the test when a message that matches is on its way and was not taken.
func (n *Node) None(op string, words ...string) {
	n.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	m := n.find(selector{op, words})
	n.mu.Unlock()
	if m != nil {
		n.t.Fatalf("enginetest: %s of %s: %s is on its way, and should not be", n.name, n.replica, m)
	}
}

// NoneWithin is None after letting d of the bubble's time pass.
func (n *Node) NoneWithin(d time.Duration, op string, words ...string) {
	n.t.Helper()
	time.Sleep(d)
	n.None(op, words...)
}

// Cut breaks the connection; a new one is made at once. Every call under way is answered with engine.ErrLost. Those not
// executed stay in the closed socket's buffer: in the hand of the test, if Next gave them to it.
func (n *Node) Cut() {
	n.mu.Lock()
	if n.conn != nil {
		n.breakOff(engine.ErrLost)
	}
	n.mu.Unlock()
	n.kick()
	synctest.Wait()
}

// Disconnect is Cut without a new connection, until Connect.
func (n *Node) Disconnect() {
	n.mu.Lock()
	n.unplugged = true
	n.mu.Unlock()
	n.Cut()
}

// Connect ends a Disconnect.
func (n *Node) Connect() {
	n.mu.Lock()
	n.unplugged = false
	n.redial = time.Now()
	n.mu.Unlock()
	n.kick()
	synctest.Wait()
}

// keep holds m if the test wants that, and tells Next of it. Needs n.mu, as what follows does.
func (n *Node) keep(m *Message) {
	held := n.holding(m)
	m.heldRun, m.heldAnswer = held, held && m.Wake == nil
	n.kept = append(n.kept, m)
	close(n.arrived)
	n.arrived = make(chan struct{})
}

// forget ends what Next may hand out.
func (n *Node) forget(m *Message) {
	if i := slices.Index(n.kept, m); i >= 0 {
		n.kept = slices.Delete(n.kept, i, i+1)
	}
}

func (n *Node) holding(m *Message) bool {
	return slices.ContainsFunc(n.holds, func(s selector) bool { return s.matches(m.name, m.words) })
}

func (n *Node) find(wanted selector) *Message {
	for _, m := range n.kept {
		if !m.taken && wanted.matches(m.name, m.words) {
			return m
		}
	}
	return nil
}

func (n *Node) take(wanted selector) (m *Message, arrived <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m = n.find(wanted)
	if m != nil {
		m.taken = true
		m.heldRun = m.answer == nil // also when it only waited behind another
		m.heldAnswer = m.Wake == nil
	}
	return m, n.arrived
}

// waiting lists what is on its way.
func (n *Node) waiting() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.kept) == 0 {
		return "nothing"
	}
	var list []string
	for _, m := range n.kept {
		list = append(list, fmt.Sprintf("%s (taken: %t, held: %t, executed: %t)", m, m.taken, m.held(), m.answer != nil))
	}
	return strings.Join(list, "; ")
}
