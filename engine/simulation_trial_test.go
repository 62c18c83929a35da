package engine_test

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// trial is a seed, and what is left out of its plan: a failing one is shrunk to the least that still fails.
type trial struct {
	seed uint64
	less []string // names of reductions, in the order in which they are made
}

func (r trial) String() string { return fmt.Sprintf("%d: %s", r.seed, strings.Join(r.less, ", ")) }

// again is the command that plays the trial again.
func (r trial) again() string {
	return fmt.Sprintf("go test ./engine -run 'TestSimulation$' -sim.seed=%d -sim.seeds=1 -sim.lua=%t -sim.less=%q",
		r.seed, *simLua, strings.Join(r.less, ", "))
}

// plan is the plan of the seed with less in it.
func (r trial) plan() plan {
	p := planOf(r.seed)
	if *simLua {
		p.onScripts()
	}
	for _, name := range r.less {
		i := slices.IndexFunc(reductions, func(r reduction) bool { return r.name == name })
		if i < 0 {
			panic("no reduction is called " + name)
		}
		reductions[i].make(&p)
	}
	return p
}

// keptTrials is where trials that failed once are kept, in the form of trial.String; # begins a comment.
const keptTrials = "testdata/simulation.txt"

// trials are those that this run plays: the kept ones of its kind first, unless it is one seed that is asked for.
func trials(t *testing.T, first uint64, seeds int) []trial {
	if *simSeeds == 1 {
		return []trial{{first, lessOf(*simLess)}}
	}
	list := slices.DeleteFunc(readTrials(t), func(r trial) bool { return (r.seed >= erasFrom) != (first >= erasFrom) })
	for i := range seeds {
		list = append(list, trial{seed: first + uint64(i)})
	}
	return list
}

func readTrials(t *testing.T) (list []trial) {
	file, err := os.Open(keptTrials)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		number, less, _ := strings.Cut(line, ":")
		seed, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", keptTrials, line, err)
		}
		list = append(list, trial{seed, lessOf(less)})
	}
	return list
}

func lessOf(text string) (less []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			less = append(less, name)
		}
	}
	return less
}

// reduction leaves something out of a plan.
type reduction struct {
	name string
	make func(*plan)
}

var reductions = append([]reduction{
	{"half the time", func(p *plan) { p.length /= 2 }},
	{"half the clients", func(p *plan) { p.clients = (p.clients + 1) / 2 }},
	{"one semaphore", func(p *plan) { p.semaphores = p.semaphores[:1] }},
	{"two replicas", func(p *plan) { p.replicas = min(p.replicas, 2) }},
	{"three nodes", func(p *plan) { p.nodes = min(p.nodes, 3) }},
	{"nothing slow", func(p *plan) { p.faults.Slow = 0 }},
	{"no cuts", func(p *plan) { p.faults.Cut = 0 }},
	{"nothing late", func(p *plan) { p.faults.LateRun = 0 }},
	{"nothing twice", func(p *plan) { p.faults.Repeat = 0 }},
	{"no lost wakes", func(p *plan) { p.faults.LoseWake = 0 }},
	{"a good start", func(p *plan) { p.roughStart = false }},
	{"no operators", func(p *plan) {
		for i := range p.semaphores {
			s := &p.semaphores[i]
			s.unsteady, s.deleted, s.paused = 0, 0, 0
		}
	}},
	{"no changes of limits", func(p *plan) {
		for i := range p.semaphores {
			p.semaphores[i].unsteady = 0
		}
	}},
	{"weights of one", func(p *plan) { p.habits.heavy = false }},
	{"no priorities", func(p *plan) { p.habits.priorities = 0 }},
	{"nothing kept", func(p *plan) { p.habits.kept = 0 }},
	{"no cancellations", func(p *plan) { p.habits.cancel = 0 }},
	{"nobody vanishes", func(p *plan) { p.habits.vanish = 0 }},
	{"no renewals", func(p *plan) { p.habits.renew = 0 }},
	{"no parts", func(p *plan) { p.habits.part = 0 }},
	{"nothing foreign", func(p *plan) { p.habits.foreign = 0 }},
	{"no releases twice", func(p *plan) { p.habits.twice = 0 }},
}, withoutTroubles()...)

// withoutTroubles has a reduction for each trouble.
func withoutTroubles() (list []reduction) {
	for _, tr := range slices.Concat(troubles, eraTroubles) {
		list = append(list, reduction{"not: " + tr.name, func(p *plan) { delete(p.troubles, tr.name) }})
	}
	return list
}

// shrinkFor is how long a failing trial is shrunk.
const shrinkFor = 40 * time.Second

// shrink leaves out of a failing trial what it fails without.
func shrink(r trial, fails func(trial) bool) trial {
	for start, again := time.Now(), true; again; {
		again = false
		for _, less := range reductions {
			if time.Since(start) > shrinkFor {
				return r
			}
			smaller := trial{r.seed, append(slices.Clone(r.less), less.name)}
			if !reflect.DeepEqual(smaller.plan(), r.plan()) && fails(smaller) {
				r, again = smaller, true
			}
		}
	}
	return r
}
