package engine

import (
	"maps"
	"sync"
	"time"
)

// longestMax bounds of how many semaphores a replica remembers a longest TTL.
const longestMax = 100_000

// longest is the longest TTL of a lease that this replica has seen on each semaphore, where it is longer than any claim's: a cold
// start waits for it, as the nodes may have forgotten it. Safe for concurrent use.
type longest struct {
	mu   sync.Mutex
	ttls map[string]time.Duration // guarded by mu
	most time.Duration            // guarded by mu; of them, and of what other replicas have told the nodes of
}

// sawTTL remembers the TTL of a lease.
func (e *Engine) sawTTL(semaphore string, ttl time.Duration) {
	if ttl <= claimTTLMax || ttl == Never {
		return
	}
	l := &e.longest
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ttls == nil {
		l.ttls = map[string]time.Duration{}
	}
	if _, known := l.ttls[semaphore]; !known && len(l.ttls) >= longestMax {
		semaphore = "" // it stands for all that do not fit
	}
	l.ttls[semaphore], l.most = max(l.ttls[semaphore], ttl), max(l.most, ttl)
}

// heardTTL remembers the longest TTL that others have told a node of.
func (e *Engine) heardTTL(ttl time.Duration) {
	e.longest.mu.Lock()
	defer e.longest.mu.Unlock()
	e.longest.most = max(e.longest.most, ttl)
}

// longestSeen is the longest TTL that this replica has seen or heard of, as long as a claim may be at least.
func (e *Engine) longestSeen() time.Duration {
	e.longest.mu.Lock()
	defer e.longest.mu.Unlock()
	return max(claimTTLMax, e.longest.most)
}

// longestTTLs are what sawTTL has remembered, by semaphore.
func (e *Engine) longestTTLs() map[string]time.Duration {
	e.longest.mu.Lock()
	defer e.longest.mu.Unlock()
	seen := maps.Clone(e.longest.ttls)
	if seen == nil {
		seen = map[string]time.Duration{}
	}
	return seen
}
