package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// stateLine states a place of this replica by a mode, and returns the answer.
func (c *contract) stateLine(mode engine.Mode, was engine.Order, place engine.Place) *engine.Answer {
	c.Helper()
	placement := engine.Placement{Mode: mode, Was: was, Place: place}
	return c.want(engine.SaysDone, c.state(placement, &engine.Line{Semaphore: sem, Replica: me}))
}

// placeAt returns a place of this replica with one waiter for one permit.
func placeAt(arrival int64) engine.Place {
	return engine.Place{Order: engine.Order{Arrival: arrival, Replica: me, Seq: arrival}, Weight: 1, Count: 1, Total: 1}
}

// paused lets places be stated without waking anybody.
var paused = engine.Value{Limit: 1, Paused: true}

var lineRules = []rule{
	{"a place is kept as stated", func(c *contract) {
		c.formed(paused)
		place := engine.Place{Order: engine.Order{Arrival: 10, Replica: me, Seq: 3}, Weight: 2, Count: 5, Total: 12, Oldest: 3 * time.Second}
		a := c.stateLine(engine.PlaceAlways, engine.Order{}, place)
		c.equal("place told", a.Place, place.Order)
		c.equal("free", a.Free, 1)
		got := c.place(me)
		c.about("oldest", -got.Oldest, -3*time.Second)
		got.Oldest = place.Oldest
		c.equal("place", got, engine.Placed{Place: place})
	}},
	{"keep states nothing", func(c *contract) {
		c.formed(paused)
		c.stateLine(engine.PlaceKeep, engine.Order{}, placeAt(10))
		c.equal("places", len(c.view().Places), 0)
	}},
	{"if last leaves a place that is before, and refreshes its count", func(c *contract) {
		c.formed(paused)
		first, later := placeAt(10), placeAt(20)
		c.stateLine(engine.PlaceIfLast, engine.Order{}, first)
		later.Count, later.Total = 4, 9
		a := c.stateLine(engine.PlaceIfLast, engine.Order{}, later)
		c.equal("place told", a.Place, first.Order)
		got := c.place(me)
		c.equal("order", got.Order, first.Order)
		c.equal("count", got.Count, 4)
		c.equal("total", got.Total, 9)
		c.stateLine(engine.PlaceIfLast, engine.Order{}, placeAt(5))
		c.equal("an earlier one", c.place(me).Order, placeAt(5).Order)
	}},
	{"if was states only where the place is what was named", func(c *contract) {
		c.formed(paused)
		c.stateLine(engine.PlaceIfWas, placeAt(1).Order, placeAt(10))
		c.equal("none was there", c.place(me).Order, engine.Order{})
		c.stateLine(engine.PlaceIfWas, engine.Order{}, placeAt(10))
		c.equal("none was named", c.place(me).Order, placeAt(10).Order)
		c.stateLine(engine.PlaceIfWas, engine.Order{}, placeAt(20))
		c.stateLine(engine.PlaceIfWas, placeAt(11).Order, placeAt(20))
		c.equal("another is there", c.place(me).Order, placeAt(10).Order)
		c.stateLine(engine.PlaceIfWas, placeAt(10).Order, placeAt(20))
		c.equal("as named", c.place(me).Order, placeAt(20).Order)
		c.stateLine(engine.PlaceIfWas, placeAt(10).Order, engine.Place{})
		c.equal("not cleared", c.place(me).Order, placeAt(20).Order)
		c.stateLine(engine.PlaceIfWas, placeAt(20).Order, engine.Place{})
		c.equal("cleared", c.place(me).Order, engine.Order{})
	}},
	{"always states and clears whatever is there", func(c *contract) {
		c.formed(paused)
		c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(10))
		c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(20))
		c.equal("stated", c.place(me).Order, placeAt(20).Order)
		c.stateLine(engine.PlaceAlways, engine.Order{}, engine.Place{})
		c.equal("places", len(c.view().Places), 0)
	}},
	{"the line is in order, one place a replica", func(c *contract) {
		c.formed(paused)
		for _, arrival := range []int64{30, 10} {
			c.waits("CCCCCCCCCCCCCCCC", arrival, 1)
			c.waits(other, arrival+5, 1)
			c.waits(me, arrival+1, 1)
		}
		var got []int64
		for _, p := range c.view().Places {
			got = append(got, p.Order.Arrival)
		}
		c.equal("arrivals", got, []int64{10, 11, 15})
	}},
	{"answers of line and release count those before this replica's place", func(c *contract) {
		c.formed(paused)
		c.waits(other, 10, 1)
		a := c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(20))
		c.equal("elsewhere", a.Elsewhere, 1)
		c.equal("before", a.Before, 1)
		a = c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(5))
		c.equal("elsewhere", a.Elsewhere, 1)
		c.equal("before", a.Before, 0)
		a = c.expect(engine.SaysReleased, c.release("L"))
		c.equal("elsewhere", a.Elsewhere, 1)
		c.equal("before", a.Before, 0)
	}},
	{"a place lapses a second and a half after it was last stated", func(c *contract) {
		c.formed(paused)
		c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(10))
		c.pass(time.Second)
		c.stateLine(engine.PlaceIfLast, engine.Order{}, placeAt(20)) // refreshes
		c.pass(time.Second)
		c.equal("order", c.place(me).Order, placeAt(10).Order)
		c.pass(510 * time.Millisecond)
		c.equal("places", len(c.view().Places), 0)
	}},
	{"a place that is passed over is not counted, and is again when it is refreshed", func(c *contract) {
		c.formed(engine.Value{Limit: 1})
		c.waits(other, 10, 1) // there is room: woken
		c.pass(110 * time.Millisecond)
		a := c.stateLine(engine.PlaceAlways, engine.Order{}, placeAt(20))
		c.equal("elsewhere", a.Elsewhere, 0)
		later := engine.Place{Order: engine.Order{Arrival: 15, Replica: other, Seq: 15}, Weight: 1, Count: 3, Total: 3}
		c.want(engine.SaysDone, c.state(engine.Placement{Mode: engine.PlaceIfLast, Place: later}, &engine.Line{Semaphore: sem, Replica: other}))
		a = c.stateLine(engine.PlaceKeep, engine.Order{}, engine.Place{})
		c.equal("elsewhere", a.Elsewhere, 3)
		c.equal("before", a.Before, 3)
	}},
}
