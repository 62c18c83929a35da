package enginetest

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// bulkWindow is how many calls are under way at once: nodes refuse what waits too long behind others.
const bulkWindow = 200

// bulkRules are about thousands of leases.
var bulkRules = []rule{
	{"at most 1,000 leases end in one call, and the answer says that more are due", func(c *contract) {
		const leases = 2500
		c.formed(engine.Value{Limit: leases})
		c.lapseMany(leases, 1)
		c.endsIn(3, leases)
	}},
	{"at most 10,000 slots are freed in one call, but at least one lease ends", func(c *contract) {
		c.formed(engine.Value{Limit: 40_000})
		c.lapseMany(5, 6000)
		c.endsIn(5, 40_000)
	}},
	{"10,000 leases end at once in ten calls", func(c *contract) {
		const leases = 10_000
		c.formed(engine.Value{Limit: leases})
		c.lapseMany(leases, 1)
		c.endsIn(10, leases)
	}},
	{"10,000 tombstones are kept", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		var ops []engine.Op
		for i := range 10_000 {
			ops = append(ops, c.release(fmt.Sprint("lease ", i)))
		}
		c.expectAll(engine.SaysReleased, ops)
		for _, lease := range []string{"lease 0", "lease 5000", "lease 9999"} {
			c.equal(lease, len(c.tombstones(lease)), 1)
			c.expect(engine.SaysGone, c.claim(lease))
		}
	}},
	{"pages of a view have every lease once", func(c *contract) {
		const leases = 2500
		c.formed(engine.Value{Limit: leases})
		for i := range leases {
			c.grant(fmt.Sprint("lease ", i))
		}
		c.waits(me, 10, 1)
		seen := map[string]int{}
		slots := quorum.Slots(nil)
		pages := 0
		for cursor := ""; ; pages++ {
			a := c.expect(engine.SaysDone, &engine.View{Semaphore: sem, Cursor: cursor, Count: 400})
			if places := len(a.View.Places); (places == 1) != (cursor == "") {
				c.Errorf("%d places on page %d; want the line on the first one only", places, pages)
			}
			for _, r := range a.View.Leases {
				seen[r.Lease]++
				slots = slots.Union(r.Slots)
			}
			if cursor = a.View.Next; cursor == "" {
				break
			}
		}
		c.equal("leases", len(seen), leases)
		c.equal("slots", slots, quorum.Slots{{First: 0, Last: leases - 1}})
		for lease, times := range seen {
			if times > 1 {
				c.Errorf("%s is on %d pages", lease, times)
			}
		}
		if pages < 2 {
			c.Errorf("%d pages; want several", pages)
		}
	}},
}

// lapseMany fills the node with leases of one weight, and returns when the time of all is over.
func (c *contract) lapseMany(leases, weight int) {
	c.Helper()
	const ttl = 8 * time.Second // longer than it takes to claim them
	start := time.Now()
	var ops []engine.Op
	for i := range leases {
		claim := c.claim(fmt.Sprint("lease ", i))
		claim.Weight, claim.Start, claim.TTL = weight, i*weight, ttl
		ops = append(ops, claim)
	}
	c.expectAll(engine.SaysGranted, ops)
	if took := time.Since(start); took > ttl {
		c.Fatalf("it took %s to claim %d leases: the first ones have ended already", took, leases)
	}
	c.pass(ttl + time.Millisecond)
}

// expectAll sends operations, some at a time, and fails the test unless the node says what is wanted to each.
func (c *contract) expectAll(says engine.Says, ops []engine.Op) {
	c.Helper()
	answered := make(chan *engine.Answer, bulkWindow)
	for len(ops) > 0 {
		n := min(len(ops), bulkWindow)
		var calls []*engine.Call
		for _, op := range ops[:n] {
			calls = append(calls, &engine.Call{Header: c.header, Op: op, Done: func(a *engine.Answer) { answered <- a }})
		}
		c.Node.Send(calls...)
		for range n {
			select {
			case a := <-answered:
				c.sawTime(c.want(says, a).Time)
			case <-time.After(answerWithin):
				c.Fatal("an operation was not answered in time")
			}
		}
		ops = ops[n:]
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
