package localnode

import (
	"errors"
	"fmt"
)

// Check returns what is wrong with the state, nil if every invariant holds. For tests and simulations: it takes O(state).
func (s *State) Check() error {
	var errs []error
	s.semaphores.Scan(func(name string, m *semaphore) bool {
		if err := m.check(); err != nil {
			errs = append(errs, fmt.Errorf("semaphore %q: %w", name, err))
		}
		if m.empty() {
			errs = append(errs, fmt.Errorf("semaphore %q is empty and still there", name))
		}
		return true
	})
	errs = append(errs, s.checkTombstones(), checkEnds("tombstones", s.forgets.items))
	return errors.Join(errs...)
}

func (m *semaphore) check() error {
	return errors.Join(m.checkSlots(), m.checkLine(), checkEnds("leases", m.lapses.items), checkEnds("cooling", m.cooling.items))
}

// checkSlots: used, shared and usedBelow say what leases and cooling hold, and two leases share no slot unless
// one is a copy.
func (m *semaphore) checkSlots() error {
	var errs []error
	uses := map[int]int{}
	votes := map[int]string{}
	count := 0
	m.scan(func(id string, l *lease) bool {
		count++
		if id != l.id || len(l.slots) == 0 {
			errs = append(errs, fmt.Errorf("lease %s is kept as %s with the slots %q", l.id, id, l.slots))
		}
		if l.fence > m.lastFence {
			errs = append(errs, fmt.Errorf("lease %s has fence %d, the last is %d", id, l.fence, m.lastFence))
		}
		for n := range l.slots.All() {
			uses[n]++
			if other, taken := votes[n]; taken && !l.copy {
				errs = append(errs, fmt.Errorf("leases %s and %s share slot %d", id, other, n))
			}
			if !l.copy {
				votes[n] = id
			}
		}
		return true
	})
	for _, c := range m.cooling.items {
		if len(c.slots) == 0 {
			errs = append(errs, fmt.Errorf("nothing of lease %s cools", c.lease))
		}
		for n := range c.slots.All() {
			uses[n]++
		}
	}
	below := 0
	for n, count := range uses {
		if n < m.limit() {
			below++
		}
		if !m.used.has(n) || m.shared[n] != count-1 {
			errs = append(errs, fmt.Errorf("slot %d is held %d times, the bitmap says %v and %d more", n, count, m.used.has(n), m.shared[n]))
		}
	}
	if m.used.count != len(uses) || m.used.from(0).Len() != len(uses) || m.usedBelow != below {
		errs = append(errs, fmt.Errorf("%d slots are used, %d below the limit; counted were %d and %d", len(uses), below, m.used.count, m.usedBelow))
	}
	if count != len(m.lapses.items) {
		errs = append(errs, fmt.Errorf("%d leases have %d ends", count, len(m.lapses.items)))
	}
	return errors.Join(errs...)
}

// scan calls f with the id and the record of every attempt.
func (m *semaphore) scan(f func(id string, l *lease) bool) {
	m.leases.Scan(f)
	for id, twins := range m.twins {
		for _, l := range twins {
			f(id, l)
		}
	}
}

// checkLine: the line is in order, with one place a replica.
func (m *semaphore) checkLine() error {
	replicas := map[string]bool{}
	for i, p := range m.line {
		if i > 0 && m.line[i-1].Order.Compare(p.Order) >= 0 {
			return fmt.Errorf("the place %v comes before %v", m.line[i-1].Order, p.Order)
		}
		if replicas[p.Order.Replica] {
			return fmt.Errorf("replica %s has two places", p.Order.Replica)
		}
		replicas[p.Order.Replica] = true
	}
	return nil
}

// checkTombstones: each attempt has one, and each is forgotten some day.
func (s *State) checkTombstones() error {
	count := 0
	for _, t := range s.forgets.items {
		m, _ := s.semaphores.Get(t.semaphore.name)
		if m != t.semaphore || m.firstOf(t.lease, t.by) != t {
			return fmt.Errorf("the attempt %s of lease %s has two tombstones, or one that bars nothing", t.by, t.lease)
		}
	}
	s.semaphores.Scan(func(_ string, m *semaphore) bool {
		for _, t := range m.tombstones {
			for ; t != nil; t = t.next {
				count++
			}
		}
		return true
	})
	if count != len(s.forgets.items) {
		return fmt.Errorf("%d tombstones have %d ends", count, len(s.forgets.items))
	}
	return nil
}

// checkEnds: what ends first comes first, and each knows where it is.
func checkEnds[T interface {
	comparable
	end() *ending
}](what string, items []T) error {
	for i, x := range items {
		if x.end().pos != i || x.end().at < items[(max(i, 1)-1)/2].end().at {
			return fmt.Errorf("the heap of %s is out of order at %d", what, i)
		}
	}
	return nil
}
