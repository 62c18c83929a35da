package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var coolingRules = []rule{
	{"what is released before min_hold is over cools until then, and refuses claims", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: time.Minute})
		c.grant("L")
		a := c.expect(engine.SaysReleased, c.release("L"))
		c.equal("free", a.Free, 1)
		page := c.view()
		c.equal("leases", len(page.Leases), 0)
		c.equal("entries", len(page.Cooling), 1)
		c.about("left", page.Cooling[0].Left, time.Minute)
		page.Cooling[0].Left = 0
		c.equal("cooling", page.Cooling[0], engine.Cooling{Lease: "L", Slots: quorum.OneSlot(0)})
		c.equal("the other slot", c.grant("M").Slots, quorum.OneSlot(1))
		full := c.expect(engine.SaysFull, c.claim("N"))
		c.about("next end", full.NextEnd, leaseTTL)
	}},
	{"a part cools too", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: time.Minute})
		claim := c.claim("L")
		claim.Weight = 2
		c.granted(claim)
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(1), 1
		c.equal("free", c.expect(engine.SaysReleased, part).Free, 0)
		c.equal("cooling", c.view().Cooling[0].Slots, quorum.OneSlot(1))
	}},
	{"a break and a give-back do not cool; a clean-up does", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: time.Minute})
		for _, end := range []struct {
			why   string
			cools int
		}{{engine.WhyBroken, 0}, {engine.WhyGivenBack, 0}, {engine.WhyCleaned, 1}} {
			c.grant(end.why)
			release := c.release(end.why)
			release.Why = end.why
			c.expect(engine.SaysReleased, release)
			c.equal(end.why, len(c.view().Cooling), end.cools)
		}
	}},
	{"what cools ends by itself and is free then", func(c *contract) {
		c.formed(engine.Value{Limit: 1, MinHold: 300 * time.Millisecond})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		full := c.expect(engine.SaysFull, c.claim("M"))
		if full.NextEnd <= 0 || full.NextEnd > 300*time.Millisecond {
			c.Errorf("next end: %s; want what is left of 300ms", full.NextEnd)
		}
		c.pass(310 * time.Millisecond)
		c.grant("M")
		c.equal("cooling", len(c.view().Cooling), 0)
	}},
	{"what is released after min_hold is over does not cool", func(c *contract) {
		c.formed(engine.Value{Limit: 1, MinHold: 20 * time.Millisecond})
		c.grant("L")
		c.pass(30 * time.Millisecond)
		c.expect(engine.SaysReleased, c.release("L"))
		c.grant("M")
	}},
	{"a lapsed lease cools until its min_hold is over", func(c *contract) {
		c.formed(engine.Value{Limit: 1, MinHold: 400 * time.Millisecond})
		claim := c.claim("L")
		claim.TTL = 50 * time.Millisecond
		c.granted(claim)
		c.pass(60 * time.Millisecond)
		full := c.expect(engine.SaysFull, c.claim("M"))
		if full.NextEnd <= 0 || full.NextEnd > 350*time.Millisecond {
			c.Errorf("next end: %s; want what is left of 400ms after 60ms", full.NextEnd)
		}
		c.equal("cooling", c.view().Cooling[0].Lease, "L")
		c.pass(400 * time.Millisecond)
		c.grant("M")
	}},
	{"no tombstone removes what cools", func(c *contract) {
		c.formed(engine.Value{Limit: 1, MinHold: time.Minute})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysReleased, c.release("L"))
		release := c.release("L")
		release.Why, release.AnyOwner = engine.WhyBroken, true
		c.expect(engine.SaysGone, release)
		c.equal("cooling", len(c.view().Cooling), 1)
	}},
	{"min_hold counts from the first placement, not from a mend", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: 200 * time.Millisecond})
		c.grant("L")
		c.pass(210 * time.Millisecond)
		c.expect(engine.SaysMended, c.mend("L", 1, 1))
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("cooling", len(c.view().Cooling), 0)
	}},
}

var coolingTimeRules = []rule{
	{"a window of a minute lets through what its limit says", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: time.Minute})
		for round := range 3 {
			for _, lease := range []string{"L", "M"} {
				claim := c.claim(lease)
				claim.By += string(rune('a' + round))
				c.granted(claim)
				release := c.release(lease)
				release.By = claim.By
				c.expect(engine.SaysReleased, release)
			}
			c.expect(engine.SaysFull, c.claim("N"))
			c.pass(time.Minute)
		}
	}},
}
