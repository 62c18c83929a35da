package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

const (
	viewCount = 1000 // leases a page
	namesMax  = 1000 // semaphores a page of a list
)

// sight is a semaphore as the nodes see it, put together.
type sight struct {
	st       *stored
	ballot   Ballot
	answered int
	under    map[Ballot]usage // by the definition that nodes have accepted
	leases   []seenLease
	cooling  map[string]quorum.Slots // by lease
	coolFor  map[string]time.Duration
	places   map[string]Placed // by replica
	longest  time.Duration
	waits    []time.Duration // before a node grants anything; of those that answered

	leftovers []string // leases with an attempt that Q nodes can not have and nobody has touched for a while
}

// usage is what nodes under one definition have in use or cooling, any of them.
type usage struct {
	nodes int
	used  quorum.Slots
}

// add takes in what one more node uses.
func (u usage) add(page *ViewPage) usage {
	u.nodes++
	sets := make([]quorum.Slots, 0, 1+len(page.Leases)+len(page.Cooling))
	sets = append(sets, u.used)
	for _, r := range page.Leases {
		sets = append(sets, r.Slots)
	}
	for _, c := range page.Cooling {
		sets = append(sets, c.Slots)
	}
	u.used = quorum.UnionOf(sets...)
	return u
}

// seenLease is one attempt of a lease, and on how many nodes it was seen.
type seenLease struct {
	Record
	seen int
}

// view reads a semaphore, all its pages, from the nodes. Q must answer.
func (e *Engine) view(ctx context.Context, name string) (*sight, error) {
	pages := make([]*ViewPage, len(e.peers))
	cursors := make([]string, len(e.peers))
	read := make([]bool, len(e.peers)) // to the end, or in vain
	for {
		asked := false
		answers := e.gather(ctx, func(p *peer) Op {
			if read[p.pos] {
				return nil
			}
			asked = true
			return &View{Semaphore: name, Cursor: cursors[p.pos], Count: viewCount}
		}, nil)
		if !asked {
			break
		}
		for i, a := range answers {
			if a != nil && a.View != nil {
				e.checkOwners(e.peers[i].node.Name(), name, a.View.Leases)
			}
			switch {
			case read[i]:
				continue
			case a == nil || a.View == nil:
				pages[i], read[i] = nil, true
				continue
			case pages[i] == nil:
				pages[i] = a.View
			default:
				pages[i].Leases = append(pages[i].Leases, a.View.Leases...)
			}
			cursors[i] = a.View.Next
			read[i] = a.View.Next == ""
		}
	}
	return e.together(name, pages)
}

// together makes one picture of what the nodes said.
func (e *Engine) together(name string, pages []*ViewPage) (*sight, error) {
	g := &sight{
		under: map[Ballot]usage{}, cooling: map[string]quorum.Slots{}, coolFor: map[string]time.Duration{}, places: map[string]Placed{},
	}
	seen := map[[2]string]*seenLease{}
	cools := map[string]int{}
	var latest Value
	for _, page := range pages {
		if page == nil {
			continue
		}
		g.answered++
		g.under[page.Definition] = g.under[page.Definition].add(page)
		if g.ballot.Less(page.Definition) {
			g.ballot, latest = page.Definition, page.Value
		}
		g.longest = max(g.longest, page.LongestTTL)
		g.waits = append(g.waits, page.Wait)
		for _, r := range page.Leases {
			key := [2]string{r.Lease, r.By}
			if s := seen[key]; s == nil {
				seen[key] = &seenLease{Record: r, seen: 1}
			} else {
				s.seen++
				s.add(r)
			}
		}
		for _, c := range page.Cooling {
			cools[c.Lease]++
			g.cooling[c.Lease] = g.cooling[c.Lease].Union(c.Slots)
			g.coolFor[c.Lease] = max(g.coolFor[c.Lease], c.Left)
		}
		for _, p := range page.Places {
			if at, known := g.places[p.Order.Replica]; !known || p.Count > at.Count {
				g.places[p.Order.Replica] = p
			}
		}
	}
	if g.answered < e.quorum {
		return nil, ErrQuorumUnavailable
	}
	slices.Sort(g.waits)
	for _, s := range seen {
		if quorum.MayHold(len(e.peers), g.answered, s.seen) {
			g.leases = append(g.leases, *s)
		} else if s.Touched > leftoverAfter {
			g.leftovers = append(g.leftovers, s.Lease)
		}
	}
	slices.SortFunc(g.leases, func(a, b seenLease) int { return int(max(-1, min(1, b.Age-a.Age))) })
	maps.DeleteFunc(g.cooling, func(id string, _ quorum.Slots) bool {
		return !quorum.MayHold(len(e.peers), g.answered, cools[id])
	})
	st, err := storedOf(latest)
	g.st = live(st)
	return g, err
}

// add takes in another node's record of the same attempt: the slots of the larger ver, the longer end, the longer age, the last
// touch.
func (s *seenLease) add(r Record) {
	left, age, touched := max(s.Left, r.Left), max(s.Age, r.Age), min(s.Touched, r.Touched)
	if r.Ver > s.Ver {
		s.Record = r
	}
	s.Left, s.Age, s.Touched = left, age, touched
}

