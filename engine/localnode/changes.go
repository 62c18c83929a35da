package localnode

// stored is what the store remembers of something it keeps: where it is, and whether what is written is still right.
type stored struct {
	serial uint64 // its key; 0: it was never written
	dirty  bool
	gone   bool
}

func (s *stored) store() *stored { return s }

// storable is what the store keeps, one entry each: leases, what cools, tombstones, and what is remembered of semaphores.
type storable interface{ store() *stored }

// registerKey names a register.
type registerKey struct{ kind, name string }

// changes collects what operations changed since it was written. A nil *changes collects nothing.
type changes struct {
	entries    []storable // each once
	registers  map[registerKey]struct{}
	record     bool
	longestTTL int64 // the longest TTL of a lease yet, µs
	fence      int64 // the largest fence yet
}

func (c *changes) keepRegister(kind, name string) {
	if c != nil {
		c.registers[registerKey{kind, name}] = struct{}{}
	}
}

func (c *changes) noteTTL(ttl int64) {
	if c != nil {
		c.longestTTL = max(c.longestTTL, ttl)
	}
}

func (c *changes) noteFence(fence int64) {
	if c != nil {
		c.fence = max(c.fence, fence)
	}
}

func (s *State) keepRecord() {
	if s.changes != nil {
		s.changes.record = true
	}
}

// keep lets x be written as it is.
func (s *State) keep(x storable) { s.note(x, false) }

// unkeep lets x be removed.
func (s *State) unkeep(x storable) { s.note(x, true) }

func (s *State) note(x storable, gone bool) {
	if s.changes == nil {
		return
	}
	mark := x.store()
	mark.gone = gone
	if !mark.dirty {
		mark.dirty = true
		s.changes.entries = append(s.changes.entries, x)
	}
}
