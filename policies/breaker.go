package policies

import (
	"sync"
	"time"
)

// When a breaker opens, and for how long.
const (
	breakerFaults  = 5 // in breakerWindow
	breakerWindow  = 10 * time.Second
	breakerOpenMin = time.Second // doubled with each opening in a row …
	breakerOpenMax = time.Minute // … up to this
)

// breaker keeps a policy that fails from being asked all the time. Open, it lets nobody through until its time is over, and
// then one call: its fault opens the breaker for twice as long, its answer closes it.
type breaker struct {
	mu      sync.Mutex // guards what follows
	faults  [breakerFaults]time.Time
	next    int // in faults, the oldest
	open    time.Duration
	until   time.Time
	probing bool
}

// allow asks for a call at a time. probe tells that the breaker is open and this is the one call that may close it; its end
// must be told by ended or by skipped.
func (b *breaker) allow(now time.Time) (allowed, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == 0 {
		return true, false
	}
	if now.Before(b.until) || b.probing {
		return false, false
	}
	b.probing = true
	return true, true
}

// ended tells how a call ended. A call that began before the breaker opened changes nothing any more.
func (b *breaker) ended(now time.Time, fault, probe bool) {
	if !fault && !probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case probe && fault:
		b.probing = false
		b.open = min(2*b.open, breakerOpenMax)
		b.until = now.Add(b.open)
	case probe:
		b.probing, b.open, b.faults = false, 0, [breakerFaults]time.Time{}
	case b.open == 0:
		b.faults[b.next] = now
		b.next = (b.next + 1) % breakerFaults
		if oldest := b.faults[b.next]; !oldest.IsZero() && now.Sub(oldest) <= breakerWindow {
			b.open = breakerOpenMin
			b.until = now.Add(b.open)
		}
	}
}

// skipped tells that a probe did not reach the module.
func (b *breaker) skipped() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// isOpen tells whether calls are held off.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open > 0
}
