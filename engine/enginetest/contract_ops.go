package enginetest

import (
	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// claim returns a claim for one slot by a lease: attempt "lease/1", for a minute, later in line than all before.
func (c *contract) claim(lease string) *engine.Claim {
	return c.claimOf(me, lease)
}

func (c *contract) claimOf(replica, lease string) *engine.Claim {
	c.order++
	return &engine.Claim{
		Semaphore: sem, Lease: lease, By: lease + "/1", Owner: engine.Owner{Nonce: "owner of " + lease}, Info: "info of " + lease,
		Weight: 1, TTL: leaseTTL, Order: engine.Order{Arrival: c.order, Replica: replica, Seq: c.order},
	}
}

// granted claims and fails the test unless it is granted.
func (c *contract) granted(claim *engine.Claim) *engine.Answer {
	c.Helper()
	return c.expect(engine.SaysGranted, claim)
}

// grant gives one slot to a lease.
func (c *contract) grant(lease string) *engine.Answer {
	c.Helper()
	return c.granted(c.claim(lease))
}

// release returns the release of all of a lease that claim got, by its owner.
func (c *contract) release(lease string) *engine.Release {
	return &engine.Release{
		Semaphore: sem, Lease: lease, By: lease + "/1", Owner: engine.Owner{Nonce: "owner of " + lease},
		Why: engine.WhyReleased, Replica: me,
	}
}

// renew returns a renewal of what the node answered about the lease.
func (c *contract) renew(lease string, a *engine.Answer) *engine.Renew {
	return &engine.Renew{
		Semaphore: sem, Lease: lease, By: lease + "/1", Owner: engine.Owner{Nonce: "owner of " + lease},
		Ver: a.Ver, Slots: a.Slots, Fence: a.Fence, Ballot: a.Definition, Until: c.now() + leaseTTL.Microseconds(),
		TTL: leaseTTL,
	}
}

// mend returns a mend of a new lease onto slots, under the last ballot.
func (c *contract) mend(lease string, ver int64, slots ...int) *engine.Mend {
	return &engine.Mend{
		Semaphore: sem, Lease: lease, By: lease + "/1", Owner: engine.Owner{Nonce: "owner of " + lease}, Info: "info of " + lease,
		Ver: ver, Slots: quorum.SlotsOf(slots...), Ballot: engine.Ballot{Counter: c.ballots, Replica: me}, TTL: leaseTTL,
		First: true, Until: c.now() + leaseTTL.Microseconds(), New: true,
	}
}

// record reads a lease; nil if there is none.
func (c *contract) record(lease string) *engine.Record {
	c.Helper()
	return c.expect(engine.SaysDone, &engine.Find{Semaphore: sem, Lease: lease}).Record
}

// tombstones reads those of a lease.
func (c *contract) tombstones(lease string) []engine.Tombstone {
	c.Helper()
	return c.expect(engine.SaysDone, &engine.Find{Semaphore: sem, Lease: lease}).Tombstones
}

// view reads the semaphore, which must fit a page.
func (c *contract) view() *engine.ViewPage {
	c.Helper()
	page := c.expect(engine.SaysDone, &engine.View{Semaphore: sem, Count: 1000}).View
	if page == nil || page.Next != "" {
		c.Fatalf("the semaphore does not fit one page: %+v", page)
	}
	return page
}

// place reads the place of a replica; its order is zero if it has none.
func (c *contract) place(replica string) engine.Placed {
	c.Helper()
	for _, p := range c.view().Places {
		if p.Order.Replica == replica {
			return p
		}
	}
	return engine.Placed{}
}

// waits states a place of a replica with one waiter by the mode "always", and returns it.
func (c *contract) waits(replica string, arrival int64, weight int) engine.Place {
	c.Helper()
	place := engine.Place{
		Order:  engine.Order{Arrival: arrival, Replica: replica, Seq: arrival},
		Weight: weight, Count: 1, Total: weight,
	}
	c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: sem, Replica: replica}))
	return place
}
