package localnode

import (
	"cmp"
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
)

// tombstone remembers that an attempt was given back, for owners up to the one it names. Its end is when it is forgotten.
//
// There is one for each release of a minute: its fields stand so that it takes no more than 128 bytes.
type tombstone struct {
	stored
	anyOwner bool
	ending
	semaphore *semaphore
	lease, by string
	owner     engine.Owner
	why       string
	since     int64      // node clock, µs
	next      *tombstone // of another attempt of the lease
}

// tombstone returns what is remembered of an attempt, or nil.
func (m *semaphore) tombstone(lease, by string, now int64) *tombstone {
	if t := m.firstOf(lease, by); t != nil && now < t.at {
		return t
	}
	return nil
}

// firstOf returns the tombstone of an attempt, whether its time is over or not; nil: there is none.
func (m *semaphore) firstOf(lease, by string) *tombstone {
	t := m.tombstones[lease]
	for t != nil && t.by != by {
		t = t.next
	}
	return t
}

// barred reports whether the attempt was given back, so that this owner may do nothing with it any more.
func (m *semaphore) barred(lease, by string, owner engine.Owner, now int64) bool {
	t := m.tombstone(lease, by, now)
	return t != nil && (t.anyOwner || owner.Compare(t.owner) <= 0)
}

// bury writes the tombstone of an attempt, whose record may still be there. With one that is there it bars what either of them bars, for as long as
// either of them does, and keeps the reason that was told first.
func (v *visit) bury(op *engine.Release, l *lease) *tombstone {
	m := v.semaphore
	var left time.Duration
	if l != nil {
		left = until(v.now, l.at)
	}
	until := v.now + tombstoneLife(op, left).Microseconds()
	if t := v.buried(op); t != nil {
		if t.owner.Compare(op.Owner) < 0 {
			t.owner = op.Owner
		}
		t.anyOwner = t.anyOwner || op.AnyOwner
		t.at = max(t.at, until)
		v.forgets.moved(t)
		v.changes.keep(t)
		return t
	}
	t := &tombstone{
		ending: ending{at: until}, semaphore: m, lease: op.Lease, by: op.By, owner: op.Owner, anyOwner: op.AnyOwner, why: op.Why,
		since: v.now,
	}
	v.addTombstone(t)
	v.changes.keep(t)
	return t
}

// buried returns the tombstone of the attempt, or nil; one whose time is over is dropped: with many due at once it may not have been its
// turn yet, and an attempt has one tombstone.
func (v *visit) buried(op *engine.Release) *tombstone {
	t := v.semaphore.firstOf(op.Lease, op.By)
	if t != nil && t.at <= v.now {
		v.forget(t)
		return nil
	}
	return t
}

func (s *State) addTombstone(t *tombstone) {
	m := t.semaphore
	if m.tombstones == nil {
		m.tombstones = map[string]*tombstone{}
	}
	t.next = m.tombstones[t.lease]
	m.tombstones[t.lease] = t
	s.forgets.add(t)
}

// tombstoneLife is how long the end of a lease is remembered that could have run for left.
func tombstoneLife(op *engine.Release, left time.Duration) time.Duration {
	limits := &engine.NodeLimits
	if op.Why != engine.WhyReleased && op.Why != engine.WhyBroken {
		return limits.TombstoneMin
	}
	return min(max(limits.TombstoneMin, op.Left, left), limits.TombstoneMax)
}

// tombstonesDropped is how many tombstones whose time is over one call drops. A call adds one at most, so they do not pile
// up; those that are still there count no more.
const tombstonesDropped = 16

// forgetDue drops tombstones whose time is over, whatever semaphore they are of.
func (v *visit) forgetDue() {
	for range tombstonesDropped {
		if v.forgets.first() > v.now {
			return
		}
		t := v.forgets.items[0]
		v.forget(t)
		v.tidy(t.semaphore)
	}
}

// forget drops a tombstone.
func (v *visit) forget(t *tombstone) {
	t.semaphore.unlink(t)
	v.forgets.remove(t)
	v.changes.unkeep(t)
}

// unlink takes a tombstone out of those of its lease.
func (m *semaphore) unlink(t *tombstone) {
	first := m.tombstones[t.lease]
	if first != t {
		for first.next != t {
			first = first.next
		}
		first.next = t.next
	} else if m.tombstones[t.lease] = t.next; t.next == nil {
		delete(m.tombstones, t.lease)
	}
}

// told is the tombstone as others hear of it.
func (t *tombstone) told(now int64) engine.Tombstone {
	age := time.Duration(max(0, now-t.since)) * time.Microsecond
	return engine.Tombstone{By: t.by, Owner: t.owner, AnyOwner: t.anyOwner, Why: t.why, Left: until(now, t.at), Age: age}
}

// tombstonesOf lists what is remembered of a lease, in the order of its attempts.
func (m *semaphore) tombstonesOf(lease string, now int64) []engine.Tombstone {
	var list []engine.Tombstone
	for t := m.tombstones[lease]; t != nil; t = t.next {
		if now < t.at {
			list = append(list, t.told(now))
		}
	}
	slices.SortFunc(list, func(a, b engine.Tombstone) int { return cmp.Compare(a.By, b.By) })
	return list
}
