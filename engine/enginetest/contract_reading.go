package enginetest

import (
	"slices"
	"sort"
	"strings"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

var readingRules = []rule{
	{"a lease that nobody knows is found as nothing", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.equal("record", c.record("L"), (*engine.Record)(nil))
		c.equal("tombstones", len(c.tombstones("L")), 0)
	}},
	{"a find tells the record beside the tombstones of other attempts", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		for _, by := range []string{"L/0", "L/-1"} {
			release := c.release("L")
			release.By = by
			c.expect(engine.SaysReleased, release)
		}
		c.grant("L")
		c.equal("by", c.record("L").By, "L/1")
		var attempts []string
		for _, t := range c.tombstones("L") {
			attempts = append(attempts, t.By)
		}
		sort.Strings(attempts)
		c.equal("tombstones", attempts, []string{"L/-1", "L/0"})
	}},
	{"a view tells the definition, the leases, the last fence and the longest TTL", func(c *contract) {
		c.form()
		value := engine.Value{Limit: 3, Data: "data"}
		ballot := c.define(value)
		last := int64(0)
		for _, lease := range []string{"L", "M"} {
			last = c.grant(lease).Fence
		}
		page := c.view()
		c.equal("ballot", page.Definition, ballot)
		c.equal("value", page.Value, value)
		c.equal("last fence", page.LastFence, last)
		c.equal("longest TTL", page.LongestTTL, c.claim("").TTL)
		var got []string
		for _, r := range page.Leases {
			got = append(got, r.Lease+" "+r.By+" "+r.Slots.String()+" "+r.Info)
		}
		sort.Strings(got)
		c.equal("leases", got, []string{"L L/1 0 info of L", "M M/1 1 info of M"})
	}},
	{"a semaphore that nobody knows is viewed as nothing", func(c *contract) {
		c.form()
		page := c.view()
		c.equal("definition", page.Definition, engine.Ballot{})
		c.equal("leases", len(page.Leases)+len(page.Places)+len(page.Cooling), 0)
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
	{"names are in the order of their bytes, with the prefix, after the last one, without what is deleted", func(c *contract) {
		c.form()
		names := []string{"a", "ab", "b", "a\x00", "a:1", "a:10", "a:2", "\xff", "é", "a/🎫"}
		for _, name := range names {
			c.write(engine.RegisterSemaphore, name, engine.Value{Limit: 1})
		}
		c.write(engine.RegisterSemaphore, "a-deleted", engine.Value{Deleted: true})
		c.write(engine.RegisterCluster, "a-cluster", engine.Value{})
		c.expect(engine.SaysPromised, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: "a-promised", Ballot: c.ballot()})
		release := c.release("L")
		release.Semaphore = "a-tombstone"
		c.expect(engine.SaysReleased, release)
		slices.Sort(names)

		read := func(prefix, after string, count int) []string {
			return c.expect(engine.SaysDone, &engine.Names{Prefix: prefix, After: after, Count: count}).Names
		}
		c.equal("all", read("", "", 1000), names)
		c.equal("prefix", read("a:", "", 1000), []string{"a:1", "a:10", "a:2"})
		c.equal("prefix and after", read("a:", "a:1", 1000), []string{"a:10", "a:2"})
		c.equal("two", read("", "", 2), names[:2])
		c.equal("the next two", read("", names[1], 2), names[2:4])
		c.equal("none", len(read("zz", "", 10)), 0)
		c.equal("after the last", len(read("", "\xff", 10)), 0)
	}},
	{"a name is listed no more when its register was dropped", func(c *contract) {
		c.form()
		c.write(engine.RegisterSemaphore, "x", engine.Value{Limit: 1})
		ballot := c.write(engine.RegisterSemaphore, "x", engine.Value{Deleted: true})
		c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterSemaphore, Name: "x", Ballot: ballot})
		c.equal("names", len(c.expect(engine.SaysDone, &engine.Names{Count: 10}).Names), 0)
		c.write(engine.RegisterSemaphore, "x", engine.Value{Limit: 1})
		c.equal("names", c.expect(engine.SaysDone, &engine.Names{Count: 10}).Names, []string{"x"})
	}},
	{"what is deleted and still there is listed apart, until it is dropped or defined anew", func(c *contract) {
		c.form()
		names := []string{"b", "a", "a\x00", "\xff"}
		ballots := map[string]engine.Ballot{}
		for _, name := range names {
			c.write(engine.RegisterSemaphore, name, engine.Value{Limit: 1})
			ballots[name] = c.write(engine.RegisterSemaphore, name, engine.Value{Deleted: true})
			ballots["register "+name] = c.write(engine.RegisterCluster, name, engine.Value{Deleted: true})
		}
		c.write(engine.RegisterSemaphore, "alive", engine.Value{Limit: 1})
		c.expect(engine.SaysPromised, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: "promised", Ballot: c.ballot()})
		slices.Sort(names)

		read := func(op engine.Names) []string {
			op.Deleted = true
			return c.expect(engine.SaysDone, &op).Names
		}
		c.equal("all", read(engine.Names{Count: 10}), names)
		c.equal("prefix and after", read(engine.Names{Prefix: "a", After: "a", Count: 10}), []string{"a\x00"})
		c.equal("two", read(engine.Names{Count: 2}), names[:2])
		c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterCluster, Name: "a", Ballot: ballots["register a"]})
		c.equal("after a register of that name was dropped", read(engine.Names{Count: 10}), names)
		c.expect(engine.SaysDone, &engine.Drop{Kind: engine.RegisterSemaphore, Name: "a", Ballot: ballots["a"]})
		c.write(engine.RegisterSemaphore, "b", engine.Value{Limit: 2})
		c.equal("one dropped, one defined anew", read(engine.Names{Count: 10}), []string{"a\x00", "\xff"})
		c.equal("those that are not deleted", c.expect(engine.SaysDone, &engine.Names{Count: 10}).Names, []string{"alive", "b"})
	}},
}
