package enginetest

import "github.com/permitd/permitd/engine"

// Look shows what View would show of a semaphore, but the server does not notice: nothing is dropped, nobody is woken, and it
// is seen while the server is down, too.
func (s *Server) Look(semaphore string) *engine.ViewPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Look(s.clock.micros(), semaphore)
}

// Identity returns the cluster that the server belongs to and its index there; "": none yet.
func (s *Server) Identity() (cluster string, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.state.Record(); r != nil {
		return r.Cluster, r.Index
	}
	return "", -1
}

// FenceFloor returns the fence floor of the server's record.
func (s *Server) FenceFloor() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.state.Record(); r != nil {
		return r.FenceFloor
	}
	return 0
}

// Check returns what is wrong with the server's memory (localnode.State.Check), nil if nothing is.
func (s *Server) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Check()
}

// EndTranscript keeps what is sent from now on out of what a failing test shows.
func (c *Cluster) EndTranscript() {
	for _, s := range c.Servers {
		s.script.end()
	}
}
