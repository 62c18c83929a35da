package engine

import (
	"testing"
	"time"
)

func TestClocksOfNodesAreComparedAmongThemselves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seen, want []time.Duration }{
		{nil, nil},
		{[]time.Duration{-1e18}, []time.Duration{0}}, // a clock of its own, as the embedded store's
		{[]time.Duration{5, 5 + time.Second, 7}, []time.Duration{-2, time.Second - 2, 0}},
		{[]time.Duration{0, 3, 9}, []time.Duration{0, -6, 0}}, // the first is not known
	} {
		nodes := make([]NodeStatus, len(c.seen))
		for i, offset := range c.seen {
			nodes[i].ClockOffset = offset
		}
		relateClocks(nodes)
		for i, want := range c.want {
			if got := nodes[i].ClockOffset; got != want {
				t.Errorf("%v: node %d is off by %v; want %v", c.seen, i, got, want)
			}
		}
	}
}
