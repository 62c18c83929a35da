package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
)

// wake waits for the next wake of the semaphore.
func (c *contract) wake() engine.Wake {
	c.Helper()
	select {
	case w := <-c.woken:
		return w
	case <-time.After(wakeWithin):
		c.Fatal("no wake came")
		return engine.Wake{}
	}
}

// changed waits for the next word to every replica of a semaphore that was not a mark, and compares it.
func (c *contract) changed(semaphore string) {
	c.Helper()
	want := engine.Wake{Node: 1, Semaphore: semaphore, Order: engine.Order{Replica: engine.EveryReplica}}
	c.equal("change", c.change(), want)
}

func (c *contract) change() engine.Wake {
	c.Helper()
	for {
		select {
		case w := <-c.changes:
			if !strings.HasPrefix(w.Semaphore, markPrefix) {
				return w
			}
		case <-time.After(wakeWithin):
			c.Fatal("no replica was told of a change")
			return engine.Wake{}
		}
	}
}

// noChange fails the test if every replica has been told of something until now: it changes one more semaphore and sees that
// this comes first.
func (c *contract) noChange() {
	c.Helper()
	last := fmt.Sprintf("last %d", c.ballots)
	c.write(engine.RegisterSemaphore, last, engine.Value{Limit: 1})
	c.changed(last)
}

// markPrefix begins the names of the semaphores that marks are made with.
const markPrefix = "mark "

// listening returns when wakes are heard: a node may still be subscribing after it was seen.
func (c *contract) listening() {
	c.Helper()
	for end := time.Now().Add(wakeWithin); time.Now().Before(end); {
		mark := c.mark()
		select {
		case w := <-c.woken:
			if w.Semaphore == mark {
				return
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.Fatal("no wake was heard in time")
}

// mark makes the node send one wake, for a semaphore of its own.
func (c *contract) mark() string {
	c.Helper()
	mark := markPrefix + fmt.Sprint(c.ballots)
	c.write(engine.RegisterSemaphore, mark, engine.Value{Limit: 1, Paused: true})
	place := engine.Place{Order: engine.Order{Arrival: 1, Replica: me, Seq: 1}, Weight: 1, Count: 1, Total: 1}
	c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: mark, Replica: me}))
	c.write(engine.RegisterSemaphore, mark, engine.Value{Limit: 1})
	return mark
}

// noWake fails the test if a wake has been sent until now: it lets the node send one more and sees that this one comes first.
func (c *contract) noWake() {
	c.Helper()
	mark := c.mark()
	if w := c.wake(); w.Semaphore != mark {
		c.Fatalf("the node sent %+v; no wake was due", w)
	}
}
