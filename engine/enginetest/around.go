package enginetest

import (
	"github.com/permitd/permitd/engine"
)

// Apply executes one operation on a server at now, its clock in µs, as localnode.State.Apply does.
type Apply func(now int64, header *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake)

// Around puts middleware around what the server does with an operation from now on: it sees each one with its answer, or does
// something else. It is called with the server's lock held, one operation at a time.
func (s *Server) Around(middleware func(next Apply) Apply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = middleware(s.rules)
}

// byTheRules is what a server does by itself: s.mu is held.
func (s *Server) byTheRules(now int64, header *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
	return s.state.Apply(now, header, at, p, op)
}
