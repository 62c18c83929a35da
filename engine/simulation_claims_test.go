package engine_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

// claims counts what requests cost, on one node: claims that come to nothing again and again would be a storm, however right.
type claims struct {
	mu      sync.Mutex           // guards what follows
	of      map[string]*attempts // by lease
	changes map[string]int       // by semaphore: what may give reason to claim
}

// attempts are those of one request.
type attempts struct {
	first   time.Duration
	last    string // the attempt seen last
	count   int
	changes int // when it began
}

// A request may claim so often: for itself, each second, and for each time that something changed on its semaphore.
const (
	attemptsMin       = 60
	attemptsPerSecond = 20
	attemptsPerChange = 3
)

func newClaims() *claims { return &claims{of: map[string]*attempts{}, changes: map[string]int{}} }

// executed counts an operation, and says if a request claims too often.
func (c *claims) executed(op engine.Op, now time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch op := op.(type) {
	case *engine.Claim:
		return c.claim(op, now)
	case *engine.Release:
		if op.Why != engine.WhyGivenBack {
			c.changes[op.Semaphore]++
		}
	case *engine.Accept:
		c.changes[op.Name]++
	}
	return nil
}

func (c *claims) claim(op *engine.Claim, now time.Duration) error {
	a := c.of[op.Lease]
	if a == nil {
		a = &attempts{first: now, changes: c.changes[op.Semaphore]}
		c.of[op.Lease] = a
	}
	if a.last == op.By {
		return nil
	}
	a.last = op.By
	a.count++
	seconds, changes := (now - a.first).Seconds(), c.changes[op.Semaphore]-a.changes
	if a.count > attemptsMin+int(attemptsPerSecond*seconds)+attemptsPerChange*changes {
		return fmt.Errorf("lease %s of %s was claimed %d times in %.1f s, while %d things changed", op.Lease, op.Semaphore, a.count, seconds, changes)
	}
	return nil
}
