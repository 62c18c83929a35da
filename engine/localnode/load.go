package localnode

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/permitd/permitd/engine"
)

// contents is what was read from one of the two files.
type contents struct {
	format     int64
	runID      string
	record     *engine.NodeRecord
	longestTTL int64
	ceiling    int64
	registers  map[registerKey]register
	endless    []*lease // times by the wall clock
	leases     []*lease
	cooling    []*cooling
	tombstones []*tombstone
	semaphores map[string]*semaphore // names, and what is remembered of them
}

func newContents() *contents {
	return &contents{registers: map[registerKey]register{}, semaphores: map[string]*semaphore{}}
}

// semaphoreOf returns what stands for a semaphore while it is read.
func (c *contents) semaphoreOf(name string) *semaphore {
	m := c.semaphores[name]
	if m == nil {
		m = &semaphore{name: name}
		c.semaphores[name] = m
	}
	return m
}

// add takes one value of a file.
func (c *contents) add(bucket string, key, value []byte) error {
	r := &reader{rest: value}
	switch bucket {
	case string(bucketNode):
		if err := c.addOfNode(string(key), r); err != nil {
			return err
		}
	case string(bucketRegisters):
		name := &reader{rest: key}
		c.registers[registerKey{kind: name.string(), name: name.string()}] = r.register()
		r.bad = r.bad || !name.done()
	case string(bucketEndless):
		c.endless = append(c.endless, r.lease(0, c.semaphoreOf))
	default:
		return fmt.Errorf("there is a bucket %q", bucket)
	}
	if !r.done() {
		return fmt.Errorf("the value of %q in %s can not be read", key, bucket)
	}
	return nil
}

// addOfNode takes what the node keeps of itself, or the file.
func (c *contents) addOfNode(key string, r *reader) error {
	switch key {
	case string(keyFormat):
		c.format = r.int()
	case string(keyLongestTTL):
		c.longestTTL = r.int()
	case string(keyCeiling):
		c.ceiling = r.int()
	case string(keyRunID):
		c.runID, r.rest = string(r.rest), nil
	case string(keyRecord):
		err := json.Unmarshal(r.rest, &c.record)
		r.rest = nil
		return err
	default:
		r.fail()
	}
	return nil
}

// addEntry takes an entry of the second file.
func (c *contents) addEntry(entry []byte) error {
	r := &reader{rest: entry}
	c.readEntry(r)
	if !r.done() {
		return errors.New("an entry can not be read")
	}
	return nil
}

func (c *contents) readEntry(r *reader) {
	switch r.byte() {
	case kindLease:
		c.leases = append(c.leases, r.lease(0, c.semaphoreOf))
	case kindCooling:
		x := &cooling{semaphore: c.semaphoreOf(r.string())}
		x.lease, x.slots, x.at = r.string(), r.slots(), r.int()
		c.cooling = append(c.cooling, x)
	case kindTombstone:
		x := &tombstone{semaphore: c.semaphoreOf(r.string())}
		x.lease, x.by, x.owner, x.anyOwner, x.why = r.string(), r.string(), r.owner(), r.bool(), r.string()
		x.since, x.at = r.int(), r.int()
		c.tombstones = append(c.tombstones, x)
	case kindSemaphore:
		m := c.semaphoreOf(r.string())
		m.longestTTL, m.waitEnd = r.int(), r.int()
	default:
		r.fail()
	}
}

// build makes the state of what both files hold; second is nil where it could not be used. Everything is new to the
// second file, which is written anew.
func (o *opening) build(first, second *contents) *State {
	s := NewState()
	s.RunID, s.record, s.changes = first.runID, first.record, newChanges()
	s.FenceStart = max(first.ceiling, min(max(o.wall, 1), fenceMax))
	s.changes.noteFence(s.FenceStart) // raises the ceiling ahead of it
	if s.record != nil && s.record.FenceFloor < s.FenceStart {
		s.setRecord(func(r *engine.NodeRecord) { r.FenceFloor = s.FenceStart })
	}
	if s.record != nil && s.record.Pending != nil && s.record.Pending.Pages > 0 {
		s.setRecord(func(r *engine.NodeRecord) { r.Pending = nil }) // what was loaded was in memory only
	}
	for key, r := range first.registers {
		if key.kind == engine.RegisterSemaphore {
			s.semaphoreOf(key.name).register = r
		} else {
			s.cluster[key.name] = &r
		}
	}
	if second == nil {
		o.rebuild(s, first)
	} else {
		s.take(second, o.now)
		s.reconcile(first.endless)
	}
	return s
}

// take puts what the second file holds into the state, apart from what nobody remembers any more.
func (s *State) take(c *contents, now int64) {
	for name, read := range c.semaphores {
		if m := s.semaphoreOf(name); read.longestTTL != 0 || read.waitEnd != 0 {
			m.longestTTL, m.waitEnd = read.longestTTL, read.waitEnd
			s.changes.keep(m)
		}
	}
	for _, l := range c.leases {
		s.restore(l)
	}
	for _, x := range c.cooling {
		x.semaphore = s.semaphoreOf(x.semaphore.name)
		x.semaphore.cooling.add(x)
		x.semaphore.occupy(x.slots)
		s.changes.keep(x)
	}
	for _, t := range c.tombstones {
		if t.at <= now {
			continue
		}
		t.semaphore = s.semaphoreOf(t.semaphore.name)
		s.addTombstone(t)
		s.changes.keep(t)
	}
}

// restore puts a lease that was kept into the state.
func (s *State) restore(l *lease) {
	m := s.semaphoreOf(l.semaphore.name)
	v := visit{State: s, semaphore: m}
	v.raiseFence(l.fence)
	v.add(l)
}

// reconcile compares the leases without an end that the first file has with those of the second, which decides while it
// can be used: what the first alone has was written by a call that was never answered.
func (s *State) reconcile(endless []*lease) {
	for _, old := range endless {
		if m, ok := s.semaphores.Get(old.semaphore.name); ok {
			if l := m.attempt(old.id, old.by); l != nil && l.by == old.by {
				l.endless = true
				continue
			}
		}
		old.endless = true
		s.changes.unkeep(old)
	}
}

// rebuild goes on without the second file: with the leases that have no end, and after the longest TTL. Nothing else can be
// held any more then, nor cool.
func (o *opening) rebuild(s *State, first *contents) {
	skew := o.wall - o.now
	for _, l := range first.endless {
		l.granted, l.touched, l.endless = min(l.granted-skew, o.now), min(l.touched-skew, o.now), true
		s.restore(l)
	}
	if first.longestTTL == 0 {
		return // nothing with an end was ever granted
	}
	s.semaphores.Scan(func(_ string, m *semaphore) bool {
		m.longestTTL = first.longestTTL
		m.waitEnd = o.now + max(first.longestTTL, m.minHold())
		s.changes.keep(m)
		return true
	})
}
