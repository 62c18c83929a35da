package engine_test

import (
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// mutation takes a rule out of the mechanism, by changing what nodes do or hear: the simulation must notice.
type mutation struct {
	rule   string
	plan   func(*plan)  // under which circumstances it matters, beside what the seed says
	change func(*world) // takes it out
	breaks string       // a pattern of what the simulation must find
}

// mutationSeeds is how many seeds may pass before the simulation notices.
const mutationSeeds = 100

// TestMutation shows that the simulation tells a mechanism that works from one that does not: without each of these
// rules it finds, within few seeds, what the rule prevents.
func TestMutation(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= mutationSeeds; seed++ {
				err := m.play(t, seed)
				if err == nil {
					continue
				}
				t.Logf("seed %d of %d: %v", seed, mutationSeeds, err)
				if regexp.MustCompile(m.breaks).MatchString(err.Error()) {
					return
				}
			}
			t.Errorf("%d seeds have not found: %s", mutationSeeds, m.breaks)
		})
	}
}

// play plays one seed without the rule.
func (m *mutation) play(t *testing.T, seed uint64) (err error) {
	synctest.Test(t, func(t *testing.T) {
		p := planOf(seed)
		m.plan(&p)
		p.lua = false // the rules are taken out of Go nodes
		err = simulate(t, p, m.change).verdict()
	})
	return err
}

var mutations = []mutation{
	{
		rule:   "slots have numbers, and a grant is the same ones on a quorum",
		plan:   crowded,
		change: countPerNode,
		breaks: `permits of .* are held; its limit is|share a slot`,
	},
	{
		rule: "a mend raises the fence",
		plan: func(p *plan) {
			crowded(p)
			p.habits = habits{
				think: 2 * time.Millisecond, hold: 2 * time.Millisecond, waits: []time.Duration{0, time.Minute},
				ttls: []time.Duration{time.Second}, heavy: p.seed%2 == 0,
			}
			p.faults = enginetest.Faults{Seed: p.seed, LatencyMax: 4 * time.Millisecond, Slow: 0.1, SlowMax: 20 * time.Millisecond}
			p.troubles, p.length = nil, 3*time.Second
		},
		change: everywhere(mendKeepsFence),
		breaks: `has fence \d+; (slot \d+ of .* was last held by|it was asked for after)`,
	},
	{
		rule: "a give-back names its attempt",
		plan: func(p *plan) {
			crowded(p)
			p.faults.Slow, p.faults.SlowMax = 0.1, 100*time.Millisecond // a yes that is given back late
			p.faults.Cut, p.faults.ReconnectMax = 0.02, time.Millisecond
		},
		change: everywhere(giveBackOfAny),
		breaks: `is valid until .* and held on \d nodes|was granted and is held on \d nodes|share a slot|has fence`,
	},
	{
		rule: "a validity ends before the lease does on the nodes",
		plan: func(p *plan) {
			crowded(p)
			p.clients, p.length = 8, 2*time.Minute
			p.habits = habits{
				think: 50 * time.Millisecond, hold: time.Second, waits: []time.Duration{time.Minute},
				ttls: []time.Duration{90 * time.Second}, vanish: 1, // slots come free by their ends alone
			}
			p.faults, p.troubles = enginetest.Faults{Seed: p.seed, LatencyMax: 100 * time.Microsecond}, nil
		},
		change: func(w *world) { w.trust = theMargin },
		breaks: `share a slot|is valid until .* and held on \d nodes|permits of .* are held; its limit is`,
	},
	{
		rule: "a quorum is one of all nodes, not of those that can be reached",
		plan: func(p *plan) {
			crowded(p)
			p.troubles = map[string]float64{"a replica cannot reach a node": 0.1}
		},
		change: countTheReached,
		breaks: `was granted and is held on \d nodes|permits of .* are held; its limit is|share a slot`,
	},
	{
		rule: "a tombstone is written also for what was never seen",
		plan: func(p *plan) {
			crowded(p)
			p.faults.Cut, p.faults.LateRun, p.faults.LateRunMax = 0.1, 1, 3*time.Second
			p.faults.ReconnectMax = time.Millisecond
			p.habits.ttls = []time.Duration{90 * time.Second}
		},
		change: everywhere(noTombstoneOfTheUnseen),
		breaks: `is left over|share a slot|whose release was acknowledged|its release was acknowledged`,
	},
	{
		rule: "what comes too late is not executed",
		plan: func(p *plan) {
			crowded(p)
			p.faults.Cut, p.faults.LateRun, p.faults.LateRunMax = 0.02, 1, 80*time.Second
			p.habits.ttls = []time.Duration{90 * time.Second}
		},
		change: everywhere(neverLate),
		breaks: `is left over|share a slot|is held on \d nodes`,
	},
}

