package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// attach returns the attach of what the node answered about the lease, by the next owner.
func (c *contract) attach(lease string, a *engine.Answer) *engine.Attach {
	return &engine.Attach{
		Semaphore: sem, Lease: lease, By: lease + "/1", Owner: engine.Owner{Gen: 1, Nonce: "attached"},
		Slots: a.Slots, Ver: a.Ver, Left: a.Left,
	}
}

var attachRules = []rule{
	{"an attach makes a larger owner the owner, and tells the lease", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		first := c.grant("L")
		a := c.expect(engine.SaysAttached, c.attach("L", first))
		c.equal("slots", a.Slots, first.Slots)
		c.equal("fence", a.Fence, first.Fence)
		c.equal("ver", a.Ver, first.Ver)
		r := c.record("L")
		c.equal("owner", r.Owner, engine.Owner{Gen: 1, Nonce: "attached"})
		c.equal("first", r.First, true)
	}},
	{"an attach lengthens to the end that was found, and never shortens", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		first := c.grant("L")
		attach := c.attach("L", first)
		attach.Left = time.Second
		c.about("left", c.expect(engine.SaysAttached, attach).Left, leaseTTL)
		attach.Left = 2 * leaseTTL
		c.equal("left", c.expect(engine.SaysAttached, attach).Left, 2*leaseTTL)
		attach.Left = engine.Never
		c.equal("left", c.expect(engine.SaysAttached, attach).Left, engine.Never)
	}},
	{"a repeated attach is attached again; a smaller owner has moved", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		first := c.grant("L")
		attach := c.attach("L", first)
		c.expect(engine.SaysAttached, attach)
		c.expect(engine.SaysAttached, attach)
		smaller := *attach
		smaller.Owner.Nonce = "a"
		c.expect(engine.SaysMoved, &smaller)
		smaller.Owner = engine.Owner{Nonce: "zzz"}
		c.expect(engine.SaysMoved, &smaller)
		larger := *attach
		larger.Owner.Gen = 2
		c.expect(engine.SaysAttached, &larger)
		c.expect(engine.SaysMoved, attach)
	}},
	{"no attach where there is no record, or one of another attempt", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		first := c.grant("L")
		c.expect(engine.SaysNo, c.attach("M", first))
		attach := c.attach("L", first)
		attach.By = "L/2"
		c.expect(engine.SaysNo, attach)
	}},
	{"no attach to other slots or another version", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Weight = 2
		first := c.granted(claim)
		attach := c.attach("L", first)
		attach.Slots = quorum.OneSlot(0)
		c.expect(engine.SaysNo, attach)
		attach.Slots = quorum.SlotsOf(0, 1, 2)
		c.expect(engine.SaysNo, attach)
		attach = c.attach("L", first)
		attach.Ver = 1
		c.expect(engine.SaysNo, attach)
		c.equal("owner", c.record("L").Owner.Gen, int64(0))
	}},
	{"no attach of what was found before a part was given back", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Weight = 2
		first := c.granted(claim)
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(0), 1
		c.expect(engine.SaysReleased, part)
		c.expect(engine.SaysNo, c.attach("L", first))
	}},
	{"no attach after the tombstone", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		first := c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysNo, c.attach("L", first))
	}},
}
