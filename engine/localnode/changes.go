package localnode

import "github.com/permitd/permitd/engine"

// stored is what the store remembers of something it keeps: where it is, and whether what is written is still right.
type stored struct {
	serial uint32 // its key; 0: it was never written
	file   uint32 // the number of the file that has it
	dirty  bool
	gone   bool
}

func (s *stored) store() *stored { return s }

// inherit takes over the key of what is gone, if there is none yet: then one entry is written over instead of one removed and
// one added.
func (s *stored) inherit(gone *stored) {
	if s.serial == 0 {
		s.serial, gone.serial = gone.serial, 0
	}
}

// storable is what the store keeps, one entry each: leases, what cools, tombstones, and what is remembered of semaphores.
type storable interface{ store() *stored }

// registerKey names a register.
type registerKey struct{ kind, name string }

// changes collects what operations changed since it was written. A nil *changes collects nothing.
type changes struct {
	entries    []storable // each once
	registers  map[registerKey]*register
	record     *engine.NodeRecord
	longestTTL int64 // the longest TTL of a lease yet, µs
	fence      int64 // the largest fence yet
}

func newChanges() *changes { return &changes{registers: map[registerKey]*register{}} }

func (c *changes) keepRegister(kind, name string, r *register) {
	if c != nil {
		c.registers[registerKey{kind, name}] = r
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

// keep lets x be written as it is.
func (c *changes) keep(x storable) { c.note(x, false) }

// unkeep lets x be removed.
func (c *changes) unkeep(x storable) { c.note(x, true) }

func (c *changes) note(x storable, gone bool) {
	if c == nil {
		return
	}
	mark := x.store()
	mark.gone = gone
	if !mark.dirty {
		mark.dirty = true
		c.entries = append(c.entries, x)
	}
}

// wrote forgets the entries: they were written.
func (c *changes) wrote() {
	for _, x := range c.entries {
		x.store().dirty = false
	}
	clear(c.entries)
	c.entries = c.entries[:0]
}
