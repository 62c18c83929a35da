package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// memory is what one node remembers, or what several do together.
type memory struct {
	registers  map[string]RegisterCopy
	semaphores map[string]*SemaphoreCopy
	tombstones map[attemptKey]TombstoneCopy
	fenceFloor int64
	wait       time.Duration // what is left of the node's own wait after a cold start
}

// attemptKey names an attempt of a lease.
type attemptKey struct{ semaphore, lease, by string }

func newMemory() *memory {
	return &memory{
		registers: map[string]RegisterCopy{}, semaphores: map[string]*SemaphoreCopy{}, tombstones: map[attemptKey]TombstoneCopy{},
	}
}

// take adds a page that was read of one node.
func (m *memory) take(page *Page) {
	m.fenceFloor = max(m.fenceFloor, page.FenceFloor)
	for _, r := range page.Registers {
		m.registers[r.Name] = mergedRegister(m.registers[r.Name], r)
	}
	for i := range page.Semaphores {
		c := &page.Semaphores[i]
		if old := m.semaphores[c.Name]; old != nil && c.Further {
			old.Leases = append(old.Leases, c.Leases...)
			continue
		}
		m.semaphores[c.Name] = c
	}
	for _, t := range page.Tombstones {
		key := attemptKey{t.Semaphore, t.Lease, t.By}
		if old, twice := m.tombstones[key]; twice {
			t = mergedTombstone(old, t)
		}
		m.tombstones[key] = t
	}
}

// merge puts together what several nodes remember, for one that has to know as much as all of them (quorum.md section 5,
// Reseed, step 3).
func merge(all []*memory) *memory {
	sum := newMemory()
	records := map[string][]Record{} // by semaphore
	for _, m := range all {
		sum.fenceFloor, sum.wait = max(sum.fenceFloor, m.fenceFloor), max(sum.wait, m.wait)
		for name, r := range m.registers {
			sum.registers[name] = mergedRegister(sum.registers[name], r)
		}
		for key, t := range m.tombstones {
			if old, known := sum.tombstones[key]; known {
				t = mergedTombstone(old, t)
			}
			sum.tombstones[key] = t
		}
		for name, c := range m.semaphores {
			sum.addSemaphore(c)
			records[name] = append(records[name], c.Leases...)
		}
	}
	for name, c := range sum.semaphores {
		c.Leases = nil
		sum.settle(c, records[name])
	}
	return sum
}

func mergedRegister(a, b RegisterCopy) RegisterCopy {
	if a.Name == "" || a.Ballot.Less(b.Ballot) {
		a, b = b, a
	}
	if a.Promise.Less(b.Promise) {
		a.Promise = b.Promise
	}
	return a
}

// mergedTombstone bars what either bars, for as long as either does. An end that somebody asked for is told before one that nobody did.
func mergedTombstone(a, b TombstoneCopy) TombstoneCopy {
	if a.Owner.Compare(b.Owner) < 0 {
		a.Owner = b.Owner
	}
	a.AnyOwner, a.Left = a.AnyOwner || b.AnyOwner, max(a.Left, b.Left)
	if slices.Index(whysByWeight, b.Why) < slices.Index(whysByWeight, a.Why) {
		a.Why = b.Why
	}
	return a
}

var whysByWeight = []string{WhyBroken, WhyReleased, WhyCleaned, WhyGivenBack}

// addSemaphore merges what is not about leases.
func (m *memory) addSemaphore(c *SemaphoreCopy) {
	sum := m.semaphores[c.Name]
	if sum == nil {
		sum = &SemaphoreCopy{Name: c.Name}
		m.semaphores[c.Name] = sum
	}
	if sum.Ballot.Less(c.Ballot) {
		sum.Ballot, sum.Value = c.Ballot, c.Value
	}
	if sum.Promise.Less(c.Promise) {
		sum.Promise = c.Promise
	}
	sum.LastFence, sum.LongestTTL, sum.Wait = max(sum.LastFence, c.LastFence), max(sum.LongestTTL, c.LongestTTL), max(sum.Wait, c.Wait)
	for _, x := range c.Cooling {
		sum.Cooling = withCooling(sum.Cooling, x)
	}
	for _, p := range c.Places {
		same := func(q Place) bool { return q.Order.Replica == p.Order.Replica }
		if i := slices.IndexFunc(sum.Places, same); i < 0 {
			sum.Places = append(sum.Places, p)
		} else if sum.Places[i].Order.Compare(p.Order) < 0 {
			sum.Places[i] = p // a replica's later place is the truer one
		}
	}
}

