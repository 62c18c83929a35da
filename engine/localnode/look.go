package localnode

import "github.com/permitd/permitd/engine"

// Look returns what View would show of a semaphore at now, at most its first thousand leases, but drops nothing and wakes
// nobody. For simulations, which must not help what they watch: what is over and was not dropped yet has nothing left.
func (s *State) Look(now int64, semaphoreName string) *engine.ViewPage {
	m, ok := s.semaphores.Get(semaphoreName)
	if !ok {
		return &engine.ViewPage{}
	}
	v := visit{State: s, now: now, answer: &engine.Answer{}, semaphore: m}
	v.view(&engine.View{Semaphore: semaphoreName, Count: pageMax})
	return v.answer.View
}
