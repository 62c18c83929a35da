package engine_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// dice draws what a seed decides. Not safe for concurrent use: everybody who draws has dice of their own.
type dice struct{ *rand.Rand }

// newDice returns the dice of one drawer: the same seed and name draw the same.
func newDice(seed uint64, name string) dice {
	salt := uint64(len(name))
	for _, c := range []byte(name) {
		salt = salt*131 + uint64(c)
	}
	return dice{rand.New(rand.NewPCG(seed, salt))}
}

// chance is true with probability p.
func (d dice) chance(p float64) bool { return p > 0 && d.Float64() < p }

// upTo returns a time of at most limit. Times have nanoseconds so that hardly any two things happen at one instant, where
// their order would be the scheduler's.
func (d dice) upTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(d.Int64N(int64(limit))) + 1
}

// sometimes returns p in half of the cases and else 0: a plan has some faults and habits and lacks others, since what always
// happens hides what happens rarely.
func (d dice) sometimes(p float64) float64 {
	if d.chance(0.5) {
		return p
	}
	return 0
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// plan is what a seed decides before anything happens: who takes part, what they do and what befalls them.
type plan struct {
	seed       uint64
	lua        bool // the nodes are the scripts of redisnode, else those of localnode
	eras       bool // nodes lose their memory
	durable    bool // replicas are told that they keep what they acknowledged
	spare      bool // there is one more node, which some replicas list in place of the last from some time on
	nodes      int
	replicas   int
	length     time.Duration // of the time with faults
	calm       time.Duration // of the time without, in which clients go on
	moment     time.Duration // the longest time between two looks, and so between two troubles
	roughStart bool          // there are faults already when the replicas form the cluster
	faults     enginetest.Faults
	troubles   map[string]float64 // what befalls nodes and replicas: probability in each moment, by the name of the trouble
	semaphores []semaphorePlan
	clients    int
	habits     habits
}

// semaphorePlan is a semaphore as it is declared first, or as whoever comes first creates it.
type semaphorePlan struct {
	name     string
	create   bool // made by its first use, not declared
	def      engine.Definition
	unsteady float64 // of the operator: the chance of a change in each of its turns
	deleted  float64 // likewise, of a deletion
	paused   float64 // likewise, of a pause
}

// habits are what clients do. Probabilities are of each request or lease.
type habits struct {
	think, hold time.Duration // at most
	waits, ttls []time.Duration
	heavy       bool    // weights up to the limit, else 1
	priorities  float64 // one that is not 0
	kept        float64 // the engine renews it
	cancel      float64 // a cancelled wait, or a dropped connection of a kept lease
	vanish      float64 // the holder says nothing any more
	renew       float64 // in each step of a lease that is not kept
	part        float64 // likewise, of a part given back
	foreign     float64 // a renewal or release that goes to another replica
	twice       float64 // a release that is repeated, at once or later
	late        float64 // a release or renewal when the validity is over
	never       float64 // a lease without an end
}

// luaEvery is which seeds run the scripts.
const luaEvery = 20

// onScripts lets the scripts of redisnode be the nodes. As they take a hundred times as long, less happens.
func (p *plan) onScripts() {
	p.lua = true
	p.length, p.clients = min(p.length, 10*time.Second), min(p.clients, 8)
	p.habits.think, p.habits.hold = max(p.habits.think, 100*time.Millisecond), max(p.habits.hold, 20*time.Millisecond)
}

// planOf returns the plan of a seed.
func planOf(seed uint64) plan {
	d := newDice(seed, "plan")
	p := plan{
		seed: seed, nodes: pick(d, 3, 3, 3, 3, 3, 3, 1, 5), replicas: 2 + d.IntN(3),
		length: 5*time.Second + d.upTo(30*time.Second), calm: d.upTo(5 * time.Second), moment: momentMax,
		roughStart: d.chance(0.3),
		faults:     faultsOf(d),
		troubles:   map[string]float64{},
		clients:    3 + d.IntN(14),
		habits:     habitsOf(d),
	}
	p.faults.Seed = seed
	if seed%luaEvery == 0 {
		p.onScripts()
	}
	slow := d.chance(0.05)
	for _, tr := range troubles {
		if d.chance(0.5) {
			p.troubles[tr.name] = tr.chance * (0.2 + d.Float64())
		}
	}
	for i := range 1 + d.IntN(3) {
		p.semaphores = append(p.semaphores, semaphoreOf(d, i))
	}
	if slow && !p.lua {
		p.slowly(d)
	}
	if seed >= erasFrom {
		p.withEras()
	}
	if p.ends() {
		p.habits.never = 0 // what a replica had under way when it ended stays until its TTL
	}
	return p
}

// slowly lets little happen in a long time: semaphores that were created on use are left alone until they are removed, and
// come back.
func (p *plan) slowly(d dice) {
	p.length, p.moment = 10*time.Minute+d.upTo(20*time.Minute), 2*time.Second
	p.clients, p.habits.think = 1+d.IntN(4), 8*time.Minute
	for i := range p.semaphores {
		p.semaphores[i].create, p.semaphores[i].unsteady = true, 0 // what an operator has changed stays
	}
	for name := range p.troubles {
		p.troubles[name] *= float64(p.moment / momentMax / 4)
	}
}

// ends reports whether replicas end and start again.
func (p *plan) ends() bool {
	return p.troubles[replicaRestarts]+p.troubles[replicaCrashes]+p.troubles[listChanges] > 0
}

func faultsOf(d dice) enginetest.Faults {
	f := enginetest.Faults{
		LatencyMin: 10 * time.Microsecond,
		LatencyMax: pick(d, 100*time.Microsecond, time.Millisecond, 4*time.Millisecond, 15*time.Millisecond),
		Slow:       d.sometimes(0.03 * d.Float64()), SlowMax: pick(d, 20*time.Millisecond, 200*time.Millisecond, 800*time.Millisecond),
		Cut:     d.sometimes(0.01 * d.Float64()),
		LateRun: d.Float64(), LateRunMax: pick(d, 100*time.Millisecond, 6*time.Second, 15*time.Second, 80*time.Second),
		ReconnectMax: pick(d, time.Millisecond, 100*time.Millisecond, time.Second),
		Repeat:       d.sometimes(0.05 * d.Float64()), RepeatMax: pick(d, 20*time.Millisecond, time.Second, 10*time.Second, 80*time.Second),
		LoseWake: d.sometimes(pick(d, 0.05, 0.5, 1)),
		OneBatch: d.chance(0.5),
	}
	return f
}

func habitsOf(d dice) habits {
	return habits{
		think:      pick(d, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond),
		hold:       pick(d, 2*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond, 5*time.Second),
		waits:      pick(d, []time.Duration{time.Minute}, []time.Duration{0, time.Minute}, []time.Duration{0, 10 * time.Millisecond, time.Second, 20 * time.Second}),
		ttls:       pick(d, []time.Duration{time.Second}, []time.Duration{time.Second, 3 * time.Second, 20 * time.Second}, []time.Duration{2 * time.Second, 70 * time.Second, 90 * time.Second}),
		heavy:      d.chance(0.6),
		priorities: d.sometimes(0.3),
		kept:       d.sometimes(0.5),
		cancel:     d.sometimes(0.3),
		vanish:     d.sometimes(0.03),
		renew:      d.sometimes(0.5),
		part:       d.sometimes(0.3),
		foreign:    d.sometimes(0.4),
		twice:      d.sometimes(0.2),
		late:       d.sometimes(0.1),
		never:      d.sometimes(0.2),
	}
}

func semaphoreOf(d dice, i int) semaphorePlan {
	p := semaphorePlan{
		name: fmt.Sprintf("s%d", i), create: d.chance(0.3),
		def:      engine.Definition{Limit: pick(d, 1, 2, 3, 3, 4, 5)},
		unsteady: d.sometimes(0.3), deleted: d.sometimes(0.1), paused: d.sometimes(0.1),
	}
	if d.chance(0.15) {
		p.def.MinHold = 200*time.Millisecond + d.upTo(2*time.Second)
	}
	if d.chance(0.15) {
		p.def.HoldMax = time.Second + d.upTo(5*time.Second)
	}
	if d.chance(0.15) {
		p.def.MaxWaiters = 1 + d.IntN(3)
	}
	return p
}
