package server

import (
	"sync"
	"sync/atomic"
)

// inFlight counts the requests under way of each principal and scope, so that those who wait for permits do not keep whoever looks or
// operates out. There are few of them: none is ever forgotten. Safe for concurrent use.
type inFlight struct {
	mu    sync.RWMutex // guards the map, not the counts
	count map[asker]*atomic.Int64
}

// asker is who asks, and with which scope.
type asker struct{ principal, scope string }

// enter counts a request in, unless there are most already. Whoever was let in takes one from the count when it leaves.
func (f *inFlight) enter(who asker, most int) (*atomic.Int64, error) {
	count := f.of(who)
	if count.Add(1) > int64(most) {
		count.Add(-1)
		return nil, newProblem(kindClientLimit, "%d requests of %s with the scope %s are under way already", most, who.principal, who.scope)
	}
	return count, nil
}

// of returns the count of whoever asks.
func (f *inFlight) of(who asker) *atomic.Int64 {
	f.mu.RLock()
	count := f.count[who]
	f.mu.RUnlock()
	if count != nil {
		return count
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[asker]*atomic.Int64{}
	}
	if f.count[who] == nil {
		f.count[who] = new(atomic.Int64)
	}
	return f.count[who]
}
