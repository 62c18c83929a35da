package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var mendRules = []rule{
	{"a mend puts a lease on its slots where there is none, with a fence as a claim sets it", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		last := c.grant("M").Fence
		mend := c.mend("L", 1, 2, 4)
		mend.Fence = 1
		a := c.expect(engine.SaysMended, mend)
		c.equal("slots", a.Slots, quorum.SlotsOf(2, 4))
		c.equal("fence", a.Fence, last+1)
		c.equal("ver", a.Ver, int64(1))
		c.equal("left", a.Left, leaseTTL)
		c.equal("definition", a.Definition, mend.Ballot)
		r := c.record("L")
		r.Left, r.Age, r.Touched = 0, 0, 0
		c.equal("record", r, &engine.Record{
			Lease: "L", By: "L/1", Owner: mend.Owner, Slots: quorum.SlotsOf(2, 4), Fence: last + 1, Ver: 1, First: true,
			Ballot: mend.Ballot, Info: "info of L",
		})
	}},
	{"a mend proposes a fence and raises the last one", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		last := c.grant("M").Fence
		mend := c.mend("L", 1, 3)
		mend.Fence = last + 50
		c.equal("fence", c.expect(engine.SaysMended, mend).Fence, last+50)
		c.equal("the next grant's", c.grant("N").Fence, last+51)
	}},
	{"a mend moves a lease to its slots and raises the fence", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		last := c.grant("M").Fence
		a := c.expect(engine.SaysMended, c.mend("L", 1, 3))
		c.equal("slots", a.Slots, quorum.OneSlot(3))
		c.equal("fence", a.Fence, last+1)
		claim := c.claim("N")
		claim.Start = 0
		c.equal("the slot it left", c.granted(claim).Slots, quorum.OneSlot(0))
	}},
	{"a mend onto the slots it has keeps the larger fence", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		fence := c.grant("L").Fence
		c.grant("M")
		mend := c.mend("L", 1, 0)
		mend.Fence = fence - 1
		c.equal("a smaller fence", c.expect(engine.SaysMended, mend).Fence, fence)
		mend.Ver, mend.Fence = 2, fence+100
		c.equal("a larger fence", c.expect(engine.SaysMended, mend).Fence, fence+100)
		c.equal("the next grant's", c.grant("N").Fence, fence+101)
	}},
	{"a mend of a granted lease keeps the fence it names, and raises the last one", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		last := c.grant("M").Fence
		mend := c.mend("L", 1, 3)
		mend.New, mend.Fence = false, last-5
		c.equal("fence", c.expect(engine.SaysMended, mend).Fence, last-5)
		c.equal("the next grant's", c.grant("N").Fence, last+1)
		mend.Fence = last + 100
		c.equal("fence", c.expect(engine.SaysMended, mend).Fence, last+100)
		c.equal("the next grant's", c.grant("O").Fence, last+101)
	}},
	{"a mend never shortens", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		mend := c.mend("L", 1, 0)
		mend.TTL = time.Second
		c.about("left", c.expect(engine.SaysMended, mend).Left, leaseTTL)
		mend.TTL = 2 * leaseTTL
		c.equal("left", c.expect(engine.SaysMended, mend).Left, 2*leaseTTL)
	}},
	{"a mend of a granted lease may last for ever", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		mend := c.mend("L", 1, 0)
		mend.New, mend.First, mend.TTL = false, false, engine.Never
		c.equal("left", c.expect(engine.SaysMended, mend).Left, engine.Never)
		r := c.record("L")
		c.equal("left", r.Left, engine.Never)
		c.equal("first", r.First, false)
	}},
	{"a repeated mend is answered alike", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		mend := c.mend("L", 1, 3)
		first := c.expect(engine.SaysMended, mend)
		again := c.expect(engine.SaysMended, mend)
		c.equal("slots", again.Slots, first.Slots)
		c.equal("fence", again.Fence, first.Fence)
		c.equal("ver", again.Ver, first.Ver)
	}},
	{"no mend after the tombstone", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysNo, c.mend("L", 1, 3))
		renewal := c.mend("L", 1, 3)
		renewal.New = false
		c.expect(engine.SaysNo, renewal)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
	}},
	{"no mend of another attempt", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		mend := c.mend("L", 1, 3)
		mend.By = "L/2"
		c.expect(engine.SaysNo, mend)
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"no mend of an earlier version", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.expect(engine.SaysMended, c.mend("L", 2, 3))
		c.expect(engine.SaysNo, c.mend("L", 1, 4))
		c.expect(engine.SaysNo, c.mend("L", 1, 3))
	}},
	{"no mend of the same version onto other slots, but by the first owner's renewal", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.expect(engine.SaysMended, c.mend("L", 2, 3))
		c.expect(engine.SaysNo, c.mend("L", 2, 4))
		renewal := c.mend("L", 2, 4)
		renewal.New = false
		renewal.Owner.Gen = 1
		c.expect(engine.SaysNo, renewal)
		renewal.Owner.Gen = 0
		c.equal("slots", c.expect(engine.SaysMended, renewal).Slots, quorum.OneSlot(4))
	}},
	{"no mend by a smaller owner", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		a := c.grant("L")
		c.expect(engine.SaysAttached, c.attach("L", a))
		c.expect(engine.SaysNo, c.mend("L", 1, 3))
	}},
	{"no mend from its end on", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		mend := c.mend("L", 1, 3)
		mend.Until = c.now()
		c.expect(engine.SaysNo, mend)
	}},
	{"no mend onto a slot of another lease; a new one's record is dropped if it is elsewhere", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.grant("M")
		c.expect(engine.SaysNo, c.mend("L", 1, 1))
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		claim := c.claim("N")
		c.equal("the slot it left", c.granted(claim).Slots, quorum.OneSlot(0))
	}},
	{"a refused mend drops no record of the same version", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.grant("M")
		c.expect(engine.SaysNo, c.mend("L", 0, 1))
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"a refused mend of a granted lease drops no record", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.grant("M")
		mend := c.mend("L", 1, 1)
		mend.New = false
		c.expect(engine.SaysNo, mend)
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"no mend onto a slot that cools", func(c *contract) {
		c.formed(engine.Value{Limit: 5, MinHold: time.Minute})
		c.grant("M")
		c.expect(engine.SaysReleased, c.release("M"))
		c.expect(engine.SaysNo, c.mend("L", 1, 0))
		renewal := c.mend("L", 1, 0)
		renewal.New = false
		c.expect(engine.SaysNo, renewal)
	}},
	{"a mend may go beyond the limit, because a majority voted so", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		c.equal("slots", c.expect(engine.SaysMended, c.mend("L", 1, 7)).Slots, quorum.OneSlot(7))
		c.equal("beyond", c.expect(engine.SaysOver, c.claim("M")).Beyond, quorum.OneSlot(7))
	}},
	{"a mend names the definition the lease is under", func(c *contract) {
		c.form()
		old := c.define(engine.Value{Limit: 5})
		now := c.define(engine.Value{Limit: 6})
		mend := c.mend("L", 1, 3)
		mend.Ballot = old
		c.equal("accepted", c.expect(engine.SaysMended, mend).Definition, now)
		c.equal("of the record", c.record("L").Ballot, old)
	}},
	{"what a renewal's mend takes away cools, what a claim's does not", func(c *contract) {
		c.formed(engine.Value{Limit: 5, MinHold: time.Minute})
		c.grant("L")
		c.expect(engine.SaysMended, c.mend("L", 1, 1))
		c.equal("cooling", len(c.view().Cooling), 0)
		renewal := c.mend("L", 2, 2)
		renewal.New = false
		c.expect(engine.SaysMended, renewal)
		cooling := c.view().Cooling
		c.equal("entries", len(cooling), 1)
		c.equal("slots", cooling[0].Slots, quorum.OneSlot(1))
		c.equal("lease", cooling[0].Lease, "L")
		c.about("left", cooling[0].Left, time.Minute)
	}},
}

