package localnode

import (
	"slices"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// waits states a place of a replica, whatever it had.
func (m *memory) waits(replica string, arrival int64, weight int) *engine.Answer {
	m.t.Helper()
	return m.states(replica, engine.Placement{Mode: engine.PlaceAlways, Place: placeOf(replica, arrival, weight)})
}

func (m *memory) states(replica string, p engine.Placement) *engine.Answer {
	m.t.Helper()
	return m.saysAs(p, &engine.Line{Semaphore: db, Replica: replica}, engine.SaysDone)
}

func placeOf(replica string, arrival int64, weight int) engine.Place {
	return engine.Place{Order: order(arrival, replica), Weight: weight, Count: 1, Total: weight}
}

// waiting is a claim of a waiter.
func waiting(lease, replica string, arrival int64) *engine.Claim {
	return with(claimOf(lease, lease+"/1"), func(c *engine.Claim) { c.Order, c.Wait = order(arrival, replica), true })
}

func (m *memory) placeOf(replica string) engine.Placed {
	m.t.Helper()
	for _, p := range m.view().Places {
		if p.Order.Replica == replica {
			return p
		}
	}
	return engine.Placed{}
}

func TestWhenAPlaceIsTaken(t *testing.T) {
	t.Parallel()
	was, earlier, later := order(20, "r1"), placeOf("r1", 10, 1), placeOf("r1", 30, 1)
	tests := map[string]struct {
		p    engine.Placement
		want int64 // arrival of the place then; 0: none
	}{
		"nothing is stated":                          {engine.Placement{Mode: engine.PlaceKeep, Place: later}, 20},
		"an earlier one replaces it, if last":        {engine.Placement{Mode: engine.PlaceIfLast, Place: earlier}, 10},
		"a later one does not, if last":              {engine.Placement{Mode: engine.PlaceIfLast, Place: later}, 20},
		"none clears it, if last":                    {engine.Placement{Mode: engine.PlaceIfLast}, 0},
		"a later one replaces what was stated":       {engine.Placement{Mode: engine.PlaceIfWas, Was: was, Place: later}, 30},
		"none clears what was stated":                {engine.Placement{Mode: engine.PlaceIfWas, Was: was}, 0},
		"what was stated is another one":             {engine.Placement{Mode: engine.PlaceIfWas, Was: order(19, "r1"), Place: later}, 20},
		"nothing was stated, as the sender believes": {engine.Placement{Mode: engine.PlaceIfWas, Place: later}, 20},
		"a later one replaces it, always":            {engine.Placement{Mode: engine.PlaceAlways, Place: later}, 30},
		"none clears it, always":                     {engine.Placement{Mode: engine.PlaceAlways}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := defined(t, engine.Value{Limit: 1})
			m.says(claimOf("L", "a"), engine.SaysGranted)
			m.waits("r1", 20, 1)
			if a := m.states("r1", test.p); a.Place.Arrival != test.want || m.placeOf("r1").Order.Arrival != test.want {
				t.Errorf("told %v, kept %v; want arrival %d", a.Place, m.placeOf("r1").Order, test.want)
			}
		})
	}
}

func TestALaterPlaceRefreshesTheEarlierOne(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 1})
	m.says(claimOf("L", "a"), engine.SaysGranted)
	m.waits("r1", 10, 1)
	m.pass(time.Second)
	refreshed := engine.Place{Order: order(30, "r1"), Weight: 5, Count: 3, Total: 9, Oldest: 2 * time.Second}
	m.states("r1", engine.Placement{Mode: engine.PlaceIfLast, Place: refreshed})
	m.pass(time.Second)
	want := engine.Placed{Place: engine.Place{Order: order(10, "r1"), Weight: 1, Count: 3, Total: 9, Oldest: 3 * time.Second}}
	if got := m.placeOf("r1"); got != want {
		t.Errorf("place %+v, want %+v", got, want)
	}
	m.pass(500 * time.Millisecond)
	if got := m.placeOf("r1"); got != (engine.Placed{}) {
		t.Errorf("1.5 s after it was refreshed there is %+v", got)
	}
}

