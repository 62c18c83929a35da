package server

import "sync"

// inFlight counts the requests under way of each principal.
type inFlight struct {
	mu    sync.Mutex
	count map[string]int
}

// enter counts a request in, unless there are most already; leave takes it out.
func (f *inFlight) enter(principal string, most int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[principal] >= most {
		return newProblem(kindClientLimit, "%d requests of %s are under way already", most, principal)
	}
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[principal]++
	return nil
}

func (f *inFlight) leave(principal string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[principal]--; f.count[principal] == 0 {
		delete(f.count, principal)
	}
}
