package localnode

import (
	"maps"
	"slices"
)

// Clone returns an independent copy of the state, as if the node's memory had been copied. It shares only what never changes.
func (s *State) Clone() *State {
	c := &State{RunID: s.RunID, Replid: s.Replid, Nonce: s.Nonce, FenceStart: s.FenceStart, record: s.record, floor: s.floor, cluster: map[string]*register{}}
	for name, r := range s.cluster {
		twin := *r
		c.cluster[name] = &twin
	}
	c.blobs = s.blobs.clone()
	if s.beside != nil {
		c.beside = s.beside.Clone()
	}
	s.semaphores.Scan(func(name string, m *semaphore) bool {
		c.semaphores.Set(name, m.clone())
		return true
	})
	for _, t := range s.forgets.items {
		twin := *t
		twin.stored, twin.semaphore = stored{}, c.semaphoreOf(t.semaphore.name)
		c.addTombstone(&twin)
	}
	return c
}

// clone copies blobs that are kept in memory; those of a directory are shared.
func (b *blobs) clone() *blobs {
	c := openBlobs(b.dir)
	maps.Copy(c.whole, b.whole)
	for sum, coming := range b.coming {
		c.coming[sum] = &comingBlob{maps.Clone(coming.pieces), coming.until}
	}
	return c
}

// clone copies a semaphore, its tombstones aside.
func (m *semaphore) clone() *semaphore {
	c := &semaphore{
		register: m.register, name: m.name, lastFence: m.lastFence, longestTTL: m.longestTTL, waitEnd: m.waitEnd,
		used: bitmap{words: slices.Clone(m.used.words), count: m.used.count}, usedBelow: m.usedBelow, shared: maps.Clone(m.shared),
	}
	for _, l := range m.lapses.items {
		twin := *l
		twin.stored, twin.endless, twin.semaphore = stored{}, false, c
		if m.lease(l.id) == l {
			c.leases.Set(twin.id, &twin)
		} else {
			if c.twins == nil {
				c.twins = map[string][]*lease{}
			}
			c.twins[twin.id] = append(c.twins[twin.id], &twin)
		}
		c.lapses.add(&twin)
	}
	for _, cool := range m.cooling.items {
		twin := *cool
		twin.stored, twin.semaphore = stored{}, c
		c.cooling.add(&twin)
	}
	for _, p := range m.line {
		twin := *p
		c.line = append(c.line, &twin)
	}
	return c
}
