package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// erasFrom is the first seed whose nodes lose their memory, come back under another name, and have clocks that jump. Before it they only
// hang, so that all they remember can be looked at.
const erasFrom = 1_000_000

// TestSimulationOfEras is TestSimulation with nodes that lose their memory, or its last part, that are restarted one by one and all
// at once, follow another for a while, whose clocks jump, and one of which some replicas replace by another: of a minority at a time.
// What clients are told is checked as ever; what nodes remember is not, as a lease may be held by what others remember of it.
func TestSimulationOfEras(t *testing.T) {
	if *simSeed < erasFrom { // else it is TestSimulation's, which plays any
		playSeeds(t, erasFrom+*simSeed, erasShare)
	}
}

// erasShare is how many seeds of eras there are for each seed without, in a run that is not asked for a number.
const erasShare = 0.5

// withEras adds to a plan what befalls memories.
func (p *plan) withEras() {
	d := newDice(p.seed, "eras")
	p.eras, p.lua = true, false
	p.nodes, p.durable = pick(d, 3, 3, 3, 3, 3, 5, 5, 1), d.chance(0.5)
	p.spare = p.nodes == 3 && newDice(p.seed, "spare").chance(0.25)
	p.habits.never = 0 // of leases without an end in conflict an operator decides
	for _, tr := range eraTroubles {
		if d.chance(0.6) {
			p.troubles[tr.name] = tr.chance * (0.2 + d.Float64())
		}
	}
	if p.spare {
		p.troubles[listChanges] = 0.02
	}
}

// listChanges is the trouble of plans with a spare node.
const listChanges = "the list of nodes changes"

// eraTroubles befall nodes of plans with eras.
var eraTroubles = []trouble{
	{"a node is restarted", 0.008, func(w *world, d dice) (time.Duration, func()) {
		s := pick(d, w.servers()...)
		if !w.up(s) {
			return 0, nil
		}
		s.Kill()
		return d.upTo(5 * time.Second), func() { restart(s, enginetest.Renamed) }
	}},
	{"a node loses its memory", 0.01, func(w *world, d dice) (time.Duration, func()) {
		s := w.minority(d)
		if s == nil {
			return 0, nil
		}
		s.Kill()
		return d.upTo(5 * time.Second), func() { restart(s, enginetest.Lost) }
	}},
	{"a node is wiped", 0.01, func(w *world, d dice) (time.Duration, func()) {
		if s := w.minority(d); s != nil {
			s.Wipe()
		}
		return 0, nil
	}},
	{"a node loses its last part", 0.01, func(w *world, d dice) (time.Duration, func()) {
		s := w.minority(d)
		if s == nil {
			return 0, nil
		}
		tail := s.Snapshot()
		return d.upTo(2 * time.Second), func() {
			s.Kill()
			s.RestartFrom(tail)
		}
	}},
	{"a node follows another", 0.005, func(w *world, d dice) (time.Duration, func()) {
		if s, other := w.minority(d), pick(d, w.servers()...); s != nil && other != s {
			s.Follow(other.Snapshot())
		}
		return 0, nil
	}},
	{"a clock jumps", 0.01, func(w *world, d dice) (time.Duration, func()) {
		if s := w.minority(d); s != nil {
			jump := pick(d, 30*time.Millisecond, 300*time.Millisecond, 5*time.Second, time.Hour)
			s.Shift(pick(d, jump, -jump))
		}
		return 0, nil
	}},
	{"all nodes are restarted", 0.002, func(w *world, d dice) (time.Duration, func()) {
		for _, s := range w.servers() {
			s.Kill()
		}
		lost := w.minority(d)
		return d.upTo(3 * time.Second), func() {
			for _, s := range w.servers() {
				if s == lost && d.chance(0.5) {
					restart(s, enginetest.Lost)
				} else {
					restart(s, enginetest.Renamed)
				}
			}
		}
	}},
	{listChanges, 0, func(w *world, d dice) (time.Duration, func()) {
		if w.moved || w.minority(d) == nil {
			return 0, nil
		}
		w.moved = true
		some := 1 + d.IntN(len(w.replicas))
		for _, r := range w.replicas[:some] {
			r.move()
		}
		if d.chance(0.3) { // the others keep their list
			return 0, nil
		}
		return d.upTo(20 * time.Second), func() {
			for _, r := range w.replicas[some:] {
				r.move()
			}
		}
	}},
}

