package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// under sends a claim under another header, or at another time.
func (c *contract) under(header engine.Header, at int64) *engine.Answer {
	c.Helper()
	return c.send(&header, at, engine.Placement{}, c.claim("L"))
}

var headerRules = []rule{
	{"another cluster or index is out", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		header := *c.header
		header.Cluster = "another"
		c.want(engine.SaysOut, c.under(header, 0))
		header = *c.header
		header.Index = 2
		c.want(engine.SaysOut, c.under(header, 0))
		c.equal("leases", len(c.view().Leases), 0)
	}},
	{"another era of this node is stale, both ways, and never learned", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		for _, era := range []int64{6, 8} {
			header := *c.header
			header.Known = []int64{7, era, 7}
			a := c.want(engine.SaysStale, c.under(header, 0))
			c.equal("known", a.Known, []int64{7, 7, 7})
		}
		c.equal("leases", len(c.view().Leases), 0)
	}},
	{"a smaller era of another node is stale", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		header := *c.header
		header.Known = []int64{7, 7, 6}
		a := c.want(engine.SaysStale, c.under(header, 0))
		c.equal("known", a.Known, []int64{7, 7, 7})
	}},
	{"a larger era of another node is remembered", func(c *contract) {
		c.formed(engine.Value{Limit: 2})
		header := *c.header
		header.Known = []int64{9, 7, 7}
		a := c.want(engine.SaysGranted, c.under(header, 0))
		c.equal("known, where it is the header's", a.Known, []int64(nil))
		a = c.want(engine.SaysStale, c.under(*c.header, 0))
		c.equal("known", a.Known, []int64{9, 7, 7})
		header.Known = []int64{7, 7, 12}
		a = c.want(engine.SaysStale, c.under(header, 0))
		c.equal("known, of a header that knows more of one and less of another", a.Known[0], int64(9))
	}},
	{"what comes too late, or too early, is late and does nothing", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		now := c.want(engine.SaysDone, c.do(&engine.Names{Count: 1})).Time
		c.want(engine.SaysLate, c.under(*c.header, now-(5*time.Second+time.Millisecond).Microseconds()))
		c.want(engine.SaysLate, c.under(*c.header, now+time.Hour.Microseconds()))
		c.equal("leases", len(c.view().Leases), 0)
		c.want(engine.SaysGranted, c.under(*c.header, now))
		c.want(engine.SaysGranted, c.under(*c.header, 0))
	}},
	{"an operation of every kind is refused by its header and its time", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		a := c.grant("L")
		stale := *c.header
		stale.Known = []int64{7, 6, 7}
		for _, op := range []engine.Op{
			c.claim("M"), c.mend("L", 1, 2), c.renew("L", a), c.release("L"), c.attach("L", a), &engine.Line{Semaphore: sem, Replica: me},
			&engine.Find{Semaphore: sem, Lease: "L"}, &engine.View{Semaphore: sem, Count: 1}, &engine.Names{Count: 1},
			&engine.Prepare{Kind: engine.RegisterSemaphore, Name: sem, Ballot: c.ballot()},
			&engine.Accept{Kind: engine.RegisterSemaphore, Name: sem, Ballot: c.ballot()},
			&engine.Peek{Kind: engine.RegisterSemaphore, Name: sem}, &engine.Drop{Kind: engine.RegisterSemaphore, Name: sem},
			&engine.PutBlob{Sum: "1f", Pieces: 1}, &engine.GetBlob{Sum: "1f"}, &engine.DropBlob{Sum: "1f"}, &engine.Blobs{},
		} {
			c.want(engine.SaysStale, c.send(&stale, c.now(), engine.Placement{}, op))
			c.want(engine.SaysLate, c.send(c.header, c.now()-time.Minute.Microseconds(), engine.Placement{}, op))
			c.want(engine.SaysOut, c.send(&engine.Header{Cluster: "another", Index: 1, Known: c.header.Known}, c.now(), engine.Placement{}, op))
		}
		c.equal("slots", c.record("L").Slots, a.Slots)
		c.equal("leases", len(c.view().Leases), 1)
	}},
	{"out is seen before stale, stale before late", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		header := engine.Header{Cluster: "another", Index: 1, Known: []int64{1, 1, 1}}
		c.want(engine.SaysOut, c.under(header, 1))
		header.Cluster = clusterID
		c.want(engine.SaysStale, c.under(header, 1))
	}},
	{"a late call still teaches an era", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		header := *c.header
		header.Known = []int64{7, 7, 8}
		c.want(engine.SaysLate, c.under(header, 1))
		c.want(engine.SaysStale, c.under(*c.header, 0))
	}},
	{"every answer carries the node's time", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		last := int64(1)
		for range 3 {
			for _, a := range []*engine.Answer{c.do(c.claim("L")), c.under(*c.header, 1), c.do(&engine.Names{Count: 1}), c.expect(engine.SaysDone, c.commit(1))} {
				if a.Time < last {
					c.Errorf("the node's time is %d after %d", a.Time, last)
				}
				last = a.Time
			}
		}
	}},
}

// headerTimeRules are about the exact limits of what is late.
var headerTimeRules = []rule{
	{"a call may come from 50 ms before its time to 5 s after it", func(c *contract) {
		c.formed(engine.Value{Limit: 3})
		now := c.do(&engine.Names{Count: 1}).Time
		ahead := now + time.Minute.Microseconds()
		c.pass(time.Minute - 60*time.Millisecond)
		c.want(engine.SaysLate, c.under(*c.header, ahead+10*time.Second.Microseconds()))
		c.pass(20 * time.Millisecond)
		c.want(engine.SaysGranted, c.under(*c.header, ahead))
		c.pass(4 * time.Second)
		c.want(engine.SaysGranted, c.under(*c.header, ahead))
		c.pass(2 * time.Second)
		c.want(engine.SaysLate, c.under(*c.header, ahead))
	}},
}
