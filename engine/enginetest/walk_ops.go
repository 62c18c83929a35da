package enginetest

import (
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

func (w *walk) claim(semaphore string) *engine.Claim {
	page := w.view(semaphore)
	limit := max(1, page.Value.Limit)
	claim := &engine.Claim{
		Semaphore: semaphore, Lease: pick(w, walkLeases...), By: w.by(), Owner: w.owner(), Info: pick(w, "", "info \x00\xff", "{}"),
		Weight: 1 + w.IntN(min(limit, 4)), TTL: w.ttl(false), Fence: w.fence(page.LastFence), Start: w.IntN(2 * limit),
		Wait: w.often(0.6), Order: w.newOrder(pick(w, walkReplicas...)),
	}
	if w.often(0.05) {
		claim.Weight = min(limit, engine.WeightMax)
	}
	if n := len(page.Leases); n > 0 && w.often(0.1) { // once more
		claim.Lease, claim.By = page.Leases[w.IntN(n)].Lease, page.Leases[w.IntN(n)].By
	}
	if w.often(0.25) {
		claim.Bound, claim.Ballot = 1+w.IntN(limit+2), w.ballotNear(page.Definition)
	}
	return claim
}

func (w *walk) mend(semaphore string) *engine.Mend {
	r, page := w.record(semaphore), w.view(semaphore)
	mend := &engine.Mend{
		Semaphore: semaphore, Lease: r.Lease, By: r.By, Owner: w.ownerNear(r.Owner), Info: "mended", Ver: max(0, r.Ver+pick[int64](w, 0, 1, 1, 1, 2, -1)),
		Slots: w.slotsNear(r.Slots), Fence: w.fence(r.Fence), Ballot: w.ballotNear(page.Definition), First: w.often(0.5),
		Until: w.until(), New: w.often(0.5),
	}
	mend.TTL = w.ttl(!mend.New)
	if n := len(page.Leases); n > 0 && w.often(0.25) {
		mend.Slots = mend.Slots.Union(page.Leases[w.IntN(n)].Slots) // mostly another lease's
	}
	if w.often(0.1) {
		mend.By = w.by()
	}
	return mend
}

func (w *walk) renew(semaphore string) *engine.Renew {
	r := w.record(semaphore)
	renew := &engine.Renew{
		Semaphore: semaphore, Lease: r.Lease, By: r.By, Owner: w.ownerNear(r.Owner), Ver: max(0, r.Ver+pick[int64](w, 0, 0, 0, 0, 1, -1)),
		Slots: w.slotsNear(r.Slots), Fence: w.fence(r.Fence), Ballot: w.ballotNear(r.Ballot), Until: w.until(), TTL: w.ttl(true),
	}
	if w.often(0.1) {
		renew.By = w.by()
	}
	return renew
}

func (w *walk) release(semaphore string) *engine.Release {
	r := w.record(semaphore)
	release := &engine.Release{
		Semaphore: semaphore, Lease: r.Lease, By: r.By, Owner: w.ownerNear(r.Owner), AnyOwner: w.often(0.2),
		Left:    pick(w, 0, time.Second, 70*time.Second, 2*time.Hour, engine.Never),
		Why:     pick(w, engine.WhyReleased, engine.WhyReleased, engine.WhyBroken, engine.WhyCleaned, engine.WhyGivenBack),
		Replica: pick(w, walkReplicas...), Follows: w.often(0.2), Tells: w.often(0.3),
	}
	if w.often(0.3) {
		release.Slots, release.Ver = w.slotsNear(r.Slots), r.Ver+pick[int64](w, 0, 1, 1, 1, 2)
	}
	if w.often(0.15) {
		release.By = w.by()
	}
	return release
}

func (w *walk) attach(semaphore string) *engine.Attach {
	r := w.record(semaphore)
	owner := r.Owner
	owner.Gen += pick[int64](w, 0, 1, 1, 1)
	return &engine.Attach{
		Semaphore: semaphore, Lease: r.Lease, By: r.By, Owner: w.ownerNear(owner), Slots: w.slotsNear(r.Slots), Ver: max(0, r.Ver+pick[int64](w, 0, 0, 0, 0, 1)),
		Left: w.ttl(true),
	}
}

// register reads or changes the definition of the semaphore, mostly, or another register.
func (w *walk) register(semaphore string) engine.Op {
	kind, name := engine.RegisterSemaphore, semaphore
	largest := w.view(semaphore).Definition
	if w.often(0.25) {
		kind, name = engine.RegisterCluster, pick(w, walkRegisters...)
		peek, _ := w.state.Apply(w.now, w.rightHeader(), 0, engine.Placement{}, &engine.Peek{Kind: kind, Name: name}) // changes nothing
		largest = peek.Definition
	}
	ballot := engine.Ballot{Counter: max(1, largest.Counter+pick[int64](w, 0, 1, 1, 1, 2, -1)), Replica: pick(w, walkReplicas...)}
	switch w.IntN(10) {
	case 0, 1:
		return &engine.Prepare{Kind: kind, Name: name, Ballot: ballot}
	case 2:
		return &engine.Peek{Kind: kind, Name: name}
	case 3, 4:
		return &engine.Drop{Kind: kind, Name: name, Ballot: pick(w, largest, largest, ballot)}
	default:
		return &engine.Accept{Kind: kind, Name: name, Ballot: ballot, Value: w.value()}
	}
}

func (w *walk) value() engine.Value {
	return engine.Value{
		Limit: pick(w, 1, 2+w.IntN(5), 3+w.IntN(8), 3+w.IntN(8)), MinHold: pick(w, w.pace.Holds...), Paused: w.often(0.05), Deleted: w.often(0.03),
		Data: pick(w, "", "data\x00\xff", "{\"a\":1}"),
	}
}

// heavy returns claims for many slots and a limit that has them, and a lease whose slots lie apart, so that the walk sees large
// numbers too.
func (w *walk) heavy(semaphore string) []engine.Op {
	largest := w.view(semaphore).Definition
	limit := 2000 + w.IntN(30_000)
	ops := []engine.Op{&engine.Accept{
		Kind: engine.RegisterSemaphore, Name: semaphore, Ballot: engine.Ballot{Counter: largest.Counter + 10, Replica: me},
		Value: engine.Value{Limit: limit},
	}}
	for _, lease := range walkLeases[1:] {
		claim := w.claim(semaphore)
		claim.Lease, claim.Weight, claim.Start, claim.Bound = lease, 1+w.IntN(min(limit/3, engine.WeightMax)), w.IntN(limit), 0
		ops = append(ops, claim)
	}
	mend := w.mend(semaphore)
	mend.Lease, mend.Slots = walkLeases[0], apart(limit/2)
	return append(ops, mend)
}

// demolish returns what deletes a semaphore, ends what is held and drops it; now and then something is left out, and it stays.
func (w *walk) demolish(semaphore string) []engine.Op {
	page := w.view(semaphore)
	ballot := engine.Ballot{Counter: page.Definition.Counter + 1, Replica: me}
	ops := []engine.Op{&engine.Accept{
		Kind: engine.RegisterSemaphore, Name: semaphore, Ballot: ballot, Value: engine.Value{Deleted: true},
	}}
	for _, r := range page.Leases {
		if w.often(0.05) {
			continue
		}
		ops = append(ops, &engine.Release{
			Semaphore: semaphore, Lease: r.Lease, By: r.By, AnyOwner: true, Why: pick(w, engine.WhyBroken, engine.WhyReleased), Replica: me,
		})
	}
	for _, place := range page.Places {
		ops = append(ops, &engine.Line{Semaphore: semaphore, Replica: place.Order.Replica})
	}
	ops = append(ops, &engine.Drop{Kind: engine.RegisterSemaphore, Name: semaphore, Ballot: ballot})
	if w.often(0.9) {
		ballot.Counter++
		ops = append(ops, &engine.Accept{Kind: engine.RegisterSemaphore, Name: semaphore, Ballot: ballot, Value: w.value()})
	}
	return ops
}

// reform returns what takes the node out and back in with what a reseed copies to it, with operations between that are refused.
func (w *walk) reform(semaphore string) []engine.Op {
	r := w.state.Record()
	token := engine.Ballot{Counter: r.Token.Counter + 1, Replica: me}
	known := slices.Clone(r.Known)
	known[r.Index]++
	smaller := engine.Ballot{Counter: r.Token.Counter, Replica: "0"}
	pages, wait := w.pages(), pick(w, 0, 0, 30*time.Millisecond)
	load := func(seq int) *engine.Load {
		return &engine.Load{
			Token: token, RunID: r.RunID, Cluster: r.Cluster, N: r.N, Index: r.Index, Known: known, Wait: wait,
			Seq: seq, More: seq == 0, Page: pages[seq],
		}
	}
	return []engine.Op{
		&engine.Freeze{Token: smaller, Was: r.Token, Cluster: r.Cluster, RunID: r.RunID},
		&engine.Freeze{Token: token, Was: smaller, Cluster: r.Cluster, RunID: r.RunID},
		&engine.Freeze{Token: token, Was: r.Token, Cluster: "another", RunID: r.RunID},
		&engine.Freeze{Token: token, Was: r.Token, Cluster: r.Cluster, RunID: "another"},
		&engine.Commit{Token: token, RunID: r.RunID},
		&engine.Freeze{Token: token, Was: r.Token, Cluster: r.Cluster, RunID: r.RunID},
		w.claim(semaphore),
		&engine.Commit{Token: token, RunID: r.RunID},
		&engine.Load{Token: smaller, RunID: r.RunID, Cluster: r.Cluster, N: r.N, Index: r.Index, Known: known},
		load(0), load(1), &engine.Commit{Token: smaller, RunID: r.RunID}, load(1),
		&engine.Read{Token: token, RunID: r.RunID, Semaphore: semaphore}, load(0),
		w.release(semaphore),
		&engine.Commit{Token: token, RunID: r.RunID},
	}
}

// apart returns every second slot below n.
func apart(n int) quorum.Slots {
	var s quorum.Slots
	for slot := 0; slot < n; slot += 2 {
		s = append(s, quorum.Span{First: slot, Last: slot})
	}
	return s
}
