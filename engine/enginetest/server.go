package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// Server is the far end of a node: its memory, its clock, and what befalls them. All replicas reach it by Nodes of their own.
// Safe for concurrent use.
type Server struct {
	name   string
	script *transcript

	mu              sync.Mutex // guards what follows; taken after a Node's
	clock           clock
	state           *localnode.State
	rules           Apply // what is done with an operation
	runs, instances int   // counted for names
	up              bool
	paused          bool
	nodes           []*Node
}

// NewServer returns a running server that remembers nothing. When the test fails, what was sent to it is logged.
func NewServer(t testing.TB, name string) *Server { return newServer(newTranscript(t), name) }

func newServer(script *transcript, name string) *Server {
	s := &Server{name: name, script: script, clock: newClock(), up: true}
	s.rules = s.byTheRules
	s.forget()
	s.rename()
	return s
}

// forget empties the memory.
func (s *Server) forget() {
	run := ""
	if s.state != nil {
		run = s.state.RunID
	}
	s.state = localnode.NewState()
	s.state.RunID = run
	s.state.Nonce = func() string {
		s.instances++
		return fmt.Sprintf("%s-instance-%d", s.name, s.instances)
	}
}

// rename gives the server another run_id.
func (s *Server) rename() {
	s.runs++
	s.state.RunID = fmt.Sprintf("%s-run-%d", s.name, s.runs)
}

// Name is what people call the server.
func (s *Server) Name() string { return s.name }

// Execute runs one operation now and sends the wakes that come of it. A server that is down or paused executes too: this is
// the test's own hand.
func (s *Server) Execute(header *engine.Header, at int64, placement engine.Placement, op engine.Op) *engine.Answer {
	answer, wakes := s.apply(header, at, placement, op)
	s.publish(wakes)
	return answer
}

func (s *Server) apply(header *engine.Header, at int64, placement engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rules(s.clock.micros(), header, at, placement, op)
}

// publish sends wakes to the replicas whose places they name, or to all.
func (s *Server) publish(wakes []engine.Wake) {
	if len(wakes) == 0 {
		return
	}
	nodes := s.attached()
	for _, wake := range wakes {
		for _, node := range nodes {
			if wake.Order.Replica == node.replica || wake.Order.Replica == engine.EveryReplica {
				node.wake(wake)
			}
		}
	}
}

func (s *Server) attach(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = append(s.nodes, n)
}

func (s *Server) detach(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.DeleteFunc(s.nodes, func(m *Node) bool { return m == n })
}

func (s *Server) attached() []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// Time returns the server's clock, in µs.
func (s *Server) Time() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.micros()
}

// Shift makes the clock jump by d.
func (s *Server) Shift(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.set(s.clock.micros()+d.Microseconds(), s.clock.rate)
}

// Rate makes the clock run at rate: 1 is right, 1.001 gains a millisecond a second.
func (s *Server) Rate(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.set(s.clock.micros(), rate)
}

// Pause stops the server (as SIGSTOP does): messages arrive and are not executed until Resume.
func (s *Server) Pause() { s.change(func() { s.paused = true }) }

// Resume ends a Pause; what arrived meanwhile is executed.
func (s *Server) Resume() { s.change(func() { s.paused = false }) }

// change does what it is told under mu and lets the nodes see it.
func (s *Server) change(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	for _, node := range s.attached() {
		node.kick()
	}
}

// Memory says what a server remembers after a restart.
type Memory int

// What is left after a restart.
const (
	Kept    Memory = iota // everything, under the same run_id: localnode on its directory
	Renamed               // everything, under a new run_id: Redis with AOF
	Lost                  // nothing
)

// Kill stops the server: its connections break, and what has not been executed never will be.
func (s *Server) Kill() {
	s.change(func() { s.up, s.paused = false, false })
	for _, node := range s.attached() {
		node.serverDied()
	}
}

// Restart starts a killed server with the memory that is left.
func (s *Server) Restart(memory Memory) {
	s.change(func() {
		s.up = true
		if memory != Kept {
			s.rename()
		}
		if memory == Lost {
			s.forget()
		}
	})
}

// Wipe empties a running server (as FLUSHALL does); connections and run_id stay.
func (s *Server) Wipe() { s.change(s.forget) }

// RunID returns the server's run_id.
func (s *Server) RunID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.RunID
}

// look is what a probe sees, by the rules that every kind of node has.
func (s *Server) look() engine.Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := engine.Probe{
		Time: s.clock.micros(), RunID: s.state.RunID, Replid: s.state.Replid, Version: "enginetest", Record: s.state.Record(),
	}
	switch r := p.Record; {
	case r == nil:
	case r.Replid != p.Replid:
		p.Refusal = errors.New("the server was another's replica since its record was written")
	case r.RunID != p.RunID:
		p.Refusal = errors.New("the server was restarted since its record was written")
	case r.State != engine.StateOK:
		p.Refusal = fmt.Errorf("its state is %s: %s", r.State, r.Reason)
	}
	return p
}

// Answers reports whether the server runs, and is not paused.
func (s *Server) Answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up && !s.paused
}
