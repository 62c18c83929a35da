package enginetest

import (
	"errors"
	"time"

	"github.com/permitd/permitd/engine"
)

// token returns one of this replica's tokens.
func token(counter int64) engine.Ballot { return engine.Ballot{Counter: counter, Replica: me} }

// freeze returns what a former sends first.
func (c *contract) freeze(counter int64) *engine.Freeze {
	return &engine.Freeze{Token: token(counter), RunID: c.runID()}
}

// load returns what a former sends next.
func (c *contract) load(counter int64) *engine.Load {
	return &engine.Load{Token: token(counter), RunID: c.runID(), Cluster: clusterID, N: 3, Index: 1, Known: []int64{7, 7, 7}}
}

func (c *contract) commit(counter int64) *engine.Commit {
	return &engine.Commit{Token: token(counter), RunID: c.runID()}
}

// out fails the test unless the node refuses to be asked.
func (c *contract) out(a *engine.Answer) {
	c.Helper()
	if a.Says != engine.SaysOut && !errors.Is(a.Err, engine.ErrOut) {
		c.Errorf("%v %s; want out", a.Err, summary(a))
	}
}

var formingRules = []rule{
	{"a blank node has no record and is out", func(c *contract) {
		c.equal("record", c.awaitProbe(func(engine.Probe) bool { return true }).Record, (*engine.NodeRecord)(nil))
		if c.runID() == "" {
			c.Error("the node has no run_id")
		}
		c.out(c.do(c.claim("L")))
	}},
	{"freeze, load and commit make a blank node one of a cluster", func(c *contract) {
		a := c.expect(engine.SaysDone, c.freeze(1))
		c.equal("state", a.Node.State, engine.StateFrozen)
		c.equal("token", a.Node.Token, token(1))
		c.equal("ever ok", a.Node.EverOK, false)
		instance := a.Node.Instance
		if instance == "" {
			c.Error("the record names no instance")
		}
		a = c.expect(engine.SaysDone, c.load(1))
		c.equal("state", a.Node.State, engine.StateFrozen)
		c.equal("pending", a.Node.Pending, &engine.Pending{Token: token(1), Cluster: clusterID, N: 3, Index: 1, Known: []int64{7, 7, 7}, Complete: true})
		a = c.expect(engine.SaysDone, c.commit(1))
		r := a.Node
		if r.FenceFloor < a.Time {
			c.Errorf("fence floor %d; want the node's time %d", r.FenceFloor, a.Time)
		}
		c.equal("record", r, &engine.NodeRecord{
			Format: engine.FormatNow, Cluster: clusterID, N: 3, Index: 1, RunID: c.runID(), Replid: r.Replid, State: engine.StateOK,
			EverOK: true, Era: 7, Known: []int64{7, 7, 7}, Instance: instance, Token: token(1), FenceFloor: r.FenceFloor,
		})
		p := c.awaitProbe(func(p engine.Probe) bool { return p.Record != nil && p.Record.State == engine.StateOK })
		c.equal("as probed", p.Record, r)
		c.equal("refusal", p.Refusal, error(nil))
		c.define(engine.Value{Limit: 1})
		c.grant("L")
	}},
	{"the wait after a cold start is told by what reads a semaphore, and by refusals whatever else ends before it", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(1))
		load := c.load(1)
		load.Wait = time.Hour
		c.expect(engine.SaysDone, load)
		c.expect(engine.SaysDone, c.commit(1))
		c.serving()
		c.define(engine.Value{Limit: 2})
		c.about("wait", c.view().Wait, time.Hour)
		c.about("next end", c.expect(engine.SaysFull, c.claim("L")).NextEnd, time.Hour)
		c.expect(engine.SaysMended, c.mend("M", 1, 1))
		c.about("next end", c.expect(engine.SaysFull, c.claim("L")).NextEnd, time.Hour)
	}},
	{"a node that waits for nothing tells no wait", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.equal("wait", c.view().Wait, time.Duration(0))
	}},
	{"a commit may be repeated", func(c *contract) {
		c.form()
		c.expect(engine.SaysDone, c.commit(1))
		c.define(engine.Value{Limit: 1})
		c.grant("L")
		c.expect(engine.SaysDone, c.commit(1))
		c.equal("leases", len(c.view().Leases), 1)
	}},
	{"a freeze may be repeated, and a larger token takes over from the one it has seen", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(2))
		c.expect(engine.SaysDone, c.freeze(2))
		c.expect(engine.SaysNo, c.freeze(1))
		first := c.freeze(1)
		first.Was = token(2)
		c.expect(engine.SaysNo, first)
		c.expect(engine.SaysNo, c.freeze(3)) // it has not seen the token 2
		third := c.freeze(3)
		third.Was = token(2)
		a := c.expect(engine.SaysDone, third)
		c.equal("token", a.Node.Token, token(3))
		c.expect(engine.SaysNo, c.freeze(2))
	}},
	{"a freeze that comes late, when what its token was for is done, stops nobody", func(c *contract) {
		late := c.freeze(1)
		c.form()
		c.expect(engine.SaysDone, c.commit(1))
		late.Cluster = clusterID
		c.expect(engine.SaysNo, late)
		c.expect(engine.SaysDone, c.commit(1))
		c.define(engine.Value{Limit: 1})
	}},
	{"an era is marked once, by one token, and it grows", func(c *contract) {
		c.form()
		c.expect(engine.SaysDone, c.commit(1))
		mark := func(known int64, node int, era, counter int64, want engine.Says) {
			c.Helper()
			header := &engine.Header{Cluster: clusterID, Index: 1, Known: []int64{7, 7, known}}
			a := c.send(header, 0, engine.Placement{}, &engine.Mark{Node: node, Era: era, Token: token(counter)})
			if a.Says != want || a.Node == nil {
				c.Errorf("mark of era %d of node %d by token %d: %s; want %s", era, node, counter, summary(a), want)
			}
		}
		mark(7, 2, 8, 5, engine.SaysDone)
		mark(8, 2, 8, 5, engine.SaysDone)
		mark(8, 2, 8, 6, engine.SaysNo)
		mark(8, 2, 7, 5, engine.SaysNo)
		mark(8, 1, 9, 5, engine.SaysNo) // its own era it takes from nobody
		mark(8, 2, 10, 6, engine.SaysDone)
		mark(10, 2, 9, 6, engine.SaysNo)
	}},
	{"the longest TTL that a node was told of only grows", func(c *contract) {
		c.form()
		for _, told := range []struct{ ttl, want time.Duration }{{0, 0}, {time.Hour, time.Hour}, {time.Minute, time.Hour}, {7 * 24 * time.Hour, 7 * 24 * time.Hour}} {
			c.equal("longest", c.expect(engine.SaysDone, &engine.Note{Longest: told.ttl}).Node.Longest, told.want)
		}
	}},
	{"a memory is committed whole or not at all", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(1))
		page := func(seq int, more bool) *engine.Load {
			op := c.load(1)
			op.Seq, op.More, op.Page = seq, more, &engine.Page{}
			return op
		}
		c.expect(engine.SaysDone, page(0, true))
		c.expect(engine.SaysNo, page(2, false))
		c.expect(engine.SaysNo, c.commit(1))
		c.expect(engine.SaysDone, page(1, false))
		c.expect(engine.SaysDone, page(1, false))
		c.expect(engine.SaysDone, c.commit(1))
	}},
	{"a refusal shows the record", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(2))
		c.equal("token", c.expect(engine.SaysNo, c.freeze(1)).Node.Token, token(2))
		c.equal("token", c.expect(engine.SaysNo, c.load(1)).Node.Token, token(2))
		c.equal("token", c.expect(engine.SaysNo, c.commit(1)).Node.Token, token(2))
	}},
	{"a load or commit under another token is refused", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(1))
		c.expect(engine.SaysDone, c.load(1))
		second := c.freeze(2)
		second.Was = token(1)
		c.expect(engine.SaysDone, second)
		c.expect(engine.SaysNo, c.load(1))
		c.expect(engine.SaysNo, c.commit(1))
		c.expect(engine.SaysNo, c.commit(2)) // what is pending is the first one's
		c.expect(engine.SaysDone, c.load(2))
		c.expect(engine.SaysDone, c.commit(2))
	}},
	{"a load or commit of a node that is not frozen is refused", func(c *contract) {
		c.expect(engine.SaysNo, c.load(1))
		c.expect(engine.SaysNo, c.commit(1))
		c.form()
		c.expect(engine.SaysNo, c.load(1))
		c.expect(engine.SaysNo, c.commit(2))
	}},
	{"a commit without a load is refused", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(1))
		c.expect(engine.SaysNo, c.commit(1))
	}},
	{"what names another run_id is refused", func(c *contract) {
		freeze := c.freeze(1)
		freeze.RunID = "another"
		a := c.expect(engine.SaysNo, freeze)
		c.equal("record", a.Node, (*engine.NodeRecord)(nil))
		c.expect(engine.SaysDone, c.freeze(1))
		load := c.load(1)
		load.RunID = "another"
		c.expect(engine.SaysNo, load)
		c.expect(engine.SaysDone, c.load(1))
		commit := c.commit(1)
		commit.RunID = "another"
		c.expect(engine.SaysNo, commit)
		c.expect(engine.SaysDone, c.commit(1))
	}},
	{"a node that was ever ok gives way to its own cluster only", func(c *contract) {
		c.form()
		freeze := c.freeze(2)
		freeze.Was = token(1)
		c.expect(engine.SaysNo, freeze)
		freeze.Cluster = "another"
		c.expect(engine.SaysNo, freeze)
		freeze.Cluster = clusterID
		a := c.expect(engine.SaysDone, freeze)
		c.equal("state", a.Node.State, engine.StateFrozen)
		c.equal("ever ok", a.Node.EverOK, true)
	}},
	{"a node that is frozen is out, and keeps its memory", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		fence := c.grant("L").Fence
		freeze := c.freeze(2)
		freeze.Was, freeze.Cluster = token(1), clusterID
		c.expect(engine.SaysDone, freeze)
		c.out(c.do(c.claim("M")))
		c.expect(engine.SaysDone, c.load(2))
		committed := c.expect(engine.SaysDone, c.commit(2)).Time
		c.serving()
		c.equal("fence", c.record("L").Fence, fence)
		c.expect(engine.SaysReleased, c.release("L"))
		if again := c.grant("M").Fence; again < committed {
			c.Errorf("fence %d; want at least %d, the node's time at the commit", again, committed)
		}
	}},
}
