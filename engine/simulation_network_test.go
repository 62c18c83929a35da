package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// network is the nodes of a simulation and the ways of replicas to them.
type network interface {
	all() []node
	// ways returns new ways to the nodes; moved: to the spare one in place of the last.
	ways(faults enginetest.Faults, moved bool) []way
	watch(*world)
	// endTranscript keeps what is sent from now on out of what a failing test shows.
	endTranscript()
	// show logs the last messages of a failing test.
	show(*testing.T)
	close()
}

func networkOf(t *testing.T, p *plan) network {
	if p.lua {
		return newLuaNetwork(t, p)
	}
	return newGoNetwork(t, p)
}

// node is one node, as it is looked at and troubled from outside.
type node interface {
	Name() string
	// Look shows what a View would, without a trace: what is over and was not dropped yet has nothing left.
	Look(semaphore string) *engine.ViewPage
	// Identity is the cluster that the node belongs to, and its index there.
	Identity() (cluster string, index int)
	// FenceFloor is what every fence that comes is larger than.
	FenceFloor() int64
	Check() error
	Pause()
	Resume()
}

// way is the way of one replica to one node.
type way interface {
	engine.Node
	Cut()
	Disconnect()
	Connect()
	Spoil(enginetest.Faults)
}

// goNetwork has nodes in Go, whose clocks differ and run at different rates, and each message has its own fate.
type goNetwork struct {
	*enginetest.Cluster
	size int // of a list of nodes; a server more is the spare one
}

// clockDrift is how much faster or slower than the bubble's a clock may run: two of them together stay below the tenth
// of a percent that the protocol allows.
const clockDrift = 0.0003

func newGoNetwork(t *testing.T, p *plan) goNetwork {
	servers := p.nodes
	if p.spare {
		servers++
	}
	c := enginetest.NewCluster(t, servers)
	d := newDice(p.seed, "clocks")
	for _, s := range c.Servers {
		s.Shift(d.upTo(2*time.Hour) - time.Hour)
		s.Rate(1 + clockDrift*(2*d.Float64()-1))
	}
	return goNetwork{c, p.nodes}
}

func (n goNetwork) all() []node {
	list := make([]node, len(n.Servers))
	for i, s := range n.Servers {
		list[i] = s
	}
	return list
}

func (n goNetwork) ways(faults enginetest.Faults, moved bool) []way {
	list := slices.Clone(n.Servers[:n.size])
	if moved {
		list[n.size-1] = n.Servers[n.size]
	}
	var ways []way
	for _, w := range n.ReplicaOf(faults, list) {
		ways = append(ways, w)
	}
	return ways
}

// watch lets the world see everything that nodes execute.
func (n goNetwork) watch(w *world) {
	for i, s := range n.Servers {
		s.Around(func(next enginetest.Apply) enginetest.Apply {
			return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
				answer, wakes := next(now, h, at, p, op)
				w.executed(i, h, op, answer)
				return answer, wakes
			}
		})
	}
}

func (n goNetwork) endTranscript() { n.EndTranscript() }

// show has nothing to do: the cluster logs its transcript by itself.
func (n goNetwork) show(*testing.T) {}

func (n goNetwork) close() {}

// executed takes in that a node has executed an operation. The node is locked. Of two nodes with one index one has a say.
func (w *world) executed(node int, h *engine.Header, op engine.Op, answer *engine.Answer) {
	switch op := op.(type) {
	case *engine.Accept:
		if answer.Says == engine.SaysAccepted {
			w.chosen.accepted(h.Index, op)
		}
	case *engine.Drop:
		if answer.Says == engine.SaysDone {
			w.chosen.drop(op)
		}
	}
	if node != 0 {
		return
	}
	if err := w.claims.executed(op, w.now()); err != nil {
		go w.check(err)
	}
}
