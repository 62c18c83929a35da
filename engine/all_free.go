package engine

// sizesMax is how often a request for all that is free looks how much that is: others may take some of it meanwhile.
const sizesMax = 4

// size looks how much is free, in the background, and then lets a request in that asks for all of it. mu is held.
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
			case standing.Available == 0:
				s.inUse = s.limit()
				r.refuse(s.e.cfg.Now())
			default:
				r.weight = min(standing.Available, WeightMax)
				r.ask.Permits = r.weight
				s.comesIn(r)
			}
		})
	})
}
