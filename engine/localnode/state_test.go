package localnode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

func TestTheBitmapDoesAsASetOfNumbersWould(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	const size = 300
	var b bitmap
	var twin [size]bool
	for step := range 5000 {
		n := rng.IntN(size)
		if twin[n] = !twin[n]; twin[n] {
			b.set(n)
		} else {
			b.clear(n)
		}
		from, end := rng.IntN(size), rng.IntN(size)+1
		below, free := 0, -1
		var after, picked []int
		for i, is := range twin {
			if is && i < end {
				below++
			}
			if is && i >= from {
				after = append(after, i)
			}
			if !is && i >= from && i < end && free < 0 {
				free = i
			}
		}
		start, want := from%end, rng.IntN(max(1, end-below)+1)
		for i := range end {
			if slot := (start + i) % end; !twin[slot] && len(picked) < want {
				picked = append(picked, slot)
			}
		}
		if b.below(end) != below || b.free(from, end) != free || !b.from(from).Equal(quorum.SlotsOf(after...)) || b.has(n) != twin[n] {
			t.Fatalf("step %d: below(%d)=%d want %d, free(%d,%d)=%d want %d, from %s", step, end, b.below(end), below, from, end, b.free(from, end), free, b.from(from))
		}
		if len(picked) == want && !b.pick(start, end, want).Equal(quorum.SlotsOf(picked...)) {
			t.Fatalf("step %d: pick(%d,%d,%d)=%s want %v", step, start, end, want, b.pick(start, end, want), picked)
		}
	}
}

func TestTheHeapGivesWhatEndsFirst(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var h ends[*ending]
	var twin []*ending
	for step := range 20_000 {
		switch op := rng.IntN(4); {
		case op < 2 || len(twin) == 0:
			e := &ending{at: rng.Int64N(1000)}
			h.add(e)
			twin = append(twin, e)
		case op == 2:
			e := twin[rng.IntN(len(twin))]
			e.at = rng.Int64N(1000)
			h.moved(e)
		default:
			i := rng.IntN(len(twin))
			h.remove(twin[i])
			twin = slices.Delete(twin, i, i+1)
		}
		first := never
		for _, e := range twin {
			first = min(first, e.at)
		}
		if h.first() != first || checkEnds("heap", h.items) != nil {
			t.Fatalf("step %d: first %d, want %d; %v", step, h.first(), first, checkEnds("heap", h.items))
		}
	}
}

// randomOp is an operation on one of a few leases of a semaphore, some of them copies.
func randomOp(rng *rand.Rand, now int64) (engine.Op, engine.Placement) {
	lease, by, replica := fmt.Sprint("L", rng.IntN(4)), fmt.Sprint("a", rng.IntN(2)), fmt.Sprint("r", rng.IntN(3))
	who := owner(rng.Int64N(3), replica)
	slots := quorum.SlotsOf(rng.IntN(6), rng.IntN(6))
	ballot := engine.Ballot{Counter: rng.Int64N(3)}
	until, fence, ver := now+rng.Int64N(20)-2, rng.Int64N(100), rng.Int64N(4)
	ttl := []time.Duration{time.Second, time.Minute, engine.Never}[rng.IntN(3)]
	place := engine.Place{Order: order(1+rng.Int64N(9), replica), Weight: 1 + rng.IntN(3), Count: 2, Total: 4}
	p := engine.Placement{Mode: engine.Mode(rng.IntN(4)), Was: order(1+rng.Int64N(9), replica), Place: place}
	if rng.IntN(3) == 0 {
		p.Place = engine.Place{}
	}
	switch rng.IntN(10) {
	case 0, 1, 2:
		return &engine.Claim{
			Semaphore: db, Lease: lease, By: by, Owner: who, Weight: 1 + rng.IntN(2), TTL: ttl, Fence: fence, Start: rng.IntN(9),
			Bound: rng.IntN(3), Ballot: ballot, Wait: rng.IntN(2) == 0, Order: place.Order,
		}, p
	case 3:
		return &engine.Mend{
			Semaphore: db, Lease: lease, By: by, Owner: who, Ver: ver, Slots: slots, Fence: fence, Ballot: ballot, TTL: ttl, Until: until,
			New: rng.IntN(2) == 0,
		}, p
	case 4:
		return &engine.Renew{Semaphore: db, Lease: lease, By: by, Owner: who, Ver: ver, Slots: slots, Fence: fence, Until: until, TTL: ttl}, p
	case 5, 6:
		r := &engine.Release{Semaphore: db, Lease: lease, By: by, Owner: who, AnyOwner: rng.IntN(2) == 0, Why: engine.WhyReleased, Replica: replica}
		if rng.IntN(2) == 0 {
			r.Slots, r.Ver = slots, ver
		}
		return r, p
	case 7:
		return &engine.Attach{Semaphore: db, Lease: lease, By: by, Owner: who, Slots: slots, Ver: ver, Left: ttl}, p
	case 8:
		return &engine.Line{Semaphore: db, Replica: replica}, p
	default:
		return &engine.Accept{
			Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot,
			Value: engine.Value{Limit: 1 + rng.IntN(6), MinHold: time.Duration(rng.IntN(2)) * time.Second, Paused: rng.IntN(4) == 0},
		}, p
	}
}

func TestNoOperationBreaksTheInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 5))
			m := defined(t, engine.Value{Limit: 4})
			for range 2000 {
				m.now += rng.Int64N(300_000)
				if rng.IntN(30) == 0 {
					if s, ok := m.state.semaphores.Get(db); ok && s.lease("X") == nil {
						m.copyOf("X", "a0", rng.Int64N(50), quorum.SlotsOf(rng.IntN(6), rng.IntN(6)))
					}
				}
				op, p := randomOp(rng, m.now)
				m.doAs(p, op)
			}
		})
	}
}

func TestACloneIsEqualAndIndependent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 7))
	m := defined(t, engine.Value{Limit: 4})
	for range 300 {
		m.now += rng.Int64N(300_000)
		op, p := randomOp(rng, m.now)
		m.doAs(p, op)
		twin := &memory{t: t, state: m.state.Clone(), now: m.now, header: m.header}
		for range 10 {
			op, p := randomOp(rng, m.now)
			mine, _ := m.state.Clone().Apply(m.now, m.header, 0, p, op)
			if diff := cmp.Diff(mine, twin.state.Clone().doOnce(m, p, op)); diff != "" {
				t.Fatalf("two clones answer %s differently:\n%s", engine.OpName(op), diff)
			}
		}
		before := m.view()
		for range 10 {
			op, p := randomOp(rng, m.now)
			twin.doAs(p, op)
		}
		if diff := cmp.Diff(before, m.view()); diff != "" {
			t.Fatalf("what the clone did changed the original:\n%s", diff)
		}
	}
}

func (s *State) doOnce(m *memory, p engine.Placement, op engine.Op) *engine.Answer {
	a, _ := s.Apply(m.now, m.header, 0, p, op)
	return a
}