// takeOver returns the mend of a retry: by a larger owner, of the next version.
func (c *contract) takeOver(lease string, ver int64, slots ...int) *engine.Mend {
	mend := c.mend(lease, ver, slots...)
	mend.Owner = engine.Owner{Gen: 1, Nonce: "retry"}
	return mend
}

// retryRules are about the mend by which a retry takes a lease over.
var retryRules = []rule{
	{"a retry takes a record over with a larger owner and a new version", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		first := c.grant("L")
		a := c.expect(engine.SaysMended, c.takeOver("L", 1, 0))
		c.equal("fence", a.Fence, first.Fence)
		r := c.record("L")
		c.equal("owner", r.Owner, engine.Owner{Gen: 1, Nonce: "retry"})
		c.equal("ver", r.Ver, int64(1))
	}},
	{"a retry is refused under another definition", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		mend := c.takeOver("L", 1, 0)
		c.define(engine.Value{Limit: 6})
		c.expect(engine.SaysBallot, mend)
		c.equal("owner", c.record("L").Owner.Gen, int64(0))
	}},
	{"a retry is refused beyond the limit", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		claim := c.claim("L")
		claim.Start = 4
		c.granted(claim)
		c.define(engine.Value{Limit: 4})
		c.expect(engine.SaysOver, c.takeOver("L", 1, 4))
	}},
	{"a retry never adds a slot to a record", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.expect(engine.SaysNo, c.takeOver("L", 1, 0, 1))
		c.expect(engine.SaysNo, c.takeOver("L", 1, 1))
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"a retry puts a lease where it is not", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.equal("slots", c.expect(engine.SaysMended, c.takeOver("L", 1, 2)).Slots, quorum.OneSlot(2))
	}},
	{"a refused retry drops no record", func(c *contract) {
		c.formed(engine.Value{Limit: 5})
		c.grant("L")
		c.grant("M")
		c.expect(engine.SaysNo, c.takeOver("L", 1, 1))
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
	}},
	{"what a retry takes away cools", func(c *contract) {
		c.formed(engine.Value{Limit: 5, MinHold: time.Minute})
		claim := c.claim("L")
		claim.Weight = 2
		c.granted(claim)
		c.expect(engine.SaysMended, c.takeOver("L", 1, 0))
		cooling := c.view().Cooling
		c.equal("entries", len(cooling), 1)
		c.equal("slots", cooling[0].Slots, quorum.OneSlot(1))
	}},
}
