package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var renewRules = []rule{
	{"a renewal lengthens the lease and clears its first minute", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = time.Hour
		a := c.expect(engine.SaysRenewed, renew)
		c.equal("left", a.Left, time.Hour)
		c.equal("slots", a.Slots, quorum.OneSlot(0))
		r := c.record("L")
		c.equal("first", r.First, false)
		c.about("left", r.Left, time.Hour)
		c.about("longest TTL", c.view().LongestTTL, time.Hour)
	}},
	{"a renewal never shortens", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = time.Second
		c.about("left", c.expect(engine.SaysRenewed, renew).Left, leaseTTL)
	}},
	{"a lease may be renewed to last for ever, and does not end by a later renewal", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = engine.Never
		c.equal("left", c.expect(engine.SaysRenewed, renew).Left, engine.Never)
		renew.TTL = time.Second
		c.equal("left", c.expect(engine.SaysRenewed, renew).Left, engine.Never)
		c.equal("left", c.record("L").Left, engine.Never)
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("record", c.record("L"), (*engine.Record)(nil))
	}},
	{"a renewal levels fence, version, ballot and owner", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		first := c.grant("L")
		renew := c.renew("L", first)
		renew.Fence, renew.Ver, renew.Ballot = first.Fence+9, first.Ver, engine.Ballot{Counter: 77, Replica: other}
		renew.Owner = engine.Owner{Gen: 3, Nonce: "third"}
		a := c.expect(engine.SaysRenewed, renew)
		c.equal("fence", a.Fence, first.Fence+9)
		r := c.record("L")
		c.equal("owner", r.Owner, renew.Owner)
		c.equal("ballot", r.Ballot, renew.Ballot)
		c.equal("fence", r.Fence, first.Fence+9)
		c.equal("the next grant's fence", c.grant("M").Fence, first.Fence+10)
	}},
	{"a renewal with a smaller fence lowers the record's and not the last one", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		first := c.grant("L")
		renew := c.renew("L", first)
		renew.Fence--
		c.equal("fence", c.expect(engine.SaysRenewed, renew).Fence, first.Fence-1)
		c.equal("the next grant's fence", c.grant("M").Fence, first.Fence+1)
	}},
	{"a renewal narrows a record to its slots, and the rest cools", func(c *contract) {
		c.formed(engine.Value{Limit: 5, MinHold: time.Minute})
		claim := c.claim("L")
		claim.Weight = 3
		renew := c.renew("L", c.granted(claim))
		renew.Slots = quorum.SlotsOf(0, 2)
		a := c.expect(engine.SaysRenewed, renew)
		c.equal("slots", a.Slots, quorum.SlotsOf(0, 2))
		c.equal("free", a.Free, 2)
		c.equal("cooling", c.view().Cooling[0].Slots, quorum.OneSlot(1))
	}},
	{"no renewal after the tombstone, also where no record is left", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysNo, renew)
	}},
	{"no renewal of another attempt", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		renew.By = "L/2"
		c.expect(engine.SaysNo, renew)
	}},
	{"no renewal of an earlier version", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		c.expect(engine.SaysMended, c.mend("L", 1, 3))
		c.expect(engine.SaysNo, renew)
	}},
	{"no renewal from its end on", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		renew := c.renew("L", c.grant("L"))
		renew.Until = c.now()
		c.expect(engine.SaysNo, renew)
	}},
	{"a renewal by a smaller owner has moved", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		a := c.grant("L")
		c.expect(engine.SaysAttached, c.attach("L", a))
		c.expect(engine.SaysMoved, c.renew("L", a))
	}},
	{"no record, an earlier version or a slot that is not held is missing", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		a := c.grant("L")
		c.expect(engine.SaysMissing, c.renew("M", a))

		later := c.renew("L", a)
		later.Ver++
		c.expect(engine.SaysMissing, later)

		wider := c.renew("L", a)
		wider.Slots = quorum.SlotsOf(0, 1)
		c.expect(engine.SaysMissing, wider)
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"a renewal of a part that was given back is refused", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Weight = 2
		a := c.granted(claim)
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(1), 1
		c.expect(engine.SaysReleased, part)
		c.expect(engine.SaysNo, c.renew("L", a))
	}},
	{"another attempt and an end that has come are seen before a larger owner, the owner before what is missing", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		a := c.grant("L")
		c.expect(engine.SaysAttached, c.attach("L", a))
		renew := c.renew("L", a)
		renew.Slots = quorum.SlotsOf(0, 1)
		c.expect(engine.SaysMoved, renew)
		renew.Until = c.now()
		c.expect(engine.SaysNo, renew)
	}},
}