func TestWhoIsWoken(t *testing.T) {
	t.Parallel()
	full := func(m *memory) { m.says(claimOf("L", "a"), engine.SaysGranted) }
	released := func(m *memory) { m.says(releaseOf("L", "a", engine.WhyReleased), engine.SaysReleased) }
	tests := map[string]struct {
		value  engine.Value
		before func(*memory)
		then   func(*memory)
		want   []string
	}{
		"the head, by a release": {
			before: func(m *memory) { full(m); m.waits("r2", 20, 1); m.waits("r3", 10, 1) },
			then:   released, want: []string{"r3"},
		},
		"nobody, while the head does not fit": {
			before: func(m *memory) { full(m); m.waits("r3", 10, 2); m.waits("r2", 20, 1) },
			value:  engine.Value{Limit: 2},
			then:   func(m *memory) { m.renewAgain("L") },
		},
		"the next, when the head is heavier than the limit": {
			before: func(m *memory) { full(m); m.waits("r3", 10, 2); m.waits("r2", 20, 1) },
			then:   released, want: []string{"r2"},
		},
		"not the replica whose claim follows": {
			before: func(m *memory) { full(m); m.waits("r3", 10, 1); m.waits("r2", 20, 1) },
			then: func(m *memory) {
				m.says(with(releaseOf("L", "a", engine.WhyReleased), func(r *engine.Release) { r.Replica, r.Follows = "r3", true }), engine.SaysReleased)
			},
		},
		"the head, though another replica's claim follows": {
			before: func(m *memory) { full(m); m.waits("r3", 10, 1); m.waits("r2", 20, 1) },
			then: func(m *memory) {
				m.says(with(releaseOf("L", "a", engine.WhyReleased), func(r *engine.Release) { r.Replica, r.Follows = "r2", true }), engine.SaysReleased)
			},
			want: []string{"r3"},
		},
		"not the waiter that gives back": {
			before: full,
			then: func(m *memory) {
				back := with(releaseOf("L", "a", engine.WhyGivenBack), func(r *engine.Release) { r.Replica = "r3" })
				m.saysAs(engine.Placement{Mode: engine.PlaceIfLast, Place: placeOf("r3", 10, 1)}, back, engine.SaysReleased)
			},
		},
		"another head, by a give-back": {
			before: func(m *memory) { full(m); m.waits("r2", 5, 1) },
			then: func(m *memory) {
				back := with(releaseOf("L", "a", engine.WhyGivenBack), func(r *engine.Release) { r.Replica = "r3" })
				m.saysAs(engine.Placement{Mode: engine.PlaceIfLast, Place: placeOf("r3", 10, 1)}, back, engine.SaysReleased)
			},
			want: []string{"r2"},
		},
		"an older waiter of the replica that gives back": {
			before: func(m *memory) { full(m); m.waits("r3", 5, 1) },
			then: func(m *memory) {
				back := with(releaseOf("L", "a", engine.WhyGivenBack), func(r *engine.Release) { r.Replica = "r3" })
				m.saysAs(engine.Placement{Mode: engine.PlaceIfLast, Place: placeOf("r3", 10, 1)}, back, engine.SaysReleased)
			},
			want: []string{"r3"},
		},
		"the place just stated by line, if it fits": {
			then: func(m *memory) { m.waits("r3", 10, 1) }, want: []string{"r3"},
		},
		"not the waiter that is refused, by its own claim": {
			value:  engine.Value{Limit: 2},
			before: full,
			then: func(m *memory) {
				claim := with(waiting("M", "r3", 10), func(c *engine.Claim) { c.Weight = 2 })
				m.saysAs(engine.Placement{Mode: engine.PlaceIfLast, Place: placeOf("r3", 10, 1)}, claim, engine.SaysFull)
			},
		},
		"the head, by a refused claim of another": {
			before: func(m *memory) { m.waits("r2", 5, 1) },
			then: func(m *memory) {
				m.saysAs(engine.Placement{Mode: engine.PlaceIfLast, Place: placeOf("r3", 10, 1)}, waiting("M", "r3", 10), engine.SaysBehind)
			},
			want: []string{"r2"},
		},
		"the next, by a grant that leaves room": {
			value:  engine.Value{Limit: 2},
			before: func(m *memory) { m.waits("r2", 20, 1) },
			then:   func(m *memory) { m.says(waiting("M", "r3", 10), engine.SaysGranted) },
			want:   []string{"r2"},
		},
		"the head, when a lease has lapsed": {
			before: func(m *memory) {
				m.says(with(claimOf("L", "a"), func(c *engine.Claim) { c.TTL = time.Second }), engine.SaysGranted)
				m.waits("r2", 20, 1)
				m.pass(time.Second)
			},
			then: func(m *memory) { m.do(&engine.Find{Semaphore: db, Lease: "L"}) }, want: []string{"r2"},
		},
		"the next, when the head's place has lapsed": {
			value: engine.Value{Limit: 2},
			before: func(m *memory) {
				full(m)
				m.waits("r3", 10, 2)
				m.pass(time.Second)
				m.waits("r2", 20, 1)
				m.pass(500 * time.Millisecond)
			},
			then: func(m *memory) { m.view() }, want: []string{"r2"},
		},
		"the head, when the limit was raised": {
			before: func(m *memory) { full(m); m.waits("r2", 20, 1) },
			then:   func(m *memory) { m.define(engine.Value{Limit: 2}) }, want: []string{"r2", engine.EveryReplica},
		},
		"no head, when the same limit is declared again": {
			before: func(m *memory) { full(m); m.waits("r2", 20, 1) },
			then:   func(m *memory) { m.define(engine.Value{Limit: 1}) }, want: []string{engine.EveryReplica},
		},
		"the head, when a pause ends": {
			value:  engine.Value{Limit: 1, Paused: true},
			before: func(m *memory) { m.waits("r2", 20, 1) },
			then:   func(m *memory) { m.define(engine.Value{Limit: 1}) }, want: []string{"r2", engine.EveryReplica},
		},
		"nobody in a pause": {
			value: engine.Value{Limit: 1, Paused: true},
			then:  func(m *memory) { m.waits("r2", 20, 1) },
		},
		"the head, by the record that a refused mend dropped": {
			value: engine.Value{Limit: 2},
			before: func(m *memory) {
				full(m)
				m.says(claimOf("M", "b"), engine.SaysGranted)
				m.waits("r2", 20, 1)
			},
			then: func(m *memory) { m.says(m.mendOf("L", "a", 1, 1), engine.SaysNo) }, want: []string{"r2"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.value == (engine.Value{}) {
				test.value = engine.Value{Limit: 1}
			}
			m := defined(t, test.value)
			if test.before != nil {
				test.before(m)
			}
			m.wakes = nil
			test.then(m)
			if got := m.wokenReplicas(); !slices.Equal(got, test.want) {
				t.Errorf("woken %v, want %v", got, test.want)
			}
		})
	}
}

