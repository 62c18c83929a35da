package engine_test

import (
	"slices"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

// chosen knows which definitions of each semaphore may be in force, by watching writers and nodes: a value is chosen when Q
// nodes have accepted it under one ballot, whatever its writer hears of that.
type chosen struct {
	now    func() time.Duration
	quorum int

	mu      sync.Mutex                    // guards what follows
	all     map[string][]*definitionInUse // by semaphore, in rising order of ballots
	dropped map[engine.Drop]int           // how many nodes have dropped it
}

// definitionInUse is a definition that may be in force from some time on, and surely is from another on, unless one of a larger
// ballot surely is.
type definitionInUse struct {
	ballot     engine.Ballot
	value      engine.Value
	from, sure time.Duration // sure: forever while not known
	nodes      map[int]bool  // that accepted it
}

func newChosen(now func() time.Duration, quorum int) *chosen {
	return &chosen{now: now, quorum: quorum, all: map[string][]*definitionInUse{}, dropped: map[engine.Drop]int{}}
}

// proposed says that a value was sent to be accepted. It is in force at once, as far as anybody can know who does not see
// the nodes themselves.
func (c *chosen) proposed(a *engine.Accept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.definition(a); d != nil {
		d.from = min(d.from, c.now())
	}
}

// accepted says that a node has accepted a value.
func (c *chosen) accepted(node int, a *engine.Accept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.definition(a)
	if d == nil {
		return
	}
	if d.nodes[node] = true; len(d.nodes) >= c.quorum {
		d.from, d.sure = min(d.from, c.now()), min(d.sure, c.now())
	}
}

// definition returns the entry of a value; nil if it is not that of a semaphore. c.mu is held.
func (c *chosen) definition(a *engine.Accept) *definitionInUse {
	if a.Kind != engine.RegisterSemaphore {
		return nil
	}
	all := c.all[a.Name]
	i, found := slices.BinarySearchFunc(all, a.Ballot, func(d *definitionInUse, b engine.Ballot) int { return d.ballot.Compare(b) })
	if !found {
		d := &definitionInUse{ballot: a.Ballot, value: a.Value, from: forever, sure: forever, nodes: map[int]bool{}}
		c.all[a.Name] = slices.Insert(all, i, d)
		return d
	}
	return all[i]
}

// drop says that a node has dropped a deleted semaphore. When Q have, what was in force until then is over.
func (c *chosen) drop(op *engine.Drop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped[*op]++; c.dropped[*op] == c.quorum {
		c.all[op.Name] = slices.DeleteFunc(c.all[op.Name], func(d *definitionInUse) bool { return d.ballot.Compare(op.Ballot) <= 0 })
	}
}

// latest is the value in force, the zero value if none ever was.
func (c *chosen) latest(semaphore string) engine.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	var v engine.Value
	for _, d := range c.all[semaphore] {
		if d.sure != forever {
			v = d.value
		}
	}
	return v
}

// limit is the largest limit under which something may have been granted between two moments; 0: nothing may.
func (c *chosen) limit(semaphore string, from, to time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit, replaced := 0, forever
	for _, d := range slices.Backward(c.all[semaphore]) {
		if d.from <= to && from <= replaced && !d.value.Deleted && !d.value.Paused {
			limit = max(limit, d.value.Limit)
		}
		replaced = min(replaced, d.sure)
	}
	return limit
}
