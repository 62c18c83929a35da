package engine_test

import (
	"slices"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

// stoppable is a way whose replica can be stopped, as by SIGSTOP: what it sends and what it hears waits until it continues. Its
// timers run on, which is as if it were stopped between any two of its steps.
type stoppable struct {
	way
	now func() time.Duration

	mu      sync.Mutex // guards what follows
	stopped bool       // until all that waited has been done
	waits   []func()
}

// Stop lets nothing through.
func (s *stoppable) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// Continue ends a Stop: what waited is done, in order, before anything else.
func (s *stoppable) Continue() {
	for {
		s.mu.Lock()
		if len(s.waits) == 0 {
			s.stopped = false
			s.mu.Unlock()
			return
		}
		do := s.waits[0]
		s.waits = s.waits[1:]
		s.mu.Unlock()
		do()
	}
}

// pass does something now, or when the replica continues.
func (s *stoppable) pass(do func()) {
	s.mu.Lock()
	if s.stopped {
		s.waits = append(s.waits, do)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	do()
}

// Start implements engine.Node.
func (s *stoppable) Start(replica string, now func() time.Duration, events engine.NodeEvents) {
	s.now = now
	s.way.Start(replica, now, &stoppableEvents{s, events})
}

// Send implements engine.Node.
func (s *stoppable) Send(calls ...*engine.Call) {
	for _, c := range calls {
		done := c.Done
		c.Done = func(a *engine.Answer) {
			heard := s.now()
			s.pass(func() {
				if a.Err == nil {
					a.Received += s.now() - heard
				}
				done(a)
			})
		}
	}
	calls = slices.Clone(calls)
	s.pass(func() { s.way.Send(calls...) })
}

// Close implements engine.Node.
func (s *stoppable) Close() {
	s.Continue()
	s.way.Close()
}

// stoppableEvents is what a replica that can be stopped hears unasked.
type stoppableEvents struct {
	s      *stoppable
	events engine.NodeEvents
}

func (e *stoppableEvents) Probed(p engine.Probe, connected bool) {
	heard := e.s.now()
	e.s.pass(func() {
		p.Received += e.s.now() - heard
		e.events.Probed(p, connected)
	})
}

func (e *stoppableEvents) Down(err error)      { e.s.pass(func() { e.events.Down(err) }) }
func (e *stoppableEvents) Woken(w engine.Wake) { e.s.pass(func() { e.events.Woken(w) }) }
