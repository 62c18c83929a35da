package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
	"github.com/permitd/permitd/engine/quorum"
)

// Pace is how fast time goes by on a walk: the times that pass and the TTLs are drawn from it.
type Pace struct {
	Pauses []time.Duration // between operations; those that are listed more often happen more often
	TTLs   []time.Duration // of leases that end
	Holds  []time.Duration // min_hold
}

// Virtual is the pace where time costs nothing. All limits of the rules are among its times.
var Virtual = Pace{
	Pauses: slices.Concat(
		slices.Repeat([]time.Duration{0}, 200), slices.Repeat([]time.Duration{time.Millisecond}, 30),
		slices.Repeat([]time.Duration{7 * time.Millisecond, 30 * time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond}, 5),
		[]time.Duration{time.Microsecond, 700 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond, 6 * time.Second, 61 * time.Second},
	),
	TTLs:  []time.Duration{time.Millisecond, 40 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second, 30 * time.Second, time.Minute, time.Minute},
	Holds: []time.Duration{0, 0, 20 * time.Millisecond, time.Second, 45 * time.Second},
}

// Real is the pace where every moment is waited for.
var Real = Pace{
	Pauses: append(slices.Repeat([]time.Duration{0}, 60), 100*time.Microsecond, time.Millisecond, time.Millisecond, 5*time.Millisecond, 30*time.Millisecond),
	TTLs:   []time.Duration{time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond, 300 * time.Millisecond, time.Minute, time.Minute},
	Holds:  []time.Duration{0, 0, 2 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond},
}

// step is one operation of a walk.
type step struct {
	pause     time.Duration // before it
	header    *engine.Header
	at        int64
	placement engine.Placement
	op        engine.Op
}

// walk is a random course of operations, the same for each seed as long as the answers are the same: it knows the state that they
// led to, so that most of what it asks for makes sense.
type walk struct {
	*rand.Rand
	pace    Pace
	state   *localnode.State
	now     int64       // the node's clock as last told, µs
	attempt int         // the last attempt
	order   int64       // the last arrival
	planned []engine.Op // what comes next, whatever the dice say
}

func newWalk(seed uint64, pace Pace, state *localnode.State) *walk {
	return &walk{Rand: rand.New(rand.NewPCG(seed, 0x64696666)), pace: pace, state: state, order: 1000}
}

var (
	walkSemaphores = []string{"a", "a:{b} \x00é", "\xff"}
	walkLeases     = []string{"L1", "L2", "L3", "L4", "L5", "L6:\x00"}
	walkReplicas   = []string{me, "MMMMMMMMMMMMMMMM", other}
	walkRegisters  = []string{"secret", "a", "index"}
)

// pick returns one of the list.
func pick[T any](w *walk, list ...T) T { return list[w.IntN(len(list))] }

// often is true with probability p.
func (w *walk) often(p float64) bool { return w.Float64() < p }

// next returns the next step.
func (w *walk) next() step {
	pause := pick(w, w.pace.Pauses...) + time.Duration(w.IntN(50))*time.Microsecond
	s := step{pause: pause, header: w.header(), at: w.at()}
	semaphore := pick(w, walkSemaphores...)
	switch {
	case len(w.planned) > 0:
		s.header, s.op, s.placement.Mode = w.rightHeader(), w.planned[0], engine.PlaceAlways
		w.planned = w.planned[1:]
		return s
	case w.often(0.004):
		w.planned = w.heavy(semaphore)
	case w.often(0.01):
		w.planned = w.demolish(semaphore)
	case w.often(0.001):
		w.planned = w.reform(semaphore)
	}
	switch n := w.IntN(100); {
	case n < 34:
		w.asks(&s, semaphore)
	case n < 48:
		s.op = w.mend(semaphore)
	case n < 59:
		s.op = w.renew(semaphore)
	case n < 73:
		w.givesBack(&s, semaphore)
	case n < 79:
		s.op = w.attach(semaphore)
	case n < 88:
		w.lines(&s, semaphore)
	case n < 90:
		s.op = &engine.Names{
			Prefix: pick(w, "", "a", "\xff"), After: pick(w, "", "a", "b"), Count: 1 + w.IntN(3), Deleted: w.often(0.5),
		}
	default:
		s.op = w.register(semaphore)
	}
	return s
}

// follow returns the steps that are sent with one: claims, releases and lines on the same semaphore.
func (w *walk) follow(s step) (more []step) {
	switch s.op.(type) {
	case *engine.Claim, *engine.Release, *engine.Line:
	default:
		return nil
	}
	for len(w.planned) == 0 && w.often(0.5) {
		next := step{header: s.header, at: w.at()}
		pick(w, w.asks, w.givesBack, w.lines)(&next, semaphoreOf(s.op))
		more = append(more, next)
	}
	return more
}

// asks makes a step a claim.
func (w *walk) asks(s *step, semaphore string) {
	claim := w.claim(semaphore)
	s.op, s.placement = claim, w.placement(semaphore, claim.Order.Replica)
	if claim.Wait && w.often(0.7) {
		s.placement.Place = engine.Place{Order: claim.Order, Weight: claim.Weight, Count: 1, Total: claim.Weight}
	}
}

// givesBack makes a step a release.
func (w *walk) givesBack(s *step, semaphore string) {
	release := w.release(semaphore)
	s.op, s.placement = release, w.placement(semaphore, release.Replica)
}

