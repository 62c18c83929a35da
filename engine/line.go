package engine

import (
	"time"

	"github.com/tidwall/btree"
)

// line is the order in which a replica's requests for one semaphore are served. Requests with a claim under way stand
// beside it: each of them is either granted or comes back.
//
// The line is FIFO with weights: the head waits for all its permits and those behind it wait too, so heavy requests
// never starve. Not safe for concurrent use.
type line struct {
	idle     *btree.BTreeG[*Request] // who waits for a wake-up
	claiming *btree.BTreeG[*Request]
	bySeq    map[int64]*Request // both kinds
	waiters  int                // how many of both kinds wait; tries do not
	weight   int                // of those that wait
	underway int                // of those that claim
}

func newLine() line {
	inOrder := func() *btree.BTreeG[*Request] {
		return btree.NewBTreeGOptions(func(a, b *Request) bool { return a.order.Compare(b.order) < 0 }, btree.Options{NoLocks: true})
	}
	return line{idle: inOrder(), claiming: inOrder(), bySeq: map[int64]*Request{}}
}

// len is how many stand in line, tries that claim included.
func (l *line) len() int { return len(l.bySeq) }

// count takes a request into account among those that wait, or (by -1) out of it. A try waits for nothing, so others must
// not be kept behind it.
func (l *line) count(r *Request, by int) {
	if r.ask.Wait > 0 {
		l.waiters += by
		l.weight += by * r.weight
	}
}

// head is the oldest waiter without a claim under way; nil if there is none.
func (l *line) head() *Request {
	r, _ := l.idle.Min()
	return r
}

// find returns the waiter that a place names; nil if it is gone.
func (l *line) find(o Order) *Request {
	if r := l.bySeq[o.Seq]; r != nil && r.order == o {
		return r
	}
	return nil
}

// enter puts a new request in line, idle.
func (l *line) enter(r *Request) {
	l.bySeq[r.order.Seq] = r
	l.count(r, 1)
	l.idle.Set(r)
}

// leave takes a request out, wherever it stands.
func (l *line) leave(r *Request) {
	if !l.has(r) { // whoever asked again may stand where it stood
		return
	}
	delete(l.bySeq, r.order.Seq)
	l.count(r, -1)
	if _, claims := l.claiming.Delete(r); claims {
		l.underway -= r.weight
	} else {
		l.idle.Delete(r)
	}
}

// claims moves an idle request among those with a claim under way.
func (l *line) claims(r *Request) {
	l.idle.Delete(r)
	l.claiming.Set(r)
	l.underway += r.weight
}

// returns puts a request whose claim has come to nothing back where it stood.
func (l *line) returns(r *Request) {
	l.claiming.Delete(r)
	l.underway -= r.weight
	l.idle.Set(r)
}

// claimsFor reports whether the request stands among those that claim.
func (l *line) claimsFor(r *Request) bool {
	c, claims := l.claiming.Get(r)
	return claims && c == r
}

// has reports whether the request still waits.
func (l *line) has(r *Request) bool { return l.bySeq[r.order.Seq] == r }

// claimingInOrder returns those with a claim under way, the oldest first.
func (l *line) claimingInOrder() []*Request { return l.claiming.Items() }

// place is what the replica states of itself when r is its oldest waiter without a claim; nil: none is.
func (l *line) place(r *Request, now time.Duration) Place {
	if r == nil {
		return Place{}
	}
	return Place{Order: r.order, Weight: r.weight, Count: l.waiters, Total: l.weight, Oldest: max(0, now-r.since)}
}

// ahead is how many of this replica's waiters stand before r. O(log² n).
func (l *line) ahead(r *Request) int { return before(l.idle, r) + before(l.claiming, r) }

// before is how many of a tree come before r.
func before(tree *btree.BTreeG[*Request], r *Request) int {
	lo, hi := 0, tree.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if at, _ := tree.GetAt(mid); at.order.Compare(r.order) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// all returns everyone in line, in no order.
func (l *line) all() []*Request {
	list := make([]*Request, 0, len(l.bySeq))
	for _, r := range l.bySeq {
		list = append(list, r)
	}
	return list
}
