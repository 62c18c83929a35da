package engine_test

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// claims counts what requests cost: claims that come to nothing again and again would be a storm, however right.
type claims struct {
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

// watchClaims counts on the first server, which sees nearly all.
func watchClaims(w *world) {
	c := claims{of: map[string]*attempts{}, changes: map[string]int{}}
	w.cluster.Servers[0].Around(func(next enginetest.Apply) enginetest.Apply {
		return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
			switch op := op.(type) {
			case *engine.Claim:
				if err := c.claim(op, w.now()); err != nil {
					go w.check(err) // the server is locked
				}
			case *engine.Release:
				if op.Why != engine.WhyGivenBack {
					c.changes[op.Semaphore]++
				}
			case *engine.Accept:
				c.changes[op.Name]++
			}
			return next(now, h, at, p, op)
		}
	})
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