// renewAgain renews a lease as it is.
func (m *memory) renewAgain(lease string) {
	m.t.Helper()
	m.says(m.renewOf(lease), engine.SaysRenewed)
}

func TestAWakeNamesTheSlotThatWasJustFreed(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 4})
	for _, lease := range []string{"L0", "L1", "L2"} {
		m.says(claimOf(lease, "a"), engine.SaysGranted)
	}
	m.waits("r2", 20, 2)
	m.says(releaseOf("L1", "a", engine.WhyReleased), engine.SaysReleased)
	want := engine.Wake{Node: 1, Semaphore: db, Order: order(20, "r2"), Slot: 1, Free: 2}
	if len(m.wakes) != 1 || m.wakes[0] != want {
		t.Errorf("woken by %+v, want %+v", m.wakes, want)
	}
}

func TestAPlaceIsPassedOverAHundredMillisecondsAfterItsFirstWake(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 1})
	m.waits("r2", 10, 1)
	m.waits("r3", 20, 1) // wakes r2 again
	m.pass(60 * time.Millisecond)
	m.says(waiting("M", "r4", 30), engine.SaysBehind) // and again: its time goes on from the first
	m.pass(39 * time.Millisecond)
	if m.placeOf("r2").Passed {
		t.Error("passed over after 99 ms")
	}
	m.pass(time.Millisecond)
	if !m.placeOf("r2").Passed || m.placeOf("r3").Passed {
		t.Error("not passed over after 100 ms, or another too")
	}
	a := m.says(waiting("M", "r3", 20), engine.SaysGranted)
	if a.Elsewhere != 0 {
		t.Errorf("%d wait elsewhere; one that is passed over does not count", a.Elsewhere)
	}
	m.waits("r2", 10, 1)
	if m.placeOf("r2").Passed {
		t.Error("passed over although it was stated again")
	}
}
