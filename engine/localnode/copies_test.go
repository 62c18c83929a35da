package localnode

import (
	"fmt"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// mendOf is the mend of an undecided claim onto slots, by the attempt and owner of claimOf.
func (m *memory) mendOf(lease, by string, ver int64, slots ...int) *engine.Mend {
	return &engine.Mend{
		Semaphore: db, Lease: lease, By: by, Owner: owner(0, "r1"), Ver: ver, Slots: quorum.SlotsOf(slots...), TTL: 30 * time.Second,
		Until: m.now + 10e6, New: true,
	}
}

// renewOf is a renewal of a lease as it is.
func (m *memory) renewOf(lease string) *engine.Renew {
	r := m.record(lease)
	return &engine.Renew{
		Semaphore: db, Lease: lease, By: r.By, Owner: r.Owner, Ver: r.Ver, Slots: r.Slots, Fence: r.Fence, Ballot: r.Ballot,
		Until: m.now + 10e6, TTL: 30 * time.Second,
	}
}

func TestOfTwoLeasesOnOneSlotNeitherIsRenewedNorAttachedNorMended(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 4})
	m.copyOf("L", "a", 7, quorum.SlotsOf(0, 1))
	m.copyOf("M", "b", 8, quorum.SlotsOf(1, 2))
	attach := &engine.Attach{Semaphore: db, Lease: "L", By: "a", Owner: owner(1, "r2"), Slots: quorum.SlotsOf(0, 1), Left: time.Second}
	renewal := with(m.mendOf("M", "b", 1, 1, 2), func(o *engine.Mend) { o.New = false })

	m.says(m.renewOf("L"), engine.SaysNo)
	m.says(attach, engine.SaysNo)
	m.says(renewal, engine.SaysNo)
	if m.record("M") == nil {
		t.Fatal("a refused renewal's mend dropped the record")
	}
	m.says(releaseOf("M", "b", engine.WhyReleased), engine.SaysReleased)
	if got := m.record("L").Slots.String(); got != "0-1" {
		t.Fatalf("L has %s after M ended, want 0-1", got)
	}
	m.says(attach, engine.SaysNo) // it is still a copy
	m.says(m.renewOf("L"), engine.SaysRenewed)
	m.copyOf("M", "c", 9, quorum.OneSlot(1))
	m.says(attach, engine.SaysNo) // now it is the other one
	m.says(releaseOf("M", "c", engine.WhyReleased), engine.SaysReleased)
	m.says(attach, engine.SaysAttached)
	if a := m.says(claimOf("N", "c"), engine.SaysGranted); !a.Slots.Equal(quorum.OneSlot(2)) {
		t.Errorf("%s was granted, want the one slot that M alone had", a.Slots)
	}
}

func TestARenewalMakesACopyAVoteAndLevelsTheLastFence(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 4})
	m.says(claimOf("L", "a"), engine.SaysGranted)
	m.copied("L")
	renew := with(m.renewOf("L"), func(r *engine.Renew) { r.Fence += 50 })
	m.says(renew, engine.SaysRenewed)
	if r := m.record("L"); r.Copy || r.First || m.view().LastFence != renew.Fence {
		t.Errorf("copy %v, first %v, last fence %d; want false, false, %d", r.Copy, r.First, m.view().LastFence, renew.Fence)
	}
}

func TestAMendOfACopyRaisesItsFenceAlsoOnTheSameSlots(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 4})
	m.copyOf("L", "a", 7, quorum.OneSlot(0))
	last := m.says(claimOf("M", "b"), engine.SaysGranted).Fence
	a := m.says(m.mendOf("L", "a", 1, 0), engine.SaysMended)
	if a.Fence <= last || m.record("L").Copy {
		t.Errorf("fence %d after %d, copy %v", a.Fence, last, m.record("L").Copy)
	}
}

func TestWhatCoolsRefusesTheCopyThatHasItsSlot(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 2, MinHold: time.Minute})
	m.says(claimOf("M", "b"), engine.SaysGranted)
	m.copyOf("L", "a", 7, quorum.OneSlot(0))
	m.says(releaseOf("M", "b", engine.WhyReleased), engine.SaysReleased)
	m.says(m.renewOf("L"), engine.SaysNo)
	m.says(claimOf("L", "a"), engine.SaysFull)
	m.pass(30 * time.Second)
	if m.record("L") != nil || len(m.view().Cooling) != 2 {
		t.Errorf("after its end the copy is there %v, and %d cool; want both leases to cool", m.record("L") != nil, len(m.view().Cooling))
	}
	m.pass(30 * time.Second)
	m.says(claimOf("N", "c"), engine.SaysGranted)
}

func TestACopyBeyondTheBoundIsNotGranted(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 4})
	m.copyOf("L", "a", 7, quorum.OneSlot(3))
	claim := with(claimOf("L", "a"), func(c *engine.Claim) { c.Bound, c.Ballot = 3, engine.Ballot{Counter: 1, Replica: "writer"} })
	m.says(claim, engine.SaysFull)
	claim.Bound = 4
	m.says(claim, engine.SaysGranted)
}

func TestARepeatedReleaseShortensNoTombstone(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 2})
	m.says(with(releaseOf("L", "a", engine.WhyReleased), func(r *engine.Release) { r.Left = 200 * time.Second }), engine.SaysReleased)
	m.pass(time.Second)
	m.says(releaseOf("L", "a", engine.WhyGivenBack), engine.SaysReleased)
	stones := m.do(&engine.Find{Semaphore: db, Lease: "L"}).Tombstones
	if len(stones) != 1 || stones[0].Left != 199*time.Second || stones[0].Why != engine.WhyReleased {
		t.Errorf("the tombstones are %+v", stones)
	}
}

func TestAnAttemptHasOneTombstoneAlsoWhenAnOldOneWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 2})
	for i := range 2*tombstonesDropped + 1 {
		m.says(releaseOf(fmt.Sprint(i), "a", engine.WhyGivenBack), engine.SaysReleased)
	}
	m.pass(time.Minute)
	m.says(releaseOf(fmt.Sprint(2*tombstonesDropped), "a", engine.WhyBroken), engine.SaysReleased)
	if err := m.state.Check(); err != nil {
		t.Error(err)
	}
	stones := m.do(&engine.Find{Semaphore: db, Lease: fmt.Sprint(2 * tombstonesDropped)}).Tombstones
	if len(stones) != 1 || stones[0].Why != engine.WhyBroken {
		t.Errorf("the tombstones are %+v", stones)
	}
}

func TestATombstoneBarsOwnersUpToItsOwnAndALaterOneNot(t *testing.T) {
	t.Parallel()
	m := defined(t, engine.Value{Limit: 2})
	m.says(releaseOf("L", "a", engine.WhyGivenBack), engine.SaysReleased) // by gen 0, where there was no record
	later := with(m.mendOf("L", "a", 1, 0), func(o *engine.Mend) { o.New, o.Owner = false, owner(1, "r2") })
	m.says(with(later, func(o *engine.Mend) { o.Owner = owner(0, "r1") }), engine.SaysNo)
	m.says(later, engine.SaysMended)
	m.says(m.renewOf("L"), engine.SaysRenewed)
	m.says(with(releaseOf("L", "a", engine.WhyBroken), func(r *engine.Release) { r.AnyOwner = true }), engine.SaysReleased)
	m.says(later, engine.SaysNo)
}
