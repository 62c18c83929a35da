package engine_test

import (
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// Bounds of what may take how long.
const (
	decideMax     = 15 * time.Second // a request after its wait, with faults: mends, new attempts and node time-outs
	decideCalmMax = 2 * time.Second  // likewise, without faults
	callMax       = 30 * time.Second // a call of the engine that blocks
	idleMax       = time.Second      // free permits while somebody waits for them, without faults
	keeperMax     = time.Millisecond // how late a holder may hear of a loss, besides a thousandth for clocks that differ
)

// look checks everything there is to see from outside: the nodes' memories, who should have been told what, and that
// nobody is forgotten.
func (w *world) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	for _, n := range w.nodes {
		if err := n.Check(); err != nil {
			w.violatedf("%s: %w", n.Name(), err)
		}
	}
	for i := range w.plan.semaphores {
		if w.blind {
			break
		}
		w.lookAt(&w.plan.semaphores[i])
	}
	for t := range w.tales {
		w.violated(t.overdue())
	}
	for c := range w.pending {
		if w.now()-c.since > callMax {
			w.violatedf("%s has not returned for %v", c.what, w.now()-c.since)
		}
	}
}

// votes counts the records of the attempt that was granted: others are given back.
func votes(records []*engine.Record, by string) int {
	n := 0
	for _, r := range records {
		if r.By == by {
			n++
		}
	}
	return n
}

// lookAt checks a semaphore on all nodes. mu is held.
func (w *world) lookAt(s *semaphorePlan) {
	seen := map[string][]*engine.Record{}
	var used quorum.Slots // on any node
	for _, n := range w.nodes {
		page := n.Look(s.name)
		key := n.Name() + " " + s.name
		last := max(page.LastFence, n.FenceFloor()) // one that is dropped goes into the floor
		if last < w.fences[key] {
			w.violatedf("%s: the last fence of %s fell from %d to %d", n.Name(), s.name, w.fences[key], last)
		}
		w.fences[key] = last
		for i := range page.Leases {
			r := &page.Leases[i]
			used = used.Union(r.Slots)
			if !r.Copy && r.Left > 0 {
				seen[r.Lease] = append(seen[r.Lease], r)
			}
		}
		for _, c := range page.Cooling {
			used = used.Union(c.Slots)
		}
	}
	w.checkLeftOver(s, seen)
	for id, records := range seen {
		if g, gone := w.gone[id]; gone && votes(records, g.by) >= w.quorum() {
			w.violatedf("a quorum holds lease %s of %s, whose release was acknowledged at %v", id, s.name, g.at)
		}
	}
	w.checkHeld(s, seen)
	w.checkIdle(s, used)
}

func (w *world) quorum() int { return w.plan.nodes/2 + 1 }

// checkHeld: a valid lease is on a quorum of the nodes all the time, with its slots and its fence, which whoever takes the
// lease over may raise. mu is held.
func (w *world) checkHeld(s *semaphorePlan, seen map[string][]*engine.Record) {
	for t := range w.tales {
		if t.semaphore != s.name || !t.valid() {
			continue
		}
		votes := 0
		for _, r := range seen[t.lease.ID] {
			if r.By == t.by && r.Slots.Contains(t.slots) && r.Fence >= t.lease.Fence {
				votes++
			}
		}
		if votes < w.quorum() {
			w.violatedf("lease %s of %s, slots %s, fence %d, is valid until %v and held on %d nodes", t.lease.ID, s.name, t.slots,
				t.lease.Fence, t.until, votes)
		}
	}
}

// leftOverMax is how long after the last fault a node may keep what nobody got, or what was released: it takes a
// reconnect, and the time in which a claim may still be executed.
const leftOverMax = 10 * time.Second

// checkLeftOver: whoever was refused, cancelled or failed left nothing on any node, and nothing is left of what was released.
// Replicas that end leave what they had under way to its TTL, and a claim that is executed twice may be granted once it was refused.
// mu is held.
func (w *world) checkLeftOver(s *semaphorePlan, seen map[string][]*engine.Record) {
	if !w.calmFor(leftOverMax) || w.plan.faults.Repeat > 0 || w.plan.ends() {
		return
	}
	for id, records := range seen {
		for _, r := range records {
			g, gone := w.gone[id]
			if !w.granted[id] && r.Touched > leftOverMax || gone && g.by == r.By && w.now()-g.at > leftOverMax {
				w.violatedf("%s of lease %s of %s, on slots %s for %v, is left over", r.By, id, s.name, r.Slots, r.Age)
			}
		}
	}
}

// checkIdle: without faults, permits that are free on every node do not stay so for long while somebody waits who could have
// them, whoever it is. mu is held.
func (w *world) checkIdle(s *semaphorePlan, used quorum.Slots) {
	waiters, heaviest := 0, 0
	for t := range w.tales {
		if t.semaphore == s.name && t.granted == forever && t.ask.Wait > 0 {
			waiters++
			heaviest = max(heaviest, t.ask.Permits)
		}
	}
	latest := w.chosen.latest(s.name)
	bound := latest.Limit
	for bound > 0 && bound+used.From(bound).Len() > latest.Limit {
		bound-- // slots beyond the limit are in use
	}
	free := bound - used.Len() + used.From(bound).Len()
	if waiters == 0 || free < heaviest || latest.Deleted || latest.Paused || !w.calmFor(0) {
		delete(w.idle, s.name)
		return
	}
	if since, idle := w.idle[s.name]; !idle {
		w.idle[s.name] = w.now()
	} else if w.now()-since > idleMax {
		w.violatedf("%d permits of %s are free since %v, and %d wait for at most %d", free, s.name, since, waiters, heaviest)
	}
}

// overdue says what the client should have been told by now. w.mu is held.
func (t *tale) overdue() error {
	now := t.w.now()
	switch {
	case t.orphan:
	case t.granted == forever:
		late, most := now-t.asked-t.ask.Wait, decideMax
		if t.w.calmFor(decideMax) {
			most = decideCalmMax
		}
		if late > most {
			return fmt.Errorf("a request for %s that waits %v has heard nothing %v later", t.semaphore, t.ask.Wait, late)
		}
	case t.ask.Kept && !t.released && now-keeperMax-t.lease.TTL/1000 > t.until:
		return fmt.Errorf("the holder of lease %s of %s has not heard that its validity ended at %v", t.lease.ID, t.semaphore, t.until)
	}
	return nil
}
