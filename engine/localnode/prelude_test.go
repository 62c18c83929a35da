package localnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestAStrangerIsToldWhyItMayNotAsk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header        *engine.Header
		state, reason string
	}{
		"another cluster": {&engine.Header{Cluster: "d", Index: 1, Known: []int64{1, 1, 1}}, engine.StateOK, "another cluster"},
		"another index":   {&engine.Header{Cluster: "c", Index: 2, Known: []int64{1, 1, 1}}, engine.StateOK, "another index"},
		"no header":       {nil, engine.StateOK, "another cluster"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := defined(t, engine.Value{Limit: 1})
			m.header = test.header
			a := m.says(claimOf("L", "a"), engine.SaysOut)
			if a.State != test.state || a.Reason != test.reason {
				t.Errorf("told %q, %q", a.State, a.Reason)
			}
		})
	}
}

func TestABlankOrFrozenNodeIsOut(t *testing.T) {
	t.Parallel()
	m := &memory{t: t, state: NewState(), now: 1e9, header: &engine.Header{Cluster: "c"}}
	if a := m.says(claimOf("L", "a"), engine.SaysOut); a.State != "" || a.Reason != "no record" {
		t.Errorf("told %q, %q", a.State, a.Reason)
	}
	m = defined(t, engine.Value{Limit: 1})
	r := m.state.Record()
	m.says(&engine.Freeze{Token: engine.Ballot{Counter: 2}, Was: r.Token, Cluster: "c", RunID: runID}, engine.SaysDone)
	if a := m.says(claimOf("L", "a"), engine.SaysOut); a.State != engine.StateFrozen {
		t.Errorf("told %q, %q", a.State, a.Reason)
	}
}

func TestErasAreCompared(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		known    []int64
		want     engine.Says
		remember []int64
	}{
		"the same":                              {[]int64{5, 3, 5}, engine.SaysFull, []int64{5, 3, 5}},
		"behind about another node":             {[]int64{4, 3, 5}, engine.SaysStale, []int64{5, 3, 5}},
		"behind about this node":                {[]int64{5, 2, 5}, engine.SaysStale, []int64{5, 3, 5}},
		"ahead about this node, never believed": {[]int64{5, 4, 5}, engine.SaysStale, []int64{5, 3, 5}},
		"ahead about another, remembered":       {[]int64{5, 3, 9}, engine.SaysFull, []int64{5, 3, 9}},
		"ahead and behind, nothing remembered":  {[]int64{9, 3, 4}, engine.SaysStale, []int64{5, 3, 5}},
		"too short":                             {[]int64{5, 3}, engine.SaysStale, []int64{5, 3, 5}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := defined(t, engine.Value{Limit: 1})
			m.says(claimOf("M", "b"), engine.SaysGranted)
			m.state.setRecord(func(r *engine.NodeRecord) { r.Known, r.Era = []int64{5, 3, 5}, 3 })
			m.header = &engine.Header{Cluster: "c", Index: 1, Known: test.known}
			a := m.says(claimOf("L", "a"), test.want)
			if got := m.state.Record().Known; !slices.Equal(got, test.remember) {
				t.Errorf("remembers %v, want %v", got, test.remember)
			}
			if test.want == engine.SaysStale && !slices.Equal(a.Known, test.remember) {
				t.Errorf("told %v, want %v", a.Known, test.remember)
			}
		})
	}
}

func TestAnAttemptWhoseTimeIsOverOrHasNotComeIsLate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		at   time.Duration // after now
		want engine.Says
	}{
		{0, engine.SaysGranted},
		{50 * time.Millisecond, engine.SaysGranted},
		{50*time.Millisecond + time.Microsecond, engine.SaysLate},
		{-5 * time.Second, engine.SaysGranted},
		{-5*time.Second - time.Microsecond, engine.SaysLate},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.at), func(t *testing.T) {
			t.Parallel()
			m := defined(t, engine.Value{Limit: 1})
			a, _ := m.state.Apply(m.now, m.header, m.now+test.at.Microseconds(), engine.Placement{}, claimOf("L", "a"))
			if a.Says != test.want {
				t.Errorf("says %q, want %q", a.Says, test.want)
			}
		})
	}
}

func TestACallDropsAThousandLeasesAndSaysThatMoreAreDue(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 2500})
	for i := range 2500 {
		m.state.Apply(m.now, m.header, 0, engine.Placement{}, claimOf(fmt.Sprint(i), "a"))
	}
	m.pass(30 * time.Second)
	for _, want := range []struct {
		free int
		more bool
	}{{999, true}, {1998, true}, {2497, false}, {2496, false}} {
		a := m.says(claimOf(fmt.Sprint("L", want.free), "a"), engine.SaysGranted)
		if a.Free != want.free || a.More != want.more {
			t.Errorf("%d free, more %v; want %d, %v", a.Free, a.More, want.free, want.more)
		}
	}
}

func TestACallDropsTenThousandSlotsButAlwaysOneLease(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 20_000})
	for i, weight := range []int{10_000, 6_000, 4_000} {
		m.says(with(claimOf(fmt.Sprint(i), "a"), func(c *engine.Claim) { c.Weight = weight }), engine.SaysGranted)
		m.pass(time.Microsecond)
	}
	m.pass(30 * time.Second)
	for i, want := range []int{10_000, 20_000} {
		a := m.do(&engine.Attach{Semaphore: db, Lease: "none"})
		if a.Free != want || a.More != (i == 0) {
			t.Errorf("%d free, more %v; want %d", a.Free, a.More, want)
		}
	}
}

func TestTombstonesAreForgottenWhateverSemaphoreIsAskedFor(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 1})
	for i := range 20 {
		m.says(with(releaseOf("L", "a", engine.WhyReleased), func(r *engine.Release) { r.Semaphore = fmt.Sprint("used once ", i) }), engine.SaysReleased)
	}
	m.pass(time.Minute)
	m.do(&engine.View{Semaphore: db})
	m.do(&engine.View{Semaphore: db})
	if left := m.state.semaphores.Len(); left != 1 {
		t.Errorf("%d semaphores are left, want 1", left)
	}
}
