package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// WaiterInfo is a request in line at this replica, for people.
type WaiterInfo struct {
	ID string // of the lease it would get
	HolderInfo
	Weight   int
	Priority int
	Waiting  time.Duration
	Away     bool // its place is kept for whoever asks again with its key
}

// OtherReplica is the line at another replica, as the nodes know it.
type OtherReplica struct {
	Replica    string
	Waiting    int
	OldestWait time.Duration
}

// Waiters lists who waits at this replica, in order, at most count of them, and how many wait elsewhere. Errors as Semaphore.
func (e *Engine) Waiters(ctx context.Context, name string, count int) (here []WaiterInfo, elsewhere []OtherReplica, err error) {
	g, err := e.view(ctx, name)
	switch {
	case err != nil:
		return nil, nil, err
	case g.st == nil:
		return nil, nil, ErrUnknownSemaphore
	}
	for replica, p := range g.places {
		if replica != e.replica {
			elsewhere = append(elsewhere, OtherReplica{Replica: replica, Waiting: p.Count, OldestWait: p.Oldest})
		}
	}
	slices.SortFunc(elsewhere, func(a, b OtherReplica) int {
		return cmp.Or(cmp.Compare(b.OldestWait, a.OldestWait), cmp.Compare(a.Replica, b.Replica))
	})
	s := e.known(name)
	if s == nil {
		return nil, elsewhere, nil
	}
	defer s.unlock()
	for _, w := range s.inLine(count) {
		here = append(here, w.info)
	}
	return here, elsewhere, nil
}

// listed is a place in line, for people.
type listed struct {
	order Order
	info  WaiterInfo
}

// inLine returns the oldest count of those who wait here or whose places are kept, in order. mu is held.
func (s *semaphore) inLine(count int) []listed {
	var list []listed
	add := func(order Order, info WaiterInfo, since time.Duration, away bool) {
		info.Waiting, info.Away = max(0, s.e.cfg.Now()-since), away
		list = append(list, listed{order, info})
	}
	for _, r := range s.line.first(count) {
		add(r.order, r.waiter(), r.since, false)
	}
	for _, p := range s.away {
		if s.e.cfg.Now() < p.until && p.order.Arrival != 0 {
			add(p.order, p.info, p.since, true)
		}
	}
	slices.SortFunc(list, func(a, b listed) int { return a.order.Compare(b.order) })
	return list[:min(count, len(list))]
}

// waiter is the request for people; its Waiting is not set. mu is held.
func (r *Request) waiter() WaiterInfo {
	return WaiterInfo{ID: r.id, HolderInfo: r.ask.Holder, Weight: r.weight, Priority: r.ask.Priority}
}

// first returns the oldest count of those in line, in order.
func (l *line) first(count int) []*Request {
	list := make([]*Request, 0, min(count, l.len()))
	list = append(list, l.claiming.Items()...)
	l.idle.Scan(func(r *Request) bool {
		list = append(list, r)
		return len(list) < count+l.claiming.Len()
	})
	slices.SortFunc(list, func(a, b *Request) int { return a.order.Compare(b.order) })
	return list[:min(count, len(list))]
}
