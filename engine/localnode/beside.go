package localnode

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// lay puts a page of memory beside what the node has. Everything in it is as of now: what ends, ends as much later as the page
// says is left.
func (v *visit) lay(page *engine.Page) {
	b := &visit{State: v.beside, now: v.now, answer: &engine.Answer{}, freed: -1}
	for _, r := range page.Registers {
		b.cluster[r.Name] = &register{promise: r.Promise, ballot: r.Ballot, value: r.Value}
	}
	for i := range page.Semaphores {
		b.laySemaphore(&page.Semaphores[i])
	}
	for _, t := range page.Tombstones {
		m := b.semaphoreOf(t.Semaphore)
		if m.tombstone(t.Lease, t.By, v.now) == nil {
			b.addTombstone(&tombstone{
				ending: ending{at: end(v.now, t.Left)}, semaphore: m, lease: t.Lease, by: t.By, owner: t.Owner, anyOwner: t.AnyOwner, why: t.Why,
				since: v.ago(t.Age),
			})
		}
	}
	b.floor = max(b.floor, page.FenceFloor)
}

// laySemaphore lays down a semaphore, or a further part of it.
func (v *visit) laySemaphore(c *engine.SemaphoreCopy) {
	m := v.semaphoreOf(c.Name)
	v.semaphore = m
	if !c.Further {
		m.register = register{promise: c.Promise, ballot: c.Ballot, value: c.Value}
		m.lastFence, m.longestTTL = c.LastFence, c.LongestTTL.Microseconds()
		if c.Wait > 0 {
			m.waitEnd = v.now + c.Wait.Microseconds()
		}
	}
	for _, r := range c.Leases {
		l := &lease{
			ending: ending{at: end(v.now, r.Left)},
			id:     r.Lease, by: r.By, owner: r.Owner, info: r.Info, slots: r.Slots, fence: r.Fence, ver: r.Ver, first: r.First, copy: true,
			granted: v.ago(r.Age), touched: v.ago(r.Touched), definition: r.Ballot,
		}
		v.raiseFence(l.fence)
		v.add(l)
	}
	for _, c := range c.Cooling {
		x := &cooling{ending: ending{at: end(v.now, c.Left)}, semaphore: m, lease: c.Lease, slots: c.Slots}
		m.cooling.add(x)
		m.occupy(x.slots)
	}
	for _, p := range c.Places {
		v.statePlace(p.Order.Replica, engine.PlaceAlways, p)
	}
	v.tidy(m)
}

// ago is when something was that is so long ago.
func (v *visit) ago(age time.Duration) int64 { return v.now - age.Microseconds() }

// switchOver makes what was loaded the node's memory, and forgets what it had.
func (v *visit) switchOver() {
	s, b := v.State, v.beside
	s.keepAll((*changes).unkeep)
	for key := range s.registers() {
		s.changes.keepRegister(key.kind, key.name, &register{})
	}
	s.semaphores, s.forgets, s.cluster, s.beside = b.semaphores, b.forgets, b.cluster, nil
	for key, r := range s.registers() {
		s.changes.keepRegister(key.kind, key.name, r)
	}
	s.keepAll((*changes).keep)
	if b.floor > s.record.FenceFloor {
		v.setRecord(func(r *engine.NodeRecord) { r.FenceFloor = b.floor })
	}
}

// keepAll tells the changes of everything there is, by keep or unkeep.
func (s *State) keepAll(tell func(*changes, storable)) {
	s.semaphores.Scan(func(_ string, m *semaphore) bool {
		if m.longestTTL != 0 || m.waitEnd != 0 || m.serial != 0 {
			tell(s.changes, m)
		}
		for _, l := range m.lapses.items {
			tell(s.changes, l)
		}
		for _, c := range m.cooling.items {
			tell(s.changes, c)
		}
		s.changes.noteTTL(m.longestTTL)
		s.changes.noteFence(m.lastFence)
		return true
	})
	for _, t := range s.forgets.items {
		tell(s.changes, t)
	}
}

// registers are all there are.
func (s *State) registers() map[registerKey]*register {
	all := map[registerKey]*register{}
	for name, r := range s.cluster {
		all[registerKey{engine.RegisterCluster, name}] = r
	}
	s.semaphores.Scan(func(name string, m *semaphore) bool {
		if m.register != (register{}) {
			all[registerKey{engine.RegisterSemaphore, name}] = &m.register
		}
		return true
	})
	return all
}
