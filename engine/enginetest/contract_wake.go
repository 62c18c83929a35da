package enginetest

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// full gives all permits of a semaphore of this limit to leases of one slot each: S0 has slot 0, and so on. Then this replica
// waits for weight permits; its place is returned.
func (c *contract) full(limit, weight int) engine.Place {
	c.Helper()
	c.formed(engine.Value{Limit: limit})
	c.listening()
	for n := range limit {
		claim := c.claim("S" + string(rune('0'+n)))
		claim.Start = n
		c.granted(claim)
	}
	return c.waits(me, 10, weight)
}

// woken waits for a wake and compares it.
func (c *contract) wokenWith(order engine.Order, slot, free int) {
	c.Helper()
	c.equal("wake", c.wake(), engine.Wake{Node: 1, Semaphore: sem, Order: order, Slot: slot, Free: free})
}

// nextFor waits for the next wake of this order, leaving out those of others, and compares it.
func (c *contract) nextFor(order engine.Order, slot, free int) {
	c.Helper()
	w := c.wake()
	for w.Order != order {
		w = c.wake()
	}
	c.equal("wake", w, engine.Wake{Node: 1, Semaphore: sem, Order: order, Slot: slot, Free: free})
}

var wakeRules = []rule{
	{"a release wakes the head of the line with the slot it freed", func(c *contract) {
		place := c.full(3, 1)
		release := c.release("S1")
		release.Replica = other
		c.expect(engine.SaysReleased, release)
		c.wokenWith(place.Order, 1, 1)
	}},
	{"a part that is given back wakes the head", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.listening()
		claim := c.claim("L")
		claim.Weight = 2
		c.granted(claim)
		place := c.waits(me, 10, 1)
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(1), 1
		c.expect(engine.SaysReleased, part)
		c.wokenWith(place.Order, 1, 1)
	}},
	{"nobody is woken before there is room for all the head asks for", func(c *contract) {
		place := c.full(3, 2)
		c.expect(engine.SaysReleased, c.release("S0"))
		c.noWake()
		c.expect(engine.SaysReleased, c.release("S2"))
		c.wokenWith(place.Order, 2, 2) // the one just freed, not the first one
	}},
	{"a slot in use beyond the limit takes one below it: there is room for the head when that is free, too", func(c *contract) {
		place := c.full(3, 1)
		c.define(engine.Value{Limit: 2})
		c.expect(engine.SaysReleased, c.release("S1"))
		c.noWake()
		c.expect(engine.SaysOver, c.claimOf(other, "L")) // which looks after the head, too
		c.noWake()
		c.expect(engine.SaysReleased, c.release("S2"))
		c.wokenWith(place.Order, 1, 1)
	}},
	{"only the head is woken", func(c *contract) {
		c.full(2, 1)
		c.waits(other, 5, 2) // before this replica, and heavier
		c.expect(engine.SaysReleased, c.release("S1"))
		c.noWake()
	}},
	{"a head that is passed over, or heavier than the limit, leaves its turn to the next", func(c *contract) {
		place := c.full(2, 1)
		c.waits(other, 5, 3)
		c.expect(engine.SaysReleased, c.release("S0"))
		c.wokenWith(place.Order, 0, 1)
		c.waits(me, 10, 1)
		c.wokenWith(place.Order, 0, 1) // by its own statement
		c.waits(other, 5, 1)           // woken, elsewhere
		c.pass(110 * time.Millisecond)
		c.waits(me, 10, 1)
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a replica whose claim follows is not woken", func(c *contract) {
		c.full(2, 1)
		release := c.release("S1")
		release.Follows = true
		c.expect(engine.SaysReleased, release)
		c.noWake()
	}},
	{"that a claim of another replica follows spares nobody else", func(c *contract) {
		place := c.full(2, 1)
		release := c.release("S1")
		release.Follows, release.Replica = true, other
		c.expect(engine.SaysReleased, release)
		c.wokenWith(place.Order, 1, 1)
	}},
	{"a give-back does not wake the waiter it puts back", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.listening()
		claim := c.claim("L")
		c.granted(claim)
		back := c.release("L")
		back.Why = engine.WhyGivenBack
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
		c.want(engine.SaysReleased, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, back))
		c.noWake()
	}},
	{"a give-back wakes a head that waits elsewhere than where it states its place", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.listening()
		claim := c.claimOf(other, "L")
		c.granted(claim)
		head := c.waits(me, 10, 1)
		back := c.release("L")
		back.Why, back.Replica = engine.WhyGivenBack, other
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
		c.want(engine.SaysReleased, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, back))
		c.wokenWith(head.Order, 0, 1)
	}},
	{"a lapsed lease wakes the head with the next operation on the semaphore", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.listening()
		claim := c.claim("L")
		claim.TTL = 30 * time.Millisecond
		c.granted(claim)
		place := c.waits(me, 10, 1)
		c.pass(40 * time.Millisecond)
		c.record("M")
		c.wokenWith(place.Order, 0, 1)
	}},
	{"what has cooled down wakes the head with the next operation", func(c *contract) {
		c.formed(engine.Value{Limit: 1, MinHold: 200 * time.Millisecond})
		c.listening()
		c.grant("L")
		place := c.waits(me, 10, 1)
		c.expect(engine.SaysReleased, c.release("L"))
		c.noWake()
		c.pass(210 * time.Millisecond)
		c.record("M")
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a raised limit wakes the head", func(c *contract) {
		place := c.full(2, 1)
		c.define(engine.Value{Limit: 3})
		c.wokenWith(place.Order, 2, 1)
	}},
	{"the end of a pause wakes the head", func(c *contract) {
		c.formed(paused)
		c.listening()
		place := c.waits(me, 10, 1)
		c.noWake()
		c.define(engine.Value{Limit: 1})
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a value that makes no room wakes nobody", func(c *contract) {
		c.full(2, 1)
		c.define(engine.Value{Limit: 2, Data: "changed"})
		c.define(engine.Value{Limit: 1})
		c.noWake()
	}},
	{"a record that a refused mend drops wakes the head", func(c *contract) {
		place := c.full(2, 1)
		c.expect(engine.SaysNo, c.mend("S0", 1, 1))
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a mend that narrows a lease wakes the head", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.listening()
		claim := c.claim("L")
		claim.Weight = 2
		c.granted(claim)
		place := c.waits(me, 10, 1)
		c.expect(engine.SaysMended, c.mend("L", 1, 1))
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a claim that is refused wakes a head that fits", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.listening()
		var place engine.Place
		c.want(engine.SaysBehind, c.hurried(func(try int) *engine.Answer {
			place = c.waits(me, 10+int64(try), 1)
			c.nextFor(place.Order, 0, 2) // by its own statement
			claim := c.claimOf(other, fmt.Sprint("try ", try))
			claim.Weight = 2
			a := c.do(claim)
			if a.Says == engine.SaysGranted { // too slow: it was passed over
				c.expect(engine.SaysReleased, c.release(claim.Lease))
			}
			return a
		}))
		c.nextFor(place.Order, 0, 2)
	}},
	{"a claim that is granted wakes a head that fits beside it", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.listening()
		var place engine.Place
		c.want(engine.SaysGranted, c.hurried(func(try int) *engine.Answer {
			if try > 0 { // the last one was too slow
				c.expect(engine.SaysReleased, c.release(fmt.Sprint("try ", try-1)))
			}
			place = c.waits(me, 10+int64(try), 1)
			c.nextFor(place.Order, 0, 2) // by its own statement
			return c.do(c.claimOf(other, fmt.Sprint("try ", try)))
		}))
		c.nextFor(place.Order, 1, 1)
	}},
	{"a claim does not wake the place it has just stated", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.listening()
		c.waits(other, 5, 2)
		c.pass(110 * time.Millisecond) // it is passed over
		big := c.mend("B", 1, 0)
		c.expect(engine.SaysMended, big)
		claim := c.claim("L")
		claim.Weight, claim.Wait = 2, true
		place := engine.Place{Order: claim.Order, Weight: 2, Count: 1, Total: 2}
		c.want(engine.SaysFull, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, claim))
		c.noWake()
	}},
	{"a place that is stated where it fits is woken at once", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.listening()
		place := c.waits(me, 10, 1)
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a place that is cleared wakes the next", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.listening()
		head := c.waits(other, 5, 1)
		place := c.waits(me, 10, 1)
		c.noWake()
		c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceIfWas, Was: head.Order}, &engine.Line{Semaphore: sem, Replica: other}))
		c.wokenWith(place.Order, 0, 1)
	}},
	{"a place that lapses wakes the next with the next operation", func(c *contract) {
		c.formed(paused)
		c.listening()
		c.waits(other, 5, 1)
		c.pass(1000 * time.Millisecond)
		place := c.waits(me, 10, 1)
		c.define(engine.Value{Limit: 1}) // wakes the other one
		c.noWake()
		c.pass(510 * time.Millisecond)
		c.record("L")
		c.wokenWith(place.Order, 0, 1)
	}},
}
