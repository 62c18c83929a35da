package localnode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

func TestAClaimTakesTheFirstFreeSlotsFromStartOnAndWraps(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 6})
	a := m.says(with(claimOf("L", "a"), func(c *engine.Claim) { c.Start, c.Weight = 11, 2 }), engine.SaysGranted)
	if got := a.Slots.String(); got != "0,5" {
		t.Errorf("slots %s, want 0,5", got)
	}
	a = m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.Start, c.Weight = 2, 3 }), engine.SaysGranted)
	if got := a.Slots.String(); got != "2-4" || a.Free != 1 {
		t.Errorf("slots %s with %d free, want 2-4 with 1", got, a.Free)
	}
	if a.Left != 30*time.Second || a.Definition.Counter != 1 {
		t.Errorf("left %v under %v", a.Left, a.Definition)
	}
}

func TestAFenceExceedsTheLastTheFloorAndTheProposal(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 3})
	first := m.says(claimOf("L", "a"), engine.SaysGranted).Fence
	if floor := m.state.Record().FenceFloor; first != floor+1 {
		t.Errorf("the first fence is %d, the floor %d", first, floor)
	}
	if next := m.says(claimOf("M", "b"), engine.SaysGranted).Fence; next != first+1 {
		t.Errorf("the next fence is %d, want %d", next, first+1)
	}
	proposed := with(claimOf("N", "c"), func(c *engine.Claim) { c.Fence = first + 100 })
	if got := m.says(proposed, engine.SaysGranted).Fence; got != first+100 {
		t.Errorf("the proposed fence became %d, want %d", got, first+100)
	}
}

func TestWhatAClaimIsRefusedBy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		value   engine.Value
		before  func(*memory)
		claim   func(*engine.Claim)
		want    engine.Says
		nextEnd time.Duration
		beyond  quorum.Slots
	}{
		"no definition":        {want: engine.SaysUndefined},
		"a deleted definition": {value: engine.Value{Limit: 3, Deleted: true}, want: engine.SaysUndefined},
		"a tombstone of the attempt, also where no definition would bar it": {
			value:  engine.Value{Limit: 3},
			before: func(m *memory) { m.says(releaseOf("L", "a", engine.WhyGivenBack), engine.SaysReleased) },
			want:   engine.SaysGone,
		},
		"a record of another attempt": {
			value:  engine.Value{Limit: 3},
			before: func(m *memory) { m.says(claimOf("L", "other"), engine.SaysGranted) },
			want:   engine.SaysExists,
		},
		"a bound under another ballot": {
			value: engine.Value{Limit: 3},
			claim: func(c *engine.Claim) { c.Bound, c.Ballot = 3, engine.Ballot{Counter: 9} },
			want:  engine.SaysBallot,
		},
		"a used slot beyond the limit": {
			value: engine.Value{Limit: 3},
			before: func(m *memory) {
				m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.Start = 2 }), engine.SaysGranted)
				m.define(engine.Value{Limit: 2})
			},
			want: engine.SaysOver, nextEnd: 30 * time.Second, beyond: quorum.OneSlot(2),
		},
		"a slot that cools beyond the limit": {
			value: engine.Value{Limit: 3, MinHold: time.Minute},
			before: func(m *memory) {
				m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.Start = 2 }), engine.SaysGranted)
				m.says(releaseOf("M", "b", engine.WhyReleased), engine.SaysReleased)
				m.define(engine.Value{Limit: 2})
			},
			want: engine.SaysOver, nextEnd: time.Minute, beyond: quorum.OneSlot(2),
		},
		"a pause": {value: engine.Value{Limit: 3, Paused: true}, want: engine.SaysPaused},
		"the wait after a cold start": {
			value: engine.Value{Limit: 3},
			before: func(m *memory) {
				s, _ := m.state.semaphores.Get(db)
				s.waitEnd = m.now + 5e6
			},
			want: engine.SaysFull, nextEnd: 5 * time.Second,
		},
		"an earlier place and too little left": {
			value: engine.Value{Limit: 3},
			before: func(m *memory) {
				m.says(claimOf("M", "b"), engine.SaysGranted)
				place := engine.Place{Order: order(5, "r2"), Weight: 2, Count: 1, Total: 2}
				m.saysAs(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: db, Replica: "r2"}, engine.SaysDone)
			},
			claim: func(c *engine.Claim) { c.Order = order(6, "r1") },
			want:  engine.SaysBehind, nextEnd: engine.NodeLimits.PlacePassedAfter,
		},
		"too few free slots": {
			value: engine.Value{Limit: 3},
			before: func(m *memory) {
				m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.Weight = 2 }), engine.SaysGranted)
			},
			claim: func(c *engine.Claim) { c.Weight = 2 },
			want:  engine.SaysFull, nextEnd: 30 * time.Second,
		},
		"too few free slots below the bound": {
			value: engine.Value{Limit: 3},
			claim: func(c *engine.Claim) {
				c.Weight, c.Bound, c.Ballot = 2, 1, engine.Ballot{Counter: 1, Replica: "writer"}
			},
			want: engine.SaysFull,
		},
		"leases that never end, of which no end is told": {
			value: engine.Value{Limit: 1},
			before: func(m *memory) {
				m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.TTL = engine.Never }), engine.SaysGranted)
			},
			want: engine.SaysFull,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			if test.value != (engine.Value{}) {
				m.define(test.value)
			}
			if test.before != nil {
				test.before(m)
			}
			claim := claimOf("L", "a")
			if test.claim != nil {
				test.claim(claim)
			}
			a := m.says(claim, test.want)
			if a.NextEnd != test.nextEnd {
				t.Errorf("the next end is in %v, want %v", a.NextEnd, test.nextEnd)
			}
			if diff := cmp.Diff(test.beyond, a.Beyond); diff != "" {
				t.Errorf("beyond the limit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABoundKeepsAClaimBelowItAlthoughASlotIsBeyondTheLimit(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 8})
	m.says(with(claimOf("M", "b"), func(c *engine.Claim) { c.Start = 7 }), engine.SaysGranted)
	ballot := m.define(engine.Value{Limit: 4})
	a := m.says(with(claimOf("L", "a"), func(c *engine.Claim) { c.Bound, c.Ballot, c.Weight = 3, ballot, 3 }), engine.SaysGranted)
	if a.Slots.String() != "0-2" || a.Free != 0 || !a.Beyond.Equal(quorum.OneSlot(7)) {
		t.Errorf("slots %s, %d free, beyond %s", a.Slots, a.Free, a.Beyond)
	}
}

func TestAnAttemptClaimedAgainIsGrantedAsItIs(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 3})
	first := m.says(claimOf("L", "a"), engine.SaysGranted)
	m.pass(10 * time.Second)
	m.define(engine.Value{Limit: 3, Paused: true})
	again := m.says(claimOf("L", "a"), engine.SaysGranted)
	if again.Fence != first.Fence || !again.Slots.Equal(first.Slots) || again.Left != 20*time.Second {
		t.Errorf("granted %s, fence %d, left %v; at first %s, %d", again.Slots, again.Fence, again.Left, first.Slots, first.Fence)
	}
	if again.Definition != first.Definition {
		t.Errorf("the old grant is a vote under %v, want %v: under the new definition it was never given", again.Definition, first.Definition)
	}
	if m.view().LastFence != first.Fence {
		t.Error("claiming again raised the fence")
	}
}

