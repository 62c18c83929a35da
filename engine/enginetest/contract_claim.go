package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var claimRules = []rule{
	{"a semaphore without a definition is undefined", func(c *contract) {
		c.form()
		c.expect(engine.SaysUndefined, c.claim("L"))
	}},
	{"a deleted semaphore is undefined", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.define(engine.Value{Deleted: true})
		c.expect(engine.SaysUndefined, c.claim("L"))
	}},
	{"a grant takes the first free slots from the start on, wrapping at the limit", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Weight, claim.Start = 3, 3
		c.equal("slots", c.granted(claim).Slots, quorum.SlotsOf(3, 4, 0))
		claim = c.claim("M")
		claim.Weight, claim.Start = 2, 4
		c.equal("slots", c.granted(claim).Slots, quorum.SlotsOf(1, 2))
	}},
	{"the start is taken modulo the bound", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Start = 13
		c.equal("slots", c.granted(claim).Slots, quorum.OneSlot(3))
	}},
	{"a grant tells slots, fence, version, what is left, the definition's ballot and what is free", func(c *contract) {
		c.form()
		ballot := c.define(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Weight, claim.Fence = 2, 1<<52
		a := c.granted(claim)
		c.equal("slots", a.Slots, quorum.SlotsOf(0, 1))
		c.equal("fence", a.Fence, int64(1<<52))
		c.equal("ver", a.Ver, int64(0))
		c.equal("left", a.Left, leaseTTL)
		c.equal("definition", a.Definition, ballot)
		c.equal("free", a.Free, 3)
		c.equal("beyond", a.Beyond.Len(), 0)
	}},
	{"a record keeps what the claim brought", func(c *contract) {
		c.form()
		ballot := c.define(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Weight, claim.Fence, claim.Owner.Gen = 2, 1<<52, 0
		c.granted(claim)
		r := c.record("L")
		c.about("left", r.Left, leaseTTL)
		c.about("age", -r.Age, 0)
		c.about("touched", -r.Touched, 0)
		r.Left, r.Age, r.Touched = 0, 0, 0
		c.equal("record", r, &engine.Record{
			Lease: "L", By: "L/1", Owner: claim.Owner, Slots: quorum.SlotsOf(0, 1), Fence: 1 << 52, First: true, Ballot: ballot, Info: "info of L",
		})
	}},
	{"fences grow: at least the last one and one, at least what is proposed", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Fence = 1000
		first := c.granted(claim).Fence
		claim = c.claim("M")
		claim.Fence = 10
		c.equal("a smaller proposal", c.granted(claim).Fence, first+1)
		claim = c.claim("N")
		claim.Fence = first + 100
		c.equal("a larger proposal", c.granted(claim).Fence, first+100)
	}},
	{"fences are exact up to 2^53", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Fence = 1<<53 - 3
		c.equal("proposed", c.granted(claim).Fence, int64(1<<53-3))
		c.equal("counted on", c.grant("M").Fence, int64(1<<53-2))
		c.equal("read", c.record("M").Fence, int64(1<<53-2))
	}},
	{"an attempt that was given back is gone", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysGone, c.claim("L"))
	}},
	{"an attempt whose release came first is gone", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysGone, c.claim("L"))
		c.equal("record", c.record("L"), (*engine.Record)(nil))
	}},
	{"another attempt of a released lease is granted", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		claim := c.claim("L")
		claim.By = "L/2"
		c.granted(claim)
	}},
	{"a lease that another attempt has exists, and is no vote", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.grant("L")
		claim := c.claim("L")
		claim.By = "L/2"
		c.expect(engine.SaysExists, claim)
		c.equal("by", c.record("L").By, "L/1")
	}},
	{"the same attempt is answered with its record, whatever else it asks for now", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		first := c.grant("L")
		again := c.claim("L")
		again.Weight, again.TTL, again.Fence, again.Start = 3, time.Minute, first.Fence+1000, 2
		a := c.granted(again)
		c.equal("slots", a.Slots, first.Slots)
		c.equal("fence", a.Fence, first.Fence)
		c.equal("ver", a.Ver, first.Ver)
		c.about("left", a.Left, leaseTTL)
		c.equal("definition", a.Definition, first.Definition)
		c.equal("free", a.Free, 2)
	}},
	{"a bound is refused under another ballot", func(c *contract) {
		c.form()
		old := c.define(engine.Value{Limit: 5})
		c.define(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Ballot, claim.Bound = old, 3
		c.expect(engine.SaysBallot, claim)
	}},
	{"without a bound the ballot does not matter", func(c *contract) {
		c.form()
		old := c.define(engine.Value{Limit: 5})
		c.define(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Ballot = old
		c.granted(claim)
	}},
	{"a slot in use beyond the limit refuses every claim without a bound, and is named", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Weight, claim.Start = 3, 2
		c.granted(claim)
		c.define(engine.Value{Limit: 3})
		a := c.expect(engine.SaysOver, c.claim("M"))
		c.equal("beyond", a.Beyond, quorum.SlotsOf(3, 4))
	}},
	{"a claim with a bound takes slots below it, and below the limit", func(c *contract) {
		c.formed(engine.Value{Limit: 8})
		far := c.claim("L")
		far.Start = 7
		c.granted(far)
		ballot := c.define(engine.Value{Limit: 5})
		bounded := func(lease string, bound, start int) *engine.Claim {
			claim := c.claim(lease)
			claim.Ballot, claim.Bound, claim.Start = ballot, bound, start
			return claim
		}
		a := c.granted(bounded("M", 2, 3)) // 3 modulo 2
		c.equal("slots", a.Slots, quorum.OneSlot(1))
		c.equal("beyond", a.Beyond, quorum.OneSlot(7))
		c.equal("slots", c.granted(bounded("N", 2, 1)).Slots, quorum.OneSlot(0))
		c.expect(engine.SaysFull, bounded("O", 2, 0))
		c.equal("slots", c.granted(bounded("P", 100, 4)).Slots, quorum.OneSlot(4))
	}},
	{"what cools beyond the limit counts as what is in use there", func(c *contract) {
		c.formed(engine.Value{Limit: 5, MinHold: time.Minute})
		claim := c.claim("L")
		claim.Start = 4
		c.granted(claim)
		c.expect(engine.SaysReleased, c.release("L"))
		ballot := c.define(engine.Value{Limit: 3})
		c.equal("beyond", c.expect(engine.SaysOver, c.claim("M")).Beyond, quorum.OneSlot(4))
		claim = c.claim("M")
		claim.Ballot, claim.Bound = ballot, 2
		a := c.granted(claim)
		c.equal("beyond", a.Beyond, quorum.OneSlot(4))
		c.equal("free", a.Free, 1)
	}},
	{"nothing beyond the limit is in use any more: claims without a bound are granted again", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		claim := c.claim("L")
		claim.Start = 1
		c.granted(claim)
		c.define(engine.Value{Limit: 1})
		c.expect(engine.SaysOver, c.claim("M"))
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("beyond", c.grant("M").Beyond.Len(), 0)
	}},
	{"a paused semaphore grants nothing and keeps the line", func(c *contract) {
		c.formed(engine.Value{Limit: 5, Paused: true})
		claim := c.claim("L")
		claim.Wait = true
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
		c.want(engine.SaysPaused, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, claim))
		c.equal("place", c.place(me).Order, claim.Order)
	}},
	{"too few free slots are full, and told with the time to the next end", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		short := c.claim("L")
		short.TTL = 4 * time.Second
		c.granted(short)
		c.grant("M")
		claim := c.claim("N")
		claim.Weight = 2
		a := c.expect(engine.SaysFull, claim)
		c.equal("free", a.Free, 1)
		c.about("next end", a.NextEnd, 4*time.Second)
	}},
	{"a lease may have 10,000 slots", func(c *contract) {
		c.formed(engine.Value{Limit: 10_500})
		claim := c.claim("L")
		claim.Weight, claim.Start = 10_000, 10_000
		a := c.granted(claim)
		c.equal("slots", a.Slots, quorum.Slots{{First: 0, Last: 9499}, {First: 10_000, Last: 10_499}})
		c.equal("free", a.Free, 500)
		claim = c.claim("M")
		claim.Weight = 501
		c.expect(engine.SaysFull, claim)
		renewed := c.expect(engine.SaysRenewed, c.renew("L", a))
		c.equal("slots", renewed.Slots, a.Slots)
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("free", c.grant("M").Free, 10_499)
	}},
	{"a lease may have 10,000 slots that lie apart", func(c *contract) {
		c.formed(engine.Value{Limit: 20_000})
		var odd quorum.Slots
		for n := 1; n < 20_000; n += 2 {
			odd = append(odd, quorum.Span{First: n, Last: n})
		}
		mend := c.mend("L", 1)
		mend.Slots = odd
		c.equal("slots", c.expect(engine.SaysMended, mend).Slots.Len(), 10_000)
		claim := c.claim("M")
		claim.Weight = 10_000
		a := c.granted(claim)
		c.equal("overlap", a.Slots.Overlaps(odd), false)
		c.equal("free", a.Free, 0)
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysReleased, c.release("M"))
		c.equal("leases", len(c.view().Leases), 0)
	}},
	{"the limit may be a million", func(c *contract) {
		c.formed(engine.Value{Limit: engine.LimitMax})
		claim := c.claim("L")
		claim.Start = engine.LimitMax - 1
		claim.Weight = 2
		a := c.granted(claim)
		c.equal("slots", a.Slots, quorum.SlotsOf(0, engine.LimitMax-1))
		c.equal("free", a.Free, engine.LimitMax-2)
	}},
}