// crowded lets many clients want few permits of steady semaphores on three nodes, whose messages cross.
func crowded(p *plan) {
	p.nodes, p.replicas, p.clients = 3, 3, 16
	p.length = 20 * time.Second
	p.semaphores = p.semaphores[:1]
	s := &p.semaphores[0]
	s.create, s.unsteady, s.deleted, s.paused = false, 0, 0, 0
	s.def = engine.Definition{Limit: 2 + int(p.seed%3)}
	p.habits = habits{
		think: 50 * time.Millisecond, hold: 200 * time.Millisecond, waits: []time.Duration{0, time.Minute},
		ttls: []time.Duration{time.Second, 3 * time.Second}, cancel: 0.1, kept: 0.2, renew: 0.2, vanish: 0.02,
	}
	p.faults.LatencyMax, p.faults.Repeat = max(p.faults.LatencyMax, time.Millisecond), 0
	delete(p.troubles, replicaRestarts)
	delete(p.troubles, replicaCrashes)
}

// rule is one step around what a server does.
type rule func(next enginetest.Apply) enginetest.Apply

// everywhere puts a rule around every server.
func everywhere(r rule) func(*world) {
	return func(w *world) {
		for _, s := range w.network.(goNetwork).Servers {
			s.Around(r)
		}
	}
}

// recordBefore reads a lease as it is just before an operation; nil if there is none.
func recordBefore(next enginetest.Apply, now int64, h *engine.Header, semaphore, lease string) *engine.Record {
	a, _ := next(now, h, 0, engine.Placement{}, &engine.Find{Semaphore: semaphore, Lease: lease})
	return a.Record
}

// countPerNode lets each node grant what it has room for, and the coordinator believe that all granted what the first one did.
// Renewals are written for each node's own slots. What nodes remember is not looked at: it would tell at once.
func countPerNode(w *world) {
	w.blind = true
	var mu sync.Mutex
	first, last := map[string]*engine.Answer{}, int64(0)
	everywhere(func(next enginetest.Apply) enginetest.Apply {
		return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
			if renew, ok := op.(*engine.Renew); ok {
				if r := recordBefore(next, now, h, renew.Semaphore, renew.Lease); r != nil && r.By == renew.By {
					own := *renew
					own.Slots, own.Fence, own.Ver = r.Slots, r.Fence, r.Ver
					op = &own
				}
			}
			answer, wakes := next(now, h, at, p, op)
			if claim, ok := op.(*engine.Claim); ok && answer.Says == engine.SaysGranted {
				mu.Lock()
				defer mu.Unlock()
				if first[claim.By] == nil {
					last = max(last+1, answer.Fence)
					first[claim.By] = &engine.Answer{Slots: answer.Slots, Fence: last}
				}
				answer.Slots, answer.Fence = first[claim.By].Slots, first[claim.By].Fence
			}
			return answer, wakes
		}
	})(w)
}

// mendKeepsFence mends without raising the fence: as the mend of a lease that is granted does.
func mendKeepsFence(next enginetest.Apply) enginetest.Apply {
	return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
		if mend, ok := op.(*engine.Mend); ok && mend.New {
			kept := *mend
			kept.New = false
			op = &kept
		}
		return next(now, h, at, p, op)
	}
}

// giveBackOfAny lets a give-back remove any record of its lease.
func giveBackOfAny(next enginetest.Apply) enginetest.Apply {
	return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
		if release, ok := op.(*engine.Release); ok && release.Why == engine.WhyGivenBack {
			if r := recordBefore(next, now, h, release.Semaphore, release.Lease); r != nil {
				any := *release
				any.By, any.AnyOwner = r.By, true
				op = &any
			}
		}
		return next(now, h, at, p, op)
	}
}

// theMargin is what a validity is shorter than the lease.
func theMargin(l engine.Lease) time.Duration { return l.TTL/100 + quorum.Margin }

// noTombstoneOfTheUnseen lets a release do nothing where there is nothing to release.
func noTombstoneOfTheUnseen(next enginetest.Apply) enginetest.Apply {
	return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
		if release, ok := op.(*engine.Release); ok && recordBefore(next, now, h, release.Semaphore, release.Lease) == nil {
			line := &engine.Line{Semaphore: release.Semaphore, Replica: release.Replica}
			answer, wakes := next(now, h, at, p, line)
			if answer.Says == engine.SaysDone {
				answer.Says = engine.SaysReleased
			}
			return answer, wakes
		}
		return next(now, h, at, p, op)
	}
}

// neverLate executes whatever comes.
func neverLate(next enginetest.Apply) enginetest.Apply {
	return func(now int64, h *engine.Header, _ int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
		return next(now, h, 0, p, op)
	}
}
