package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// pages returns what a reseed may load into the node: about what it has, with what only a merge makes, slots that several hold and
// several attempts of one lease.
func (w *walk) pages() []*engine.Page {
	first, second := &engine.Page{FenceFloor: w.Int64N(1000)}, &engine.Page{}
	for _, name := range walkSemaphores {
		c, further := w.semaphoreCopy(name)
		first.Semaphores, second.Semaphores = append(first.Semaphores, c), append(second.Semaphores, further)
	}
	for _, name := range walkRegisters[:1+w.IntN(2)] {
		first.Registers = append(first.Registers, engine.RegisterCopy{
			Name: name, Promise: engine.Ballot{Counter: 3, Replica: other}, Ballot: engine.Ballot{Counter: 2, Replica: me}, Value: engine.Value{Data: "x"},
		})
	}
	for _, lease := range walkLeases[:w.IntN(len(walkLeases))] {
		page := pick(w, first, second)
		page.Tombstones = append(page.Tombstones, engine.TombstoneCopy{
			Semaphore: pick(w, walkSemaphores...), Lease: lease, Tombstone: engine.Tombstone{
				By: w.by(), Owner: w.owner(), AnyOwner: w.often(0.5), Why: pick(w, engine.WhyReleased, engine.WhyGivenBack),
				Left: pick(w, time.Second, 50*time.Second, 10*time.Minute), Age: time.Second,
			},
		})
	}
	return []*engine.Page{first, second}
}

// semaphoreCopy returns what is loaded of a semaphore, and a further part.
func (w *walk) semaphoreCopy(name string) (first, further engine.SemaphoreCopy) {
	page := w.view(name)
	first = engine.SemaphoreCopy{
		Name: name, Promise: page.Definition, Ballot: page.Definition, Value: page.Value, LastFence: page.LastFence, LongestTTL: page.LongestTTL,
	}
	if w.often(0.2) {
		first.Wait = pick(w, 40*time.Millisecond, time.Second)
	}
	if first.Ballot == (engine.Ballot{}) {
		return first, engine.SemaphoreCopy{Name: name, Further: true}
	}
	further = engine.SemaphoreCopy{Name: name, Further: true}
	for _, r := range page.Leases {
		if r.Left <= 0 {
			continue
		}
		first.Leases = append(first.Leases, r)
		if w.often(0.5) {
			twin := r
			w.attempt++
			twin.By, twin.Slots, twin.Left = fmt.Sprint(w.attempt), w.slotsNear(r.Slots), w.ttl(true)
			if len(twin.Slots) > 0 {
				further.Leases = append(further.Leases, twin)
			}
		}
	}
	for i, lease := range walkLeases {
		alone := !slices.ContainsFunc(first.Leases, func(r engine.Record) bool { return r.Lease == lease })
		if alone && w.often(0.5) {
			w.attempt++
			further.Leases = append(further.Leases, engine.Record{
				Lease: lease, By: fmt.Sprint(w.attempt), Owner: w.owner(), Slots: w.slots(), Fence: w.fence(first.LastFence), Ver: w.Int64N(3),
				Left: w.ttl(true), First: w.often(0.5), Ballot: first.Ballot, Age: time.Second, Touched: time.Second, Info: "x y",
			})
		} else if w.often(0.2) {
			first.Cooling = append(first.Cooling, engine.Cooling{Lease: lease, Slots: quorum.OneSlot(i), Left: w.ttl(false)})
		}
	}
	for i := range first.Cooling {
		first.Cooling[i].Left = min(first.Cooling[i].Left, time.Minute)
	}
	for _, replica := range walkReplicas {
		if w.often(0.4) {
			first.Places = append(first.Places, w.place(replica))
		}
	}
	return first, further
}
