package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
)

// registerKinds: what is true of a register is true of both kinds.
var registerKinds = []string{engine.RegisterSemaphore, engine.RegisterCluster}

// aValue has every field of a value set.
var aValue = engine.Value{Limit: 3, MinHold: 250 * time.Millisecond, Paused: true, Data: "{\"any\x00 bytes\xff\": 1}"}

var registerRules = []rule{
	{"what nobody wrote is promised and read as nothing", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			a := c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"})
			c.equal("value", a.Value, engine.Value{})
			c.equal("ballot", a.Definition, engine.Ballot{})
			a = c.expect(engine.SaysPromised, &engine.Prepare{Kind: kind, Name: "x", Ballot: c.ballot()})
			c.equal("value", a.Value, engine.Value{})
			c.equal("ballot", a.Definition, engine.Ballot{})
			a = c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"})
			c.equal("ballot after a promise", a.Definition, engine.Ballot{})
		}
	}},
	{"an accepted value is read, and told by the next promise", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			ballot := c.write(kind, "x", aValue)
			a := c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"})
			c.equal("value", a.Value, aValue)
			c.equal("ballot", a.Definition, ballot)
			a = c.expect(engine.SaysPromised, &engine.Prepare{Kind: kind, Name: "x", Ballot: c.ballot()})
			c.equal("value", a.Value, aValue)
			c.equal("ballot", a.Definition, ballot)
		}
	}},
	{"a promise bars smaller and equal ballots from a promise, and smaller ones from being accepted", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			at := func(counter int64, replica string) engine.Ballot {
				return engine.Ballot{Counter: counter, Replica: replica}
			}
			prepare := func(says engine.Says, b engine.Ballot) *engine.Answer {
				return c.expect(says, &engine.Prepare{Kind: kind, Name: "x", Ballot: b})
			}
			accept := func(says engine.Says, b engine.Ballot) *engine.Answer {
				return c.expect(says, &engine.Accept{Kind: kind, Name: "x", Ballot: b, Value: aValue})
			}
			promised := at(5, "M")
			prepare(engine.SaysPromised, promised)
			c.equal("promise", prepare(engine.SaysNo, promised).Promise, promised)
			c.equal("promise", prepare(engine.SaysNo, at(5, "L")).Promise, promised)
			c.equal("promise", prepare(engine.SaysNo, at(4, "Z")).Promise, promised)
			c.equal("promise", accept(engine.SaysNo, at(5, "L")).Promise, promised)
			c.equal("nothing accepted", c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"}).Definition, engine.Ballot{})
			accept(engine.SaysAccepted, promised)
			accept(engine.SaysAccepted, promised) // again
			c.equal("promise", prepare(engine.SaysNo, promised).Promise, promised)
			prepare(engine.SaysPromised, at(5, "N"))
			accept(engine.SaysNo, promised)
		}
	}},
	{"an accept needs no promise, and bars what is smaller", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			large, small := engine.Ballot{Counter: 9, Replica: me}, engine.Ballot{Counter: 8, Replica: me}
			c.expect(engine.SaysAccepted, &engine.Accept{Kind: kind, Name: "x", Ballot: large, Value: aValue})
			a := c.expect(engine.SaysNo, &engine.Accept{Kind: kind, Name: "x", Ballot: small, Value: engine.Value{Limit: 1}})
			c.equal("promise", a.Promise, large)
			c.equal("promise", c.expect(engine.SaysNo, &engine.Prepare{Kind: kind, Name: "x", Ballot: small}).Promise, large)
			c.equal("value", c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"}).Value, aValue)
		}
	}},
	{"ballots count beyond what a float holds only below 2^53, and any replica name is kept", func(c *contract) {
		c.form()
		ballot := engine.Ballot{Counter: 1<<53 - 1, Replica: "any\x00 name:\xff,"}
		for _, kind := range registerKinds {
			c.expect(engine.SaysPromised, &engine.Prepare{Kind: kind, Name: "x", Ballot: ballot})
			c.expect(engine.SaysAccepted, &engine.Accept{Kind: kind, Name: "x", Ballot: ballot, Value: aValue})
			c.equal("ballot", c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"}).Definition, ballot)
		}
	}},
	{"kinds and names do not touch each other", func(c *contract) {
		c.form()
		names := []string{
			"a", "A", "a:b", "a:", ":a", "a b", "{a}", "{a}b", "a}", "..", ".", "/", "a/b", "*", "a\x00b", "\xff\xfe", "é", "🎫",
			"cluster", "semaphore", "%s", "\"", "\\", "a,b", "lease", strings.Repeat("n", engine.NameMax),
		}
		for _, kind := range registerKinds {
			for i, name := range names {
				c.write(kind, name, engine.Value{Limit: i + 1, Data: kind + name})
			}
		}
		for _, kind := range registerKinds {
			for i, name := range names {
				a := c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: name})
				c.equal(fmt.Sprintf("%s %q", kind, name), a.Value, engine.Value{Limit: i + 1, Data: kind + name})
			}
		}
		for i, name := range names {
			claim := c.claim("L")
			claim.Semaphore, claim.Weight = name, i+1
			c.equal(fmt.Sprintf("free of %q", name), c.granted(claim).Free, 0)
			c.equal(fmt.Sprintf("leases of %q", name), len(c.expect(engine.SaysDone, &engine.View{Semaphore: name, Count: 10}).View.Leases), 1)
		}
	}},
	{"a large value is kept", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			value := engine.Value{Limit: 1, Data: strings.Repeat("\x00\xff large ", 10_000)}
			c.write(kind, "x", value)
			c.equal("value", c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"}).Value, value)
		}
	}},
	{"only what is deleted under this very ballot is dropped", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			drop := func(says engine.Says, ballot engine.Ballot) {
				c.Helper()
				c.expect(says, &engine.Drop{Kind: kind, Name: "x", Ballot: ballot})
			}
			drop(engine.SaysNo, engine.Ballot{})
			drop(engine.SaysNo, c.ballot())
			alive := c.write(kind, "x", aValue)
			drop(engine.SaysNo, alive)
			deleted := c.write(kind, "x", engine.Value{Deleted: true})
			drop(engine.SaysNo, alive)
			drop(engine.SaysDone, deleted)
			a := c.expect(engine.SaysDone, &engine.Peek{Kind: kind, Name: "x"})
			c.equal("ballot", a.Definition, engine.Ballot{})
			c.equal("value", a.Value, engine.Value{})
		}
	}},
	{"nothing is dropped while anything is held, cools or waits", func(c *contract) {
		c.formed(engine.Value{Limit: 2, MinHold: time.Second})
		c.grant("L")
		c.grant("M")
		c.expect(engine.SaysReleased, c.release("L"))
		ballot := c.define(engine.Value{Deleted: true})
		drop := &engine.Drop{Kind: engine.RegisterSemaphore, Name: sem, Ballot: ballot}
		c.expect(engine.SaysNo, drop) // M is held, L cools
		c.expect(engine.SaysReleased, c.release("M"))
		c.expect(engine.SaysNo, drop) // L cools; of what is deleted nothing begins to
		c.pass(1010 * time.Millisecond)
		c.waits(me, 10, 1)
		c.expect(engine.SaysNo, drop)
		c.stateLine(engine.PlaceAlways, engine.Order{}, engine.Place{})
		c.expect(engine.SaysDone, drop)
	}},
	{"nothing is dropped while a larger ballot is promised", func(c *contract) {
		c.form()
		for _, kind := range registerKinds {
			deleted := c.write(kind, "x", engine.Value{Deleted: true})
			drop := &engine.Drop{Kind: kind, Name: "x", Ballot: deleted}
			promised := c.ballot()
			c.expect(engine.SaysPromised, &engine.Prepare{Kind: kind, Name: "x", Ballot: promised})
			c.equal("promise", c.expect(engine.SaysNo, drop).Promise, promised)
			c.expect(engine.SaysNo, &engine.Prepare{Kind: kind, Name: "x", Ballot: deleted})
			c.expect(engine.SaysAccepted, &engine.Accept{Kind: kind, Name: "x", Ballot: promised, Value: engine.Value{Deleted: true}})
			c.expect(engine.SaysNo, drop)
			drop.Ballot = promised
			c.expect(engine.SaysDone, drop)
		}
	}},
	{"the fence floor never falls", func(c *contract) {
		c.form()
		for i, fence := range []int64{1 << 52, 1 << 51, 0} {
			name := fmt.Sprint("semaphore ", i)
			c.write(engine.RegisterSemaphore, name, engine.Value{Limit: 1})
			claim, release := c.claim("L"), c.release("L")
			claim.Semaphore, claim.Fence, release.Semaphore = name, fence, name
			if got := c.granted(claim).Fence; got < 1<<52 {
				c.Errorf("fence %d; want no less than the floor", got)
			}
			c.expect(engine.SaysReleased, release)
			ballot := c.write(engine.RegisterSemaphore, name, engine.Value{Deleted: true})
			c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterSemaphore, Name: name, Ballot: ballot})
		}
	}},
	{"fences grow across deletion and creation anew", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		claim := c.claim("L")
		claim.Fence = 1 << 52
		fence := c.granted(claim).Fence
		c.expect(engine.SaysReleased, c.release("L"))
		ballot := c.define(engine.Value{Deleted: true})
		c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterSemaphore, Name: sem, Ballot: ballot})
		c.define(engine.Value{Limit: 1})
		if again := c.grant("M").Fence; again <= fence {
			c.Errorf("fence %d after %d", again, fence)
		}
		c.write(engine.RegisterSemaphore, "another", engine.Value{Limit: 1})
		claim = c.claim("N")
		claim.Semaphore = "another"
		if fence := c.granted(claim).Fence; fence <= 1<<52 {
			c.Errorf("another semaphore's fence is %d; want more than the floor", fence)
		}
	}},
	{"a fence starts no smaller than the time when the node was formed", func(c *contract) {
		c.form()
		formed := c.now()
		c.define(engine.Value{Limit: 1})
		if fence := c.grant("L").Fence; fence < formed-time.Minute.Microseconds() {
			c.Errorf("fence %d; the node was formed at about %d", fence, formed)
		}
	}},
	{"a deleted semaphore keeps its leases, and they can be released", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		a := c.grant("L")
		c.define(engine.Value{Deleted: true})
		c.expect(engine.SaysRenewed, c.renew("L", a))
		c.expect(engine.SaysReleased, c.release("L"))
		c.equal("record", c.record("L"), (*engine.Record)(nil))
	}},
}
