package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

// picture is what there is of a topic. Immutable, once it is told.
type picture struct {
	keys  []string // in order
	items map[string]*item
}

// item is a part of a picture, with what makes two readings of it differ: what passes by itself, as an age does, is no change.
type item struct {
	semaphore string // whose; "" of what is no semaphore's
	gone      string // what it is called when it is gone; "": nobody needs to know
	shown     any
	fixed     any          // comparable
	times     [2]time.Time // points in time, which shift a little from reading to reading
}

// shiftMax is by how much two readings of one point in time may differ.
const shiftMax = 400 * time.Millisecond

func (i *item) differs(before *item) bool {
	if before == nil || i.fixed != before.fixed {
		return true
	}
	for n := range i.times {
		if i.times[n].Sub(before.times[n]).Abs() > shiftMax {
			return true
		}
	}
	return false
}

func (p *picture) add(key string, i *item) {
	if p.items == nil {
		p.items = map[string]*item{}
	}
	p.keys = append(p.keys, key)
	p.items[key] = i
}

// all returns the keys, none of no picture.
func (p *picture) all() []string {
	if p == nil {
		return nil
	}
	return p.keys
}

// picture reads a topic.
func (s *Server) picture(topic string) (*picture, error) {
	ctx, cancel := context.WithTimeout(context.Background(), topicTimeMax)
	defer cancel()
	name, one := strings.CutPrefix(topic, semaphoreTopic)
	switch {
	case one:
		return s.pictureOfOne(ctx, name)
	case topic == "nodes":
		return s.pictureOfNodes(), nil
	case topic == "events":
		return s.pictureOfEvents(), nil
	case topic == policiesTopic:
		return s.pictureOfPolicies(ctx)
	}
	list, _, err := s.engine.Semaphores(ctx, "", "", topicItems)
	p := &picture{}
	for i := range list {
		p.add(list[i].Name, semaphoreItem(&list[i], semaphoreOf(list[i])))
	}
	return p, err
}

// What a semaphore is, its leases and those who wait have names of their own in the topic of one semaphore.
type (
	semaphorePart struct {
		Semaphore semaphoreJSON `json:"semaphore"`
	}
	leasePart struct {
		Lease leaseJSON `json:"lease"`
	}
	waiterPart struct {
		Waiter waiterJSON `json:"waiter"`
	}
)

// pictureOfOne is a semaphore, its first leases and the first who wait for it here; empty if there is no such semaphore. A waiter
// that is granted becomes a lease with the same id.
func (s *Server) pictureOfOne(ctx context.Context, name string) (*picture, error) {
	p := &picture{}
	sem, err := s.engine.Semaphore(ctx, name)
	if errors.Is(err, engine.ErrUnknownSemaphore) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	p.add("", semaphoreItem(&sem, semaphorePart{semaphoreOf(sem)}))
	leases, err := s.engine.Leases(ctx, name)
	if err != nil {
		return nil, err
	}
	leases, _ = leasePage(leases, leaseCursor{fence: -1}, topicItems)
	for i := range leases {
		p.add(leases[i].ID, leaseItem(&leases[i]))
	}
	waiters, _, err := s.engine.Waiters(ctx, name, topicItems)
	for i := range waiters {
		if w := &waiters[i]; p.items[w.ID] == nil {
			p.add(w.ID, &item{
				semaphore: name, gone: w.ID, shown: waiterPart{waiterOf(*w)}, times: [2]time.Time{time.Now().Add(-w.Waiting)},
			})
		}
	}
	return p, err
}

func semaphoreItem(sem *engine.Semaphore, shown any) *item {
	i := &item{semaphore: sem.Name, gone: sem.Name, shown: shown}
	fixed := sem.Status
	if fixed.OldestWait > 0 {
		i.times[0] = time.Now().Add(-fixed.OldestWait)
	}
	if fixed.NextExpiry > 0 {
		i.times[1] = time.Now().Add(fixed.NextExpiry)
	}
	fixed.OldestWait, fixed.NextExpiry = 0, 0
	i.fixed = struct {
		rev      int64
		declared bool
		status   engine.Status
	}{sem.Rev, sem.Declared, fixed}
	return i
}

func leaseItem(l *engine.LeaseInfo) *item {
	shown := leaseOf(*l)
	i := &item{semaphore: l.Semaphore, gone: l.ID, shown: leasePart{shown}}
	if l.ExpiresIn != engine.Never {
		i.times[0] = time.Now().Add(l.ExpiresIn)
	}
	shown.GrantedAt, shown.AgeMS, shown.ExpiresInMS, shown.Policy = "", 0, nil, nil // the last never changes
	i.fixed = shown
	return i
}

func (s *Server) pictureOfNodes() *picture {
	p := &picture{}
	quorum, nodes := s.engine.Nodes()
	for _, n := range nodes {
		shown := nodeOf(n)
		fixed := shown
		fixed.Index = nil
		fixed.ClockOffsetMS /= 10 // it and the latency never stand still
		fixed.LatencyMS = number(n.Latency.Milliseconds())
		p.add(n.Name, &item{gone: n.Name, shown: nodePart{quorum, shown}, fixed: fixed})
	}
	return p
}

// nodePart is a node, and how many of them have to agree.
type nodePart struct {
	Quorum int `json:"quorum"`
	nodeJSON
}

// pictureOfPolicies leaves out who uses them: not every token may know each semaphore.
func (s *Server) pictureOfPolicies(ctx context.Context) (*picture, error) {
	p := &picture{}
	if s.policies == nil {
		return p, nil
	}
	list, err := s.policies.List(ctx)
	for _, st := range list {
		users := len(st.UsedBy)
		st.UsedBy, st.Differences = nil, nil
		fixed := struct {
			rev, hereRev int64
			here         policies.Here
			users        int
		}{st.Rev, st.HereRev, st.Here, users}
		p.add(st.Name, &item{gone: st.Name, shown: policyPart{st, users}, fixed: fixed})
	}
	return p, err
}

// policyPart is a policy, and how many semaphores are bound to it.
type policyPart struct {
	policies.Status
	Users int `json:"users"`
}

func (s *Server) pictureOfEvents() *picture {
	p := &picture{}
	list, _, _ := s.events.after(0)
	for _, v := range list {
		p.add(v.ID, &item{semaphore: v.Semaphore, shown: v})
	}
	return p
}
