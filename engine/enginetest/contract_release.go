package enginetest

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var releaseRules = []rule{
	{"a release frees all and leaves a tombstone", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		claim := c.claim("L")
		claim.Weight = 2
		c.granted(claim)
		release := c.release("L")
		a := c.expect(engine.SaysReleased, release)
		c.equal("free", a.Free, 3)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		list := c.tombstones("L")
		c.equal("tombstones", len(list), 1)
		c.about("left", list[0].Left, time.Minute)
		c.about("age", -list[0].Age, 0)
		list[0].Left, list[0].Age = 0, 0
		c.equal("tombstone", list[0], engine.Tombstone{By: "L/1", Owner: release.Owner, Why: engine.WhyReleased})
	}},
	{"a repeated release changes nothing", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.grant("M")
		a := c.expect(engine.SaysReleased, c.release("L"))
		c.equal("free", a.Free, 0)
		c.equal("the next holder", c.record("M").Slots, quorum.OneSlot(0))
		c.equal("tombstones", len(c.tombstones("L")), 1)
	}},
	{"a release of a lease never seen leaves a tombstone, also where nothing is defined", func(c *contract) {
		c.form()
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("tombstones", len(c.tombstones("L")), 1)
		c.define(engine.Value{Limit: 1})
		c.expect(engine.SaysGone, c.claim("L"))
	}},
	{"a release of another attempt leaves the record and a tombstone of its own", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		release := c.release("L")
		release.By = "L/0"
		c.do(release)
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
		list := c.tombstones("L")
		c.equal("tombstones", len(list), 1)
		c.equal("by", list[0].By, "L/0")
	}},
	{"a record of a larger owner is kept, and nothing changes", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.expect(engine.SaysAttached, c.attach("L", c.grant("L")))
		c.expect(engine.SaysKept, c.release("L"))
		c.equal("slots", c.record("L").Slots, quorum.OneSlot(0))
		c.equal("tombstones", len(c.tombstones("L")), 0)
	}},
	{"a release that names any owner ends a lease of a larger owner", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.expect(engine.SaysAttached, c.attach("L", c.grant("L")))
		release := c.release("L")
		release.AnyOwner = true
		c.expect(engine.SaysReleased, release)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		c.equal("any owner", c.tombstones("L")[0].AnyOwner, true)
		claim := c.claim("L")
		claim.Owner.Gen = 9
		c.expect(engine.SaysGone, claim)
	}},
	{"a release by a larger owner ends the lease", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		release := c.release("L")
		release.Owner.Gen = 5
		c.expect(engine.SaysReleased, release)
		c.equal("owner", c.tombstones("L")[0].Owner.Gen, int64(5))
	}},
	{"two releases of one attempt by two owners bar both", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		first, second := c.release("L"), c.release("L")
		second.Owner = engine.Owner{Gen: 2, Nonce: "second"}
		c.expect(engine.SaysReleased, second)
		c.expect(engine.SaysReleased, first)
		claim := c.claim("L")
		c.expect(engine.SaysGone, claim)
		claim.Owner = second.Owner
		c.expect(engine.SaysGone, claim)
	}},
	{"a part frees its slots, raises the version and keeps the rest", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Weight = 3
		first := c.granted(claim)
		part := c.release("L")
		part.Slots, part.Ver = quorum.SlotsOf(0, 2), 4
		a := c.expect(engine.SaysReleased, part)
		c.equal("slots", a.Slots, quorum.OneSlot(1))
		c.equal("ver", a.Ver, int64(4))
		c.equal("fence", a.Fence, first.Fence)
		c.equal("free", a.Free, 3)
		c.about("left", a.Left, leaseTTL)
		c.equal("tombstones", len(c.tombstones("L")), 0)
	}},
	{"a part of a version that the record has already changes nothing", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Weight = 3
		c.granted(claim)
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(0), 1
		c.expect(engine.SaysReleased, part)
		part.Slots = quorum.OneSlot(1)
		c.equal("slots", c.expect(engine.SaysReleased, part).Slots, quorum.SlotsOf(1, 2))
	}},
	{"a part that leaves nothing is a release of all", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		c.grant("L")
		part := c.release("L")
		part.Slots, part.Ver = quorum.SlotsOf(0, 3), 1
		c.expect(engine.SaysReleased, part)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		c.equal("tombstones", len(c.tombstones("L")), 1)
	}},
	{"a part that leaves nothing cools once", func(c *contract) {
		c.formed(engine.Value{Limit: 4, MinHold: time.Minute})
		c.grant("L")
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(0), 1
		c.expect(engine.SaysReleased, part)
		c.equal("entries", len(c.view().Cooling), 1)
	}},
	{"a part of a larger owner's record is kept", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		claim := c.claim("L")
		claim.Weight = 2
		c.expect(engine.SaysAttached, c.attach("L", c.granted(claim)))
		part := c.release("L")
		part.Slots, part.Ver = quorum.OneSlot(0), 1
		c.expect(engine.SaysKept, part)
		c.equal("slots", c.record("L").Slots, quorum.SlotsOf(0, 1))
	}},
	{"a tombstone keeps why", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		for _, why := range []string{engine.WhyReleased, engine.WhyBroken, engine.WhyCleaned, engine.WhyGivenBack} {
			release := c.release(why)
			release.Why = why
			c.expect(engine.SaysReleased, release)
			c.equal("why", c.tombstones(why)[0].Why, why)
		}
	}},
	{"a tombstone of a release or a break lives as long as the lease could, as told, an hour at most", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		for _, life := range []struct {
			why        string
			left, want time.Duration
		}{
			{engine.WhyReleased, 0, time.Minute},
			{engine.WhyReleased, 200 * time.Second, 200 * time.Second},
			{engine.WhyReleased, 2 * time.Hour, time.Hour},
			{engine.WhyReleased, engine.Never, time.Hour},
			{engine.WhyBroken, 200 * time.Second, 200 * time.Second},
			{engine.WhyCleaned, 200 * time.Second, time.Minute},
			{engine.WhyGivenBack, 200 * time.Second, time.Minute},
		} {
			lease := life.why + life.left.String()
			release := c.release(lease)
			release.Why, release.Left = life.why, life.left
			c.expect(engine.SaysReleased, release)
			c.about(lease, c.tombstones(lease)[0].Left, life.want)
		}
	}},
	{"a tombstone of a release lives as long as the record could", func(c *contract) {
		c.formed(engine.Value{Limit: 4})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = 200 * time.Second
		c.expect(engine.SaysRenewed, renew)
		c.expect(engine.SaysReleased, c.release("L"))
		c.about("left", c.tombstones("L")[0].Left, 200*time.Second)
	}},
	{"a give-back states its replica's place", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		claim := c.claim("L")
		c.granted(claim)
		back := c.release("L")
		back.Why = engine.WhyGivenBack
		place := engine.Place{Order: claim.Order, Weight: 1, Count: 1, Total: 1}
		a := c.want(engine.SaysReleased, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: place}, back))
		c.equal("place told", a.Place, claim.Order)
		c.equal("place", c.place(me).Order, claim.Order)
	}},
	{"what ended before is said to whoever ends it otherwise", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		for i, ends := range []struct {
			was, why string
			want     engine.Says
		}{
			{engine.WhyBroken, engine.WhyReleased, engine.SaysBroken},
			{engine.WhyReleased, engine.WhyBroken, engine.SaysGone},
			{engine.WhyBroken, engine.WhyBroken, engine.SaysReleased},
			{engine.WhyReleased, engine.WhyReleased, engine.SaysReleased},
			{engine.WhyReleased, engine.WhyCleaned, engine.SaysReleased},
			{engine.WhyGivenBack, engine.WhyBroken, engine.SaysReleased},
			{engine.WhyBroken, engine.WhyGivenBack, engine.SaysReleased},
		} {
			lease := fmt.Sprint("L", i)
			c.grant(lease)
			release := c.release(lease)
			release.Why = ends.was
			c.expect(engine.SaysReleased, release)
			release.Why = ends.why
			c.expect(ends.want, release)
			c.expect(ends.want, release)
			c.equal("it was", c.tombstones(lease)[0].Why, ends.was)
		}
	}},
	{"a tombstone says nothing to a release that finds a record", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		release := c.release("L")
		release.Why = engine.WhyBroken
		c.expect(engine.SaysReleased, release)
		mend := c.mend("L", 1, 0)
		mend.Owner.Gen = 5
		c.expect(engine.SaysMended, mend)
		release = c.release("L")
		release.Owner.Gen = 5
		c.expect(engine.SaysReleased, release)
		c.equal("record", c.record("L"), (*engine.Record)(nil))
	}},
	{"a release that tells is heard by every replica where it finds a record", func(c *contract) {
		c.form()
		c.listening()
		c.define(engine.Value{Limit: 2})
		c.changed(sem)
		told := engine.Wake{Node: 1, Semaphore: sem, Lease: "L 1", Order: engine.Order{Replica: engine.EveryReplica}}
		claim := c.claim("L 1")
		claim.Weight = 2
		c.granted(claim)
		release := c.release("L 1")
		release.Tells = true
		part := c.release("L 1")
		part.Tells, part.Slots, part.Ver = true, quorum.OneSlot(1), 1
		other := c.release("L 1")
		other.Tells, other.By = true, "another"
		c.expect(engine.SaysReleased, other)
		c.expect(engine.SaysReleased, part)
		c.equal("the part", c.change(), told)
		c.expect(engine.SaysReleased, part) // again
		c.expect(engine.SaysReleased, release)
		c.equal("the rest", c.change(), told)
		c.expect(engine.SaysReleased, release) // again
		c.expect(engine.SaysReleased, part)
		c.noChange()
	}},
	{"a release that does not tell is heard by nobody else", func(c *contract) {
		c.form()
		c.listening()
		c.define(engine.Value{Limit: 1})
		c.changed(sem)
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.noChange()
	}},
	{"a release that is kept is heard by nobody else", func(c *contract) {
		c.form()
		c.listening()
		c.define(engine.Value{Limit: 1})
		c.changed(sem)
		c.expect(engine.SaysAttached, c.attach("L", c.grant("L")))
		release := c.release("L")
		release.Tells = true
		c.expect(engine.SaysKept, release)
		c.noChange()
	}},
}

// tombstoneTimeRules are about the lives of tombstones.
var tombstoneTimeRules = []rule{
	{"a tombstone bars its attempt for a minute and no longer", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.expect(engine.SaysReleased, c.release("L"))
		c.pass(59 * time.Second)
		c.expect(engine.SaysGone, c.claim("L"))
		c.pass(time.Second)
		c.equal("tombstones", len(c.tombstones("L")), 0)
		c.granted(c.claim("L"))
	}},
	{"a renewal is refused as long as the released lease could have run", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		renew := c.renew("L", c.grant("L"))
		renew.TTL = 200 * time.Second
		c.expect(engine.SaysRenewed, renew)
		c.expect(engine.SaysReleased, c.release("L"))
		c.pass(70 * time.Second)
		renew.Until = c.now() + time.Minute.Microseconds()
		c.expect(engine.SaysNo, renew)
	}},
	{"a lapsed lease is barred by its late release", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.pass(leaseTTL + time.Second)
		c.expect(engine.SaysReleased, c.release("L"))
		c.expect(engine.SaysGone, c.claim("L"))
	}},
}
