package engine

// sizesMax is how often a request for all that is free looks how much that is: others may take some of it meanwhile.
const sizesMax = 4

// size looks how much is free, in the background, and then lets a request in that asks for all of it; where nothing is, it asks for one:
// its refusal tells how many are in use, which the nodes tell a claim alone, and what has come free meanwhile is its. mu is held.
func (s *semaphore) size(r *Request) {
	r.phase = weighing
	r.sizes++
	began := s.e.cfg.Now()
	s.e.work.Go(func() {
		standing := s.look()
		s.locked(func() {
			r := r.newest()
			switch {
			case r.phase != weighing: // cancelled meanwhile
			case s.e.draining.Load():
				r.fail(ErrDraining)
			case s.freeAt < began:
				r.fail(ErrQuorumUnavailable)
			default:
				r.weight = max(1, min(standing.Available, WeightMax))
				r.ask.Permits = r.weight
				s.comesIn(r)
			}
		})
	})
}
