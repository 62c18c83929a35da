package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// endRules are about what ends by itself.
var endRules = []rule{
	{"a lease whose time is over is gone, whatever asks", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		claim := c.claim("L")
		claim.TTL = 30 * time.Millisecond
		renew := c.renew("L", c.granted(claim))
		c.pass(40 * time.Millisecond)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		c.expect(engine.SaysMissing, renew)
		c.equal("leases", len(c.view().Leases), 0)
		c.grant("M")
	}},
	{"a lease that lapsed may be claimed by the same attempt again", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		claim := c.claim("L")
		claim.TTL = 30 * time.Millisecond
		first := c.granted(claim)
		c.pass(40 * time.Millisecond)
		if again := c.granted(claim); again.Fence <= first.Fence {
			c.Errorf("fence %d after %d", again.Fence, first.Fence)
		}
	}},
}

// endTimeRules are about ends that nobody waits for.
var endTimeRules = []rule{
	{"a lease ends when its time is over and not before", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.pass(leaseTTL - time.Second)
		c.expect(engine.SaysFull, c.claim("M"))
		c.pass(time.Second)
		c.grant("M")
	}},
	{"a lease without an end does not end", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = engine.Never
		c.expect(engine.SaysRenewed, renew)
		c.pass(100 * 24 * time.Hour)
		a := c.expect(engine.SaysFull, c.claim("M"))
		c.equal("next end", a.NextEnd, time.Duration(0))
		c.equal("left", c.record("L").Left, engine.Never)
		c.equal("longest TTL", c.view().LongestTTL, leaseTTL)
	}},
}
