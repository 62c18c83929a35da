package engine_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// chosen knows which definition of each semaphore is in force, by watching the nodes accept: a value is chosen at the
// Q-th acceptance of one ballot, whatever the writer hears.
type chosen struct {
	w      *world
	quorum int

	mu       sync.Mutex // guards what follows
	accepted map[string]map[engine.Ballot]map[*enginetest.Server]bool
	history  map[string][]definitionChosen
	told     map[string]int // so many of them the history of leases knows
}

// definitionChosen is a definition, in force from at until the next one.
type definitionChosen struct {
	at     time.Duration
	ballot engine.Ballot
	value  engine.Value
}

// grants reports whether permits are granted under it.
func (d *definitionChosen) grants() bool { return !d.value.Deleted && !d.value.Paused }

// watchDefinitions watches all servers.
func watchDefinitions(w *world) *chosen {
	c := &chosen{
		w: w, quorum: w.plan.nodes/2 + 1, accepted: map[string]map[engine.Ballot]map[*enginetest.Server]bool{},
		history: map[string][]definitionChosen{}, told: map[string]int{},
	}
	for _, s := range w.cluster.Servers {
		s.Around(func(next enginetest.Apply) enginetest.Apply {
			return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
				answer, wakes := next(now, h, at, p, op)
				if a, ok := op.(*engine.Accept); ok && answer.Says == engine.SaysAccepted && a.Kind == engine.RegisterSemaphore {
					c.accept(s, a)
				}
				return answer, wakes
			}
		})
	}
	return c
}

func (c *chosen) accept(s *enginetest.Server, a *engine.Accept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.accepted[a.Name] == nil {
		c.accepted[a.Name] = map[engine.Ballot]map[*enginetest.Server]bool{}
	}
	by := c.accepted[a.Name][a.Ballot]
	if by == nil {
		by = map[*enginetest.Server]bool{}
		c.accepted[a.Name][a.Ballot] = by
	}
	known := len(by)
	by[s] = true
	if known < c.quorum && len(by) == c.quorum {
		// One that gets there after a larger ballot did is overtaken: the larger one was made of it.
		if all := c.history[a.Name]; len(all) == 0 || all[len(all)-1].ballot.Less(a.Ballot) {
			c.history[a.Name] = append(all, definitionChosen{c.w.now(), a.Ballot, a.Value})
		}
	}
}

// latest is the definition in force, the zero value if none ever was.
func (c *chosen) latest(semaphore string) definitionChosen {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.history[semaphore]
	if len(all) == 0 {
		return definitionChosen{}
	}
	return all[len(all)-1]
}

// tell lets the history of leases know of the limits that were chosen meanwhile.
func (c *chosen) tell(h *enginetest.History, semaphore string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.history[semaphore]
	for _, d := range all[c.told[semaphore]:] {
		limit := d.value.Limit
		if d.value.Deleted {
			limit = 0
		}
		h.LimitAsked(d.at, semaphore, limit)
		h.LimitTold(d.at, semaphore)
	}
	c.told[semaphore] = len(all)
}

// check says why nothing could be granted between two moments: no definition that was in force then allows it.
func (c *chosen) check(semaphore string, from, to time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.history[semaphore]
	for i, d := range all {
		until := forever
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if d.grants() && d.at <= to && from <= until {
			return nil
		}
	}
	return fmt.Errorf("granted between %v and %v, when %q was paused, deleted or not there", from, to, semaphore)
}