func TestACopyOfItsOwnRecordIsNoVoteUntilItIsClaimedAgain(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 3})
	first := m.says(claimOf("L", "a"), engine.SaysGranted)
	m.copied("L")
	m.says(claimOf("M", "b"), engine.SaysGranted)
	again := m.says(claimOf("L", "a"), engine.SaysGranted)
	if !again.Slots.Equal(first.Slots) || again.Fence != first.Fence+2 || m.record("L").Copy {
		t.Errorf("slots %s, fence %d, copy %v; want %s, %d, false", again.Slots, again.Fence, m.record("L").Copy, first.Slots, first.Fence+2)
	}
}

func TestACopyThatSharesASlotIsNotGranted(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 3})
	m.says(claimOf("M", "b"), engine.SaysGranted)
	m.copyOf("L", "a", 7, quorum.OneSlot(0))
	m.says(claimOf("L", "a"), engine.SaysFull)
	m.says(releaseOf("M", "b", engine.WhyReleased), engine.SaysReleased)
	if a := m.says(claimOf("N", "c"), engine.SaysGranted); !a.Slots.Equal(quorum.OneSlot(1)) {
		t.Errorf("the copy's slot does not block: %s was granted", a.Slots)
	}
	m.says(claimOf("L", "a"), engine.SaysGranted)
}

func TestACopyIsNotGrantedInTheWaitAfterAColdStart(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 3})
	m.copyOf("L", "a", 7, quorum.OneSlot(0))
	s, _ := m.state.semaphores.Get(db)
	s.waitEnd = m.now + 60e6
	m.says(claimOf("L", "a"), engine.SaysFull)
}