// move starts the replica anew with a list that has the spare node in place of the last. One that is down will start so.
func (r *replica) move() {
	r.moved = true
	if r.current.Load() != nil {
		r.close()
		r.open()
	}
}

// restart starts a server anew, also one that another trouble has started already.
func restart(s *enginetest.Server, memory enginetest.Memory) {
	s.Kill()
	s.Restart(memory)
}

// servers are the nodes of plans with eras, which are all in Go.
func (w *world) servers() []*enginetest.Server { return w.network.(goNetwork).Servers }

// up reports whether a server counts: it is as the others were told of it last.
func (w *world) up(s *enginetest.Server) bool {
	r := record(s)
	return s.Answers() && r != nil && r.State == "ok" && r.RunID == s.RunID()
}

// spoilsMax is longer than any trouble takes until a memory or a clock is spoiled.
const spoilsMax = 6 * time.Second

// minority picks a server whose memory or clock may be spoiled: of a minority at a time, so it is nil until all replicas count all nodes
// again after the last time.
func (w *world) minority(d dice) *enginetest.Server {
	if w.plan.nodes == 1 || !w.healed() || w.spoiled > 0 && w.now() < w.spoiled+spoilsMax {
		return nil
	}
	w.spoiled = w.now()
	return pick(d, w.servers()...)
}

// healed reports whether all replicas count all nodes of their lists. Where lists differ one node is replaced, for whoever lists it.
func (w *world) healed() bool {
	common := w.plan.nodes // so many are on every list
	if w.moved {
		common--
	}
	for _, s := range w.servers()[:common] {
		if !w.up(s) {
			return false
		}
	}
	for _, r := range w.replicas {
		e := r.current.Load()
		if e == nil {
			continue
		}
		_, nodes := e.Nodes()
		if w.moved && nodes[common].State == replaced {
			nodes = nodes[:common]
		}
		if !allUp(nodes) {
			return false
		}
	}
	return !w.allReplaced()
}

// mixed reports whether replicas have different lists.
func (w *world) mixed() bool {
	return slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.moved != w.replicas[0].moved })
}

const replaced = "replaced" // what a node is that another list has another in place of

// allReplaced reports whether the last node of every replica was replaced: by the one of the other list, which has come back when some
// replicas still listed it. Then an operator has to decide.
func (w *world) allReplaced() bool {
	some := false
	for _, r := range w.replicas {
		if e := r.current.Load(); e != nil {
			_, nodes := e.Nodes()
			if nodes[w.plan.nodes-1].State != replaced {
				return false
			}
			some = true
		}
	}
	return some
}

// decide is what an operator does whose replicas all show a node as replaced.
func (w *world) decide() {
	if !w.allReplaced() {
		return
	}
	e := w.replicas[0].current.Load()
	if _, err := e.Readmit(w.plan.nodes-1, false, "simulation"); err != nil && !errors.Is(err, engine.ErrNotNeeded) {
		w.check(fmt.Errorf("a node that was replaced is not readmitted: %w", err))
	}
}

// inUse are the nodes that some replica counts.
func (w *world) inUse() []node {
	counted := map[string]bool{}
	for _, r := range w.replicas {
		if e := r.current.Load(); e != nil {
			_, nodes := e.Nodes()
			for _, n := range nodes {
				counted[n.Name] = counted[n.Name] || n.State == "up"
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n node) bool { return !counted[n.Name()] })
}

// healedMax is how long the nodes may take to vote again when there are no faults any more.
const healedMax = 2 * time.Minute

// heal waits until all nodes vote.
func (w *world) heal() {
	for start := w.now(); !w.healed(); {
		if w.now()-start > healedMax {
			var told strings.Builder
			for _, r := range w.replicas {
				if e := r.current.Load(); e != nil {
					_, nodes := e.Nodes()
					fmt.Fprintf(&told, "\n%s: %+v", r.name, nodes)
				}
			}
			for _, s := range w.servers() {
				fmt.Fprintf(&told, "\n%s: %+v", s.Name(), record(s))
			}
			w.check(fmt.Errorf("%v after the last fault not all nodes vote:%s", healedMax, told.String()))
			return
		}
		if !w.sleep(100 * time.Millisecond) {
			return
		}
		w.decide()
	}
}

// erasAtTheEnd are those that the nodes have come to; nil without.
func (w *world) erasAtTheEnd() (eras []int64) {
	if w.plan.eras {
		for _, s := range w.servers() {
			if r := record(s); r != nil {
				eras = append(eras, r.Era)
			}
		}
	}
	return eras
}
