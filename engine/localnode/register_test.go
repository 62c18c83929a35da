package localnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestAnAcceptorKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{engine.RegisterSemaphore, engine.RegisterCluster} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			ballot := func(n int64) engine.Ballot { return engine.Ballot{Counter: n, Replica: "r"} }
			prepare := func(n int64, want engine.Says) *engine.Answer {
				t.Helper()
				return m.says(&engine.Prepare{Kind: kind, Name: "x", Ballot: ballot(n)}, want)
			}
			accept := func(n int64, want engine.Says) *engine.Answer {
				t.Helper()
				return m.says(&engine.Accept{Kind: kind, Name: "x", Ballot: ballot(n), Value: engine.Value{Limit: int(n), Data: "d"}}, want)
			}
			prepare(5, engine.SaysPromised)
			if got := prepare(5, engine.SaysNo).Promise; got != ballot(5) {
				t.Errorf("the promise is %v, want 5", got)
			}
			if got := accept(4, engine.SaysNo).Promise; got != ballot(5) {
				t.Errorf("the promise is %v, want 5", got)
			}
			accept(5, engine.SaysAccepted)
			accept(5, engine.SaysAccepted) // again
			prepare(5, engine.SaysNo)
			a := prepare(7, engine.SaysPromised)
			if a.Definition != ballot(5) || a.Value.Limit != 5 {
				t.Errorf("promised with %v under %v", a.Value, a.Definition)
			}
			accept(6, engine.SaysNo)
			accept(8, engine.SaysAccepted)
			if a := m.do(&engine.Peek{Kind: kind, Name: "x"}); a.Definition != ballot(8) || a.Value.Limit != 8 {
				t.Errorf("peeked %v under %v", a.Value, a.Definition)
			}
		})
	}
}

func TestWhatIsNotDropped(t *testing.T) {
	t.Parallel()
	deleted := engine.Value{Limit: 1, Deleted: true}
	tests := map[string]struct {
		before func(m *memory)
		value  engine.Value
		ballot engine.Ballot // zero: that of the value
		want   engine.Says
	}{
		"what is deleted and idle": {value: deleted, want: engine.SaysDone},
		"what is not deleted":      {value: engine.Value{Limit: 1}, want: engine.SaysNo},
		"under another ballot":     {value: deleted, ballot: engine.Ballot{Counter: 1}, want: engine.SaysNo},
		"while somebody holds":     {func(m *memory) { m.says(claimOf("L", "a"), engine.SaysGranted) }, deleted, engine.Ballot{}, engine.SaysNo},
		"while somebody waits":     {func(m *memory) { m.waits("r2", 10, 1) }, deleted, engine.Ballot{}, engine.SaysNo},
		"while something cools": {func(m *memory) {
			m.define(engine.Value{Limit: 1, MinHold: time.Minute})
			m.says(claimOf("L", "a"), engine.SaysGranted)
			m.says(releaseOf("L", "a", engine.WhyReleased), engine.SaysReleased)
		}, deleted, engine.Ballot{}, engine.SaysNo},
		"while a cold start is waited out": {func(m *memory) {
			s, _ := m.state.semaphores.Get(db)
			s.waitEnd = m.now + 1
		}, deleted, engine.Ballot{}, engine.SaysNo},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := defined(t, engine.Value{Limit: 1})
			if test.before != nil {
				test.before(m)
			}
			ballot := m.define(test.value)
			if test.ballot != (engine.Ballot{}) {
				ballot = test.ballot
			}
			m.says(&engine.Drop{Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot}, test.want)
		})
	}
}

func TestFencesGrowAcrossADrop(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 1})
	first := m.says(with(claimOf("L", "a"), func(c *engine.Claim) { c.Fence = 1 << 50 }), engine.SaysGranted).Fence
	m.says(releaseOf("L", "a", engine.WhyReleased), engine.SaysReleased)
	ballot := m.define(engine.Value{Deleted: true})
	m.says(&engine.Drop{Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot}, engine.SaysDone)
	m.says(claimOf("L", "a"), engine.SaysUndefined)
	m.define(engine.Value{Limit: 1})
	m.says(claimOf("L", "a"), engine.SaysGone) // its tombstone outlives the register
	if next := m.says(claimOf("M", "b"), engine.SaysGranted).Fence; next <= first {
		t.Errorf("the fence after the drop is %d, before it %d", next, first)
	}
}

func TestNamesComeInPagesAndWithoutWhatIsDeleted(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	for i, name := range []string{"b", "a/3", "a/1", "a/2", "z"} {
		accept := &engine.Accept{
			Kind: engine.RegisterSemaphore, Name: name, Ballot: engine.Ballot{Counter: 1}, Value: engine.Value{Limit: 1, Deleted: i == 1},
		}
		m.says(accept, engine.SaysAccepted)
	}
	m.says(&engine.Prepare{Kind: engine.RegisterSemaphore, Name: "only promised", Ballot: engine.Ballot{Counter: 1}}, engine.SaysPromised)
	for _, page := range []struct {
		op   engine.Names
		want []string
	}{
		{engine.Names{Count: 10}, []string{"a/1", "a/2", "b", "z"}},
		{engine.Names{Prefix: "a/", Count: 10}, []string{"a/1", "a/2"}},
		{engine.Names{Prefix: "a/", After: "a/1", Count: 10}, []string{"a/2"}},
		{engine.Names{After: "a/1", Count: 2}, []string{"a/2", "b"}},
		{engine.Names{After: "z", Count: 2}, nil},
	} {
		if got := m.do(&page.op).Names; !slices.Equal(got, page.want) {
			t.Errorf("%+v: %v, want %v", page.op, got, page.want)
		}
	}
}

func TestAViewComesInPages(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 25})
	m.waits("r2", 10, 1)
	for i := range 25 {
		m.says(claimOf(fmt.Sprintf("L%02d", i), "a"), engine.SaysGranted)
	}
	var leases []string
	cursor, places := "", 0
	for range 3 {
		page := m.do(&engine.View{Semaphore: db, Cursor: cursor, Count: 10}).View
		for _, l := range page.Leases {
			leases = append(leases, l.Lease)
		}
		places += len(page.Places)
		cursor = page.Next
	}
	if len(leases) != 25 || !slices.IsSorted(leases) || cursor != "" || places != 1 {
		t.Errorf("%d leases, next %q, %d places", len(leases), cursor, places)
	}
}