// withCooling adds what cools; the same of another node only longer.
func withCooling(list []Cooling, x Cooling) []Cooling {
	for i := range list {
		if list[i].Lease == x.Lease && list[i].Slots.Equal(x.Slots) {
			list[i].Left = max(list[i].Left, x.Left)
			return list
		}
	}
	return append(list, x)
}

// settle merges the records of a semaphore: attempt by attempt, less those that a tombstone bars.
func (m *memory) settle(c *SemaphoreCopy, records []Record) {
	attempts := map[attemptKey][]Record{}
	for _, r := range records {
		key := attemptKey{c.Name, r.Lease, r.By}
		attempts[key] = append(attempts[key], r)
	}
	keys := slices.SortedFunc(maps.Keys(attempts), func(a, b attemptKey) int {
		return cmp.Or(cmp.Compare(a.lease, b.lease), cmp.Compare(a.by, b.by))
	})
	for _, key := range keys {
		r := mergedRecord(attempts[key])
		t, ended := m.tombstones[key]
		if !ended || !t.AnyOwner && r.Owner.Compare(t.Owner) > 0 {
			c.Leases = append(c.Leases, r)
			continue
		}
		if left := c.Value.MinHold - r.Age; left > 0 && (t.Why == WhyReleased || t.Why == WhyCleaned) {
			c.Cooling = withCooling(c.Cooling, Cooling{Lease: r.Lease, Slots: r.Slots, Left: left})
		}
	}
}

// mergedRecord is what several nodes know of one attempt: the slots of its largest ver, there of a record that was renewed, else
// all that any has; the largest fence, time left and owner. It is as young as the youngest record, so what cools cools longest.
func mergedRecord(records []Record) Record {
	sum := records[0]
	latest := slices.MaxFunc(records, func(a, b Record) int { return cmp.Compare(a.Ver, b.Ver) }).Ver
	renewed := func(r Record) bool { return r.Ver == latest && !r.First }
	anyRenewed := slices.ContainsFunc(records, renewed)
	var slots quorum.Slots
	for i := range records {
		r := &records[i]
		if r.Ver > sum.Ver || r.Ver == sum.Ver && sum.First && !r.First {
			owner, fence, left, age := sum.Owner, sum.Fence, sum.Left, sum.Age
			sum = *r
			sum.Owner, sum.Fence, sum.Left, sum.Age = owner, fence, left, age
		}
		if r.Ver == latest && (!anyRenewed || renewed(*r)) {
			slots = slots.Union(r.Slots)
		}
		if sum.Owner.Compare(r.Owner) < 0 {
			sum.Owner = r.Owner
		}
		sum.Fence, sum.Left, sum.Age, sum.Touched = max(sum.Fence, r.Fence), max(sum.Left, r.Left), min(sum.Age, r.Age), min(sum.Touched, r.Touched)
	}
	sum.Slots = slots
	return sum
}

// pages cuts a memory into pages for Load; there is one at least.
func (m *memory) pages() []*Page {
	page := &Page{FenceFloor: m.fenceFloor}
	pages, room := []*Page{page}, ReadMax
	take := func(n int) {
		if room -= n; room < 0 {
			page = &Page{}
			pages, room = append(pages, page), ReadMax-n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.registers)) {
		take(1)
		page.Registers = append(page.Registers, m.registers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.semaphores)) {
		part := *m.semaphores[name]
		leases := part.Leases
		for {
			n := min(len(leases), ReadMax/2)
			take(1 + n + len(part.Cooling) + len(part.Places))
			part.Leases = leases[:n]
			page.Semaphores = append(page.Semaphores, part)
			if leases = leases[n:]; len(leases) == 0 {
				break
			}
			part = SemaphoreCopy{Name: name, Further: true}
		}
	}
	for _, t := range m.tombstones {
		take(1)
		page.Tombstones = append(page.Tombstones, t)
	}
	return pages
}
