package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
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
	{"at most 1,000 leases end in one call, and the answer says that more are due", func(c *contract) {
		const leases = 2500
		c.formed(engine.Value{Limit: leases})
		c.claimMany(leases, 1, time.Second)
		c.pass(time.Second + time.Millisecond)
		c.endsIn(3, 500)
	}},
	{"at most 10,000 slots are freed in one call, but at least one lease ends", func(c *contract) {
		c.formed(engine.Value{Limit: 40_000})
		c.claimMany(5, 6000, time.Second)
		c.pass(time.Second + time.Millisecond)
		c.endsIn(5, 40_000)
	}},
	{"10,000 leases end at once in ten calls, none of them long", func(c *contract) {
		const leases = 10_000
		c.formed(engine.Value{Limit: leases})
		c.claimMany(leases, 1, 2*time.Second)
		c.pass(2*time.Second + time.Millisecond)
		c.endsIn(10, leases)
	}},
}

// claimMany fills the node with leases of one weight that end ttl after now at the latest: they are claimed with as much as is
// left then, so that all are over by the same time.
func (c *contract) claimMany(leases, weight int, ttl time.Duration) {
	c.Helper()
	answered := make(chan *engine.Answer, leases)
	start := 0
	calls := make([]*engine.Call, 0, leases)
	for i := range leases {
		claim := c.claim(fmt.Sprint("lease ", i))
		claim.Weight, claim.TTL, claim.Start = weight, ttl, start
		start += weight
		calls = append(calls, &engine.Call{Header: c.header, Op: claim, Done: func(a *engine.Answer) { answered <- a }})
	}
	c.Node.Send(calls...)
	for range leases {
		select {
		case a := <-answered:
			c.want(engine.SaysGranted, a)
			c.sawTime(a.Time)
		case <-time.After(answerWithin):
			c.Fatal("a claim was not answered in time")
		}
	}
}

// endsIn fails the test unless it takes so many calls until nothing more is due, and so many permits are free then.
func (c *contract) endsIn(calls, free int) {
	c.Helper()
	for n := 1; ; n++ {
		a := c.expect(engine.SaysDone, &engine.Find{Semaphore: sem, Lease: "nobody's"})
		if !a.More {
			c.equal("calls", n, calls)
			break
		}
		if n > calls {
			c.Fatalf("more is due after %d calls; want %d", n, calls)
		}
	}
	claim := c.claim("L")
	claim.Weight = min(free, engine.WeightMax)
	c.granted(claim)
	c.equal("leases", len(c.view().Leases), 1)
}

// endTimeRules are about ends that nobody waits for.
var endTimeRules = []rule{
	{"a lease ends when its time is over and not before", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.grant("L")
		c.pass(9 * time.Second)
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
		c.equal("longest TTL", c.view().LongestTTL, 10*time.Second)
	}},
	{"10,000 tombstones end and leave nothing", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		const tombstones = 10_000
		answered := make(chan *engine.Answer, tombstones)
		for i := range tombstones {
			release := c.release(fmt.Sprint("lease ", i))
			c.Node.Send(&engine.Call{Header: c.header, Op: release, Done: func(a *engine.Answer) { answered <- a }})
		}
		for range tombstones {
			c.want(engine.SaysReleased, <-answered)
		}
		c.equal("the first", len(c.tombstones("lease 0")), 1)
		c.pass(2 * time.Hour)
		c.equal("the first", len(c.tombstones("lease 0")), 0)
		c.granted(c.claim("lease 9999"))
	}},
	{"slots and names of any size come back whole", func(c *contract) {
		c.form()
		name := strings.Repeat("é", engine.NameMax/2)
		c.write(engine.RegisterSemaphore, name, engine.Value{Limit: 100})
		claim := c.claim(strings.Repeat("l", 26))
		claim.Semaphore, claim.Info, claim.Weight = name, strings.Repeat("\x00", 4096), 100
		c.granted(claim)
		r := c.expect(engine.SaysDone, &engine.Find{Semaphore: name, Lease: claim.Lease}).Record
		c.equal("slots", r.Slots, quorum.Slots{{First: 0, Last: 99}})
		c.equal("info", r.Info, claim.Info)
	}},
}
