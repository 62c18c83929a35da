package server

import (
	"sync"
	"sync/atomic"
)

// inFlight counts the requests under way of each principal. There are few of them: none is ever forgotten. Safe for concurrent use.
type inFlight struct {
	mu    sync.RWMutex // guards the map, not the counts
	count map[string]*atomic.Int64
}

// enter counts a request in, unless there are most already. Whoever was let in takes one from the count when it leaves.
func (f *inFlight) enter(principal string, most int) (*atomic.Int64, error) {
	count := f.of(principal)
	if count.Add(1) > int64(most) {
		count.Add(-1)
		return nil, newProblem(kindClientLimit, "%d requests of %s are under way already", most, principal)
	}
	return count, nil
}

// of returns the count of a principal.
func (f *inFlight) of(principal string) *atomic.Int64 {
	f.mu.RLock()
	count := f.count[principal]
	f.mu.RUnlock()
	if count != nil {
		return count
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[string]*atomic.Int64{}
	}
	if f.count[principal] == nil {
		f.count[principal] = new(atomic.Int64)
	}
	return f.count[principal]
}