// lines makes a step a line.
func (w *walk) lines(s *step, semaphore string) {
	replica := pick(w, walkReplicas...)
	s.op, s.placement = &engine.Line{Semaphore: semaphore, Replica: replica}, w.placement(semaphore, replica)
}

func (w *walk) rightHeader() *engine.Header {
	r := w.state.Record()
	return &engine.Header{Cluster: r.Cluster, Index: r.Index, Known: slices.Clone(r.Known)}
}

// header is mostly the right one.
func (w *walk) header() *engine.Header {
	h := w.rightHeader()
	switch w.IntN(60) {
	case 0:
		h.Cluster = "another"
	case 1:
		h.Index = (h.Index + 1) % len(h.Known)
	case 2:
		h.Known[w.IntN(len(h.Known))]--
	case 3:
		h.Known[w.IntN(len(h.Known))]++ // of another node: it is learned
	}
	return h
}

// at is mostly none or now.
func (w *walk) at() int64 {
	switch w.IntN(40) {
	case 0:
		return w.now - w.Int64N(10*time.Second.Microseconds())
	case 1:
		return w.now + w.Int64N(200*time.Millisecond.Microseconds())
	case 2, 3, 4, 5, 6, 7, 8, 9, 10:
		return 0
	default:
		return w.now
	}
}

// view looks at a semaphore without changing it.
func (w *walk) view(semaphore string) *engine.ViewPage { return w.state.Look(w.now, semaphore) }

// record is the lease as it is now; most operations are about one that there is.
func (w *walk) record(semaphore string) engine.Record {
	leases := w.view(semaphore).Leases
	if len(leases) == 0 || w.often(0.15) {
		return engine.Record{
			Lease: pick(w, walkLeases...), By: w.by(), Owner: w.owner(), Slots: w.slots(), Fence: w.fence(0), Ver: w.Int64N(3),
		}
	}
	return leases[w.IntN(len(leases))]
}

// by is mostly a new attempt: those that ended are barred.
func (w *walk) by() string {
	if w.often(0.7) {
		w.attempt++
		return fmt.Sprint(w.attempt)
	}
	return pick(w, fmt.Sprint(max(0, w.attempt-w.IntN(5))), "\xfe: \x00")
}

func (w *walk) owner() engine.Owner {
	return engine.Owner{Gen: pick[int64](w, 0, 0, 0, 1, 2), Nonce: pick(w, "p", "q:\x00")}
}

// ownerNear is mostly the owner given, or a larger one.
func (w *walk) ownerNear(o engine.Owner) engine.Owner {
	switch w.IntN(10) {
	case 0:
		return w.owner()
	case 1, 2:
		o.Gen++
	}
	return o
}

func (w *walk) slots() quorum.Slots {
	var list []int
	for range 1 + w.IntN(3) {
		list = append(list, w.IntN(10))
	}
	return quorum.SlotsOf(list...)
}

// slotsNear are mostly those given, or some of them, or others.
func (w *walk) slotsNear(s quorum.Slots) quorum.Slots {
	switch n := w.IntN(20); {
	case n < 6 && s.Len() > 1:
		return s.Minus(quorum.OneSlot(pick(w, s.First(), s[len(s)-1].Last)))
	case n < 9:
		return s.Union(w.slots())
	case n < 11:
		return w.slots()
	}
	return s
}

func (w *walk) fence(near int64) int64 {
	return max(0, near+pick[int64](w, 0, 0, 0, -3, 1, 2, 40, -near))
}

// ttl may be without end. Hardly any two leases end at one instant: nodes may drop those in any order.
func (w *walk) ttl(endless bool) time.Duration {
	if endless && w.often(0.1) {
		return engine.Never
	}
	return pick(w, w.pace.TTLs...) - time.Duration(w.IntN(1000))*time.Microsecond
}

// until is when a mend or a renewal is void: mostly later.
func (w *walk) until() int64 {
	if w.often(0.2) {
		return w.now + pick(w, 0, -time.Second, time.Microsecond, time.Millisecond).Microseconds()
	}
	return w.now + 20*time.Second.Microseconds()
}

// ballotNear is mostly the one given.
func (w *walk) ballotNear(b engine.Ballot) engine.Ballot {
	if w.often(0.2) {
		b.Counter = max(0, b.Counter+pick[int64](w, -1, 1, 5))
	}
	return b
}

// newOrder is later than most.
func (w *walk) newOrder(replica string) engine.Order {
	w.order++
	return engine.Order{Arrival: max(1, w.order-pick[int64](w, 0, 0, 0, 1, 5, 20)), Replica: replica, Seq: w.order}
}

// placement states all kinds of things.
func (w *walk) placement(semaphore, replica string) engine.Placement {
	p := engine.Placement{Mode: engine.Mode(w.IntN(4))}
	for _, place := range w.view(semaphore).Places {
		if place.Order.Replica == replica && w.often(0.7) {
			p.Was = place.Order
		}
	}
	if w.often(0.8) {
		p.Place = w.place(replica)
		if p.Was != (engine.Order{}) && w.often(0.4) {
			p.Place.Order = p.Was // stated again
		}
	}
	if w.often(0.3) {
		p.Next = w.place(replica)
	}
	return p
}

func (w *walk) place(replica string) engine.Place {
	weight := 1 + w.IntN(4)
	count := 1 + w.IntN(3)
	return engine.Place{
		Order: w.newOrder(replica), Weight: weight, Count: count, Total: weight + count - 1,
		Oldest: time.Duration(w.IntN(5000)) * time.Millisecond,
	}
}
