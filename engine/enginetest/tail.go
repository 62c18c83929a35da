package enginetest

import "github.com/permitd/permitd/engine/localnode"

// Snapshot is what a server remembered at one instant.
type Snapshot struct{ state *localnode.State }

// Snapshot copies what the server remembers now.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.state.Clone()}
}

// RestartFrom starts a killed server with what it remembered before, under a new run_id: Redis with an AOF that lacks its tail.
func (s *Server) RestartFrom(tail Snapshot) {
	s.change(func() {
		run, nonce, replid := s.state.RunID, s.state.Nonce, s.state.Replid
		s.state = tail.state.Clone()
		s.state.RunID, s.state.Nonce, s.state.Replid = run, nonce, replid
		s.up = true
		s.rename()
	})
}

// Follow makes the server another's replica and a master again: it remembers what the other did, under its own run_id and
// another master_replid.
func (s *Server) Follow(other Snapshot) {
	s.change(func() {
		run, nonce := s.state.RunID, s.state.Nonce
		s.state = other.state.Clone()
		s.state.RunID, s.state.Nonce, s.state.Replid = run, nonce, s.name+"-replid-after"
	})
}
