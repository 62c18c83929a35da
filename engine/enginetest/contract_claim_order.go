package enginetest

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// claimOrderRules are about who comes first: the other waiters, and the other refusals.
var claimOrderRules = []rule{
	{"a claim is behind an older place when both do not fit, and names it", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		c.grant("L")
		place := c.waits(other, 10, 4)
		a := c.expect(engine.SaysBehind, c.claim("M"))
		c.equal("before", a.BeforeIs, place.Order)
		c.equal("free", a.Free, 3)
	}},
	{"a claim that fits beside all who wait before it is granted", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		c.waits(other, 10, 2)
		c.grant("L")
	}},
	{"all the weight that waits at an older place counts, not its head's alone", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		held := c.claim("L")
		held.Weight = 2
		c.granted(held)
		order := engine.Order{Arrival: 10, Replica: other, Seq: 1}
		state := func(total int) {
			place := engine.Place{Order: order, Weight: 4, Count: 2, Total: total}
			c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: sem, Replica: other}))
		}
		c.define(engine.Value{Limit: 7}) // 5 are free: less than the head's 4 and 2 more
		state(4)
		c.granted(c.claim("M"))
		c.define(engine.Value{Limit: 8})
		state(5)
		c.expect(engine.SaysBehind, c.claim("N"))
	}},
	{"a claim is behind an older place of its own replica too", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.grant("L")
		c.waits(me, 10, 2)
		c.expect(engine.SaysBehind, c.claim("M"))
	}},
	{"a claim is not behind its own place", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		claim := c.claim("M")
		claim.Wait = true
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
		c.want(engine.SaysFull, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, claim))
		c.expect(engine.SaysReleased, c.release("L"))
		c.want(engine.SaysGranted, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, claim))
	}},
	{"a claim is not behind a younger place", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.waits(other, 1_000_000, 1)
		c.grant("L")
	}},
	{"of two of one arrival the replica decides, then the counter", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		held := c.claim("L")
		held.Weight = 2
		c.granted(held)
		c.waits(other, 10, 4)
		claim := c.claim("M")
		claim.Order = engine.Order{Arrival: 10, Replica: me, Seq: 99}
		c.granted(claim) // me < other
		claim = c.claimOf(other, "N")
		claim.Order = engine.Order{Arrival: 10, Replica: other, Seq: 11}
		c.expect(engine.SaysBehind, claim)
		claim.Order.Seq = 9
		c.granted(claim)
	}},
	{"a place heavier than the limit holds nobody up", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		c.waits(other, 10, 4)
		claim := c.claim("L")
		claim.Weight = 3
		c.granted(claim)
	}},
	{"a claim with a bound is behind an older place when both do not fit below the bound", func(c *contract) {
		c.formed(engine.Value{Limit: 8})
		far := c.claim("L")
		far.Start = 7
		c.granted(far)
		ballot := c.define(engine.Value{Limit: 6})
		place := c.waits(other, 10, 3)
		bounded := func(lease string, bound int) *engine.Claim {
			claim := c.claim(lease)
			claim.Ballot, claim.Bound = ballot, bound
			return claim
		}
		a := c.expect(engine.SaysBehind, bounded("M", 3))
		c.equal("before", a.BeforeIs, place.Order)
		c.equal("free", a.Free, 3)
		c.granted(bounded("M", 4))
	}},
	{"a place that a smaller limit made too heavy is in the way again when the limit is raised", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		held := c.claim("L")
		held.Weight = 2
		c.granted(held)
		place := c.waits(other, 10, 4)
		c.expect(engine.SaysBehind, c.claim("M"))
		c.define(engine.Value{Limit: 3})
		c.grant("M")
		c.define(engine.Value{Limit: 4})
		c.equal("before", c.expect(engine.SaysBehind, c.claim("N")).BeforeIs, place.Order)
	}},
	{"a place that has lapsed holds nobody up", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.define(engine.Value{Limit: 1, Paused: true}) // so that nobody is woken and passed over
		c.waits(other, 10, 1)
		c.pass(1510 * time.Millisecond)
		c.define(engine.Value{Limit: 1})
		c.grant("L")
	}},
	{"a place that was woken and not stated again within 100 ms is passed over until it is", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		var place engine.Place
		a := c.want(engine.SaysBehind, c.hurried(func(try int) *engine.Answer {
			place = c.waits(other, 10, 1) // there is room: woken
			lease := fmt.Sprint("try ", try)
			a := c.do(c.claim(lease))
			c.expect(engine.SaysReleased, c.release(lease))
			return a
		}))
		if a.NextEnd <= 0 || a.NextEnd > 100*time.Millisecond {
			c.Errorf("next end: %s; want the time until the place is passed over", a.NextEnd)
		}
		c.pass(110 * time.Millisecond)
		c.equal("passed over", c.place(other).Passed, true)
		c.grant("L")
		c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceIfWas, Was: place.Order, Place: place}, &engine.Line{Semaphore: sem, Replica: other}))
		c.equal("passed over", c.place(other).Passed, false)
	}},
	{"a waiter that is refused states its place; a try states none", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		claim := c.claim("M")
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 4, Total: 9, Oldest: 1500 * time.Millisecond}
		placement := engine.Placement{Mode: engine.PlaceIfLast, Place: place}
		a := c.want(engine.SaysFull, c.state(placement, claim))
		c.equal("place told", a.Place, engine.Order{})
		claim.Wait = true
		a = c.want(engine.SaysFull, c.state(placement, claim))
		c.equal("place told", a.Place, claim.Order)
		got := c.place(me)
		got.Oldest = place.Oldest
		c.equal("place", got, engine.Placed{Place: place})
	}},
	{"a waiter that is behind, paused or over states its place too", func(c *contract) {
		c.form()
		for _, why := range []struct {
			says   engine.Says
			value  engine.Value
			before func()
		}{
			{engine.SaysBehind, engine.Value{Limit: 3}, func() {
				c.grant("L")
				c.waits(other, 10, 3)
			}},
			{engine.SaysPaused, engine.Value{Limit: 3, Paused: true}, func() {}},
			{engine.SaysOver, engine.Value{Limit: 1}, func() { c.expect(engine.SaysMended, c.mend("N", 1, 5)) }},
		} {
			c.define(why.value)
			why.before()
			claim := c.claim("M")
			claim.Wait = true
			place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
			c.want(why.says, c.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, claim))
			c.equal("place", c.place(me).Order, claim.Order)
		}
	}},
	{"a waiter that is granted leaves its replica's next place, or none", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		first, second := c.claim("L"), c.claim("M")
		next := engine.Place{Order: engine.Order{Arrival: 2_000_000, Replica: me, Seq: 5}, Weight: 3, Count: 1, Total: 3}
		c.waits(me, 1_000_000, 1)
		place := engine.Place{Order: first.Order, Weight: 1, Count: 2, Total: 2}
		a := c.want(engine.SaysGranted, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place, Next: next}, first))
		c.equal("place told", a.Place, next.Order)
		c.equal("place", c.place(me).Order, next.Order)
		a = c.want(engine.SaysGranted, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, second))
		c.equal("place told", a.Place, engine.Order{})
		c.equal("place", c.place(me).Order, engine.Order{})
	}},
	{"answers count who waits elsewhere, and how many of them before", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		for _, p := range []struct {
			replica string
			arrival int64
			count   int
		}{{"BBBBBBBBBBBBBBBB", 10, 5}, {"CCCCCCCCCCCCCCCC", 20, 7}, {other, 1_000_000, 11}} {
			place := engine.Place{Order: engine.Order{Arrival: p.arrival, Replica: p.replica, Seq: 1}, Weight: 1, Count: p.count, Total: p.count}
			c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: sem, Replica: p.replica}))
		}
		c.waits(me, 15, 1)
		claim := c.claim("M")
		claim.Wait = true
		a := c.do(claim)
		c.equal("elsewhere", a.Elsewhere, 23)
		c.equal("before", a.Before, 12)
	}},
	{"refusals are checked in their order", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		full := c.mend("F", 1, 0, 1, 2)
		c.expect(engine.SaysMended, full)
		c.waits(other, 10, 4)
		claim := c.claim("L")
		claim.Weight = 2
		c.expect(engine.SaysBehind, claim) // also full

		c.define(engine.Value{Limit: 4, Paused: true})
		c.expect(engine.SaysPaused, claim) // also behind

		ballot := c.define(engine.Value{Limit: 2, Paused: true})
		c.equal("beyond", c.expect(engine.SaysOver, claim).Beyond, quorum.OneSlot(2)) // also paused

		bounded := *claim
		bounded.Bound, bounded.Ballot = 1, engine.Ballot{Counter: 1}
		c.expect(engine.SaysBallot, &bounded) // also over
		bounded.Ballot = ballot
		c.expect(engine.SaysPaused, &bounded)

		own := c.claim("F")
		own.Bound, own.Ballot = 1, engine.Ballot{Counter: 1}
		c.granted(own) // before ballot

		exists := c.claim("F")
		exists.By = "F/2"
		c.expect(engine.SaysExists, exists)
		gone := c.release("F")
		gone.By = "F/2"
		c.expect(engine.SaysReleased, gone)
		c.expect(engine.SaysGone, exists) // also exists

		c.define(engine.Value{Deleted: true})
		c.expect(engine.SaysUndefined, exists) // also gone
	}},
}