// status counts. Each slot counts once, though two attempts of one lease may be seen while they cross.
func (e *Engine) status(name string, g *sight) Status {
	st := Status{Leases: len(g.leases), LongestTTL: g.longest, GrantingIn: g.waits[e.quorum-1]}
	var used, cool quorum.Slots
	for _, l := range g.leases {
		used = used.Union(l.Slots)
		if l.Left != Never && (st.NextExpiry == 0 || l.Left < st.NextExpiry) {
			st.NextExpiry = l.Left
		}
	}
	for _, c := range g.cooling {
		cool = cool.Union(c)
	}
	st.InUse, st.Cooling = used.Len(), cool.Minus(used).Len()
	st.Available = max(0, g.st.Definition.Limit-st.InUse-st.Cooling)
	st.OverCommitted = max(0, st.InUse+st.Cooling-g.st.Definition.Limit)
	for replica, p := range g.places {
		if replica != e.replica {
			st.Waiting += p.Count
			st.OldestWait = max(st.OldestWait, p.Oldest)
		}
	}
	quiet := Never
	if s := e.known(name); s != nil {
		now := e.cfg.Now()
		st.Waiting += s.line.waiters
		if head := s.line.head(); head != nil {
			st.OldestWait = max(st.OldestWait, now-head.since)
		}
		st.GrantedTotal, st.LastGrant = s.granted, s.lastGrant
		quiet = now - s.active
		s.unlock()
	}
	st.Stalled = g.stalled(&st, quiet)
	return st
}

// stalled reports the mark of a leak: somebody waits, and for longer than the longest TTL in use nothing was granted, renewed
// or released. A lease that ends by itself and is older than the longest TTL was renewed within it. quiet is how long
// this replica has done nothing.
func (g *sight) stalled(st *Status, quiet time.Duration) bool {
	longest := max(g.longest, g.st.Definition.TTL)
	for _, l := range g.leases {
		if l.Left == Never {
			longest = max(longest, g.st.Definition.TTLMax)
		}
	}
	for _, l := range g.leases {
		if l.Left != Never || l.Age <= longest {
			return false
		}
	}
	return st.Waiting > 0 && st.OldestWait > longest && quiet > longest
}

// Semaphore reads a semaphore with its status from a quorum. Errors: ErrUnknownSemaphore, ErrQuorumUnavailable.
func (e *Engine) Semaphore(ctx context.Context, name string) (Semaphore, error) {
	if err := ValidName(name); err != nil {
		return Semaphore{}, err
	}
	g, err := e.view(ctx, name)
	switch {
	case err != nil:
		return Semaphore{}, err
	case g.st == nil:
		return Semaphore{}, ErrUnknownSemaphore
	}
	return g.st.semaphore(name, e.status(name, g)), nil
}

// Semaphores lists at most count semaphores with the prefix whose names are greater than after, in byte order, and the after
// of the next page ("" at the end).
func (e *Engine) Semaphores(ctx context.Context, prefix, after string, count int) (list []Semaphore, next string, err error) {
	names, next, err := e.names(ctx, Names{Prefix: prefix, After: after, Count: min(count, namesMax)})
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		s, err := e.Semaphore(ctx, name)
		if err == ErrUnknownSemaphore {
			continue // deleted meanwhile, or on a minority only
		}
		if err != nil {
			return nil, "", err
		}
		list = append(list, s)
	}
	return list, next, nil
}

// names reads a page of names from the nodes: what any of them has.
func (e *Engine) names(ctx context.Context, op Names) (page []string, next string, err error) {
	count := op.Count
	answers := e.gather(ctx, func(*peer) Op { return &op }, nil)
	if answered(answers) < e.quorum {
		return nil, "", ErrQuorumUnavailable
	}
	cut := "" // a node that filled its page may have more names after its last
	for _, a := range answers {
		if a == nil {
			continue
		}
		page = append(page, a.Names...)
		if len(a.Names) >= count && (cut == "" || a.Names[len(a.Names)-1] < cut) {
			cut = a.Names[len(a.Names)-1]
		}
	}
	slices.Sort(page)
	page = slices.Compact(page)
	more := cut != ""
	if more {
		page = slices.DeleteFunc(page, func(n string) bool { return n > cut })
	}
	if len(page) > count {
		page, more = page[:count], true
	}
	if more {
		next = page[len(page)-1]
	}
	return page, next, nil
}

// Leases lists the leases of a semaphore, oldest first. Errors as Semaphore.
func (e *Engine) Leases(ctx context.Context, name string) ([]LeaseInfo, error) {
	g, err := e.view(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case g.st == nil && len(g.leases) == 0:
		return nil, ErrUnknownSemaphore
	}
	list := make([]LeaseInfo, 0, len(g.leases)+len(g.cooling))
	for _, l := range g.leases {
		of := decodeInfo(l.Info)
		list = append(list, LeaseInfo{
			ID: l.Lease, Semaphore: name, Weight: l.Slots.Len(), Slots: l.Slots, Fence: l.Fence, HolderInfo: of.people(),
			Policy:    of.policy(),
			GrantedAt: time.Now().Add(-l.Age), Age: l.Age, ExpiresIn: l.Left,
		})
	}
	for id, slots := range g.cooling {
		list = append(list, LeaseInfo{
			ID: id, Semaphore: name, Weight: slots.Len(), Slots: slots, Cooling: true, ExpiresIn: g.coolFor[id],
		})
	}
	return list, nil
}

// tellWaiters tells those in line how many are before them, where that changed. mu is held.
func (s *semaphore) tellWaiters(now time.Duration) {
	ahead, claiming := s.before, s.line.claimingInOrder()
	s.line.idle.Scan(func(r *Request) bool {
		for ; len(claiming) > 0 && claiming[0].order.Compare(r.order) < 0; claiming = claiming[1:] {
			ahead++
		}
		if r.told != ahead && now-r.toldAt >= time.Second {
			r.told, r.toldAt = ahead, now
			r.events.Waiting(ahead)
		}
		ahead++
		return true
	})
}
