package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// fault is something that goes wrong for a while.
type fault struct {
	name   string
	weight int  // how often it is drawn, beside the others
	memory bool // a node loses its memory, or its clock jumps: of a minority only, so the next comes when all nodes vote again
	alone  bool // it befalls all nodes: nothing else happens meanwhile
	happen func(d *disaster) (tale string, undo func())
}

// disaster is what a fault needs to happen.
type disaster struct {
	*world
	node    int
	replica int
	dice    *rand.Rand
}

var faults = []fault{
	{name: "a node is killed and comes back with its memory", weight: 3, happen: func(d *disaster) (string, func()) {
		s := d.nodes[d.node].server
		s.Kill()
		return fmt.Sprintf("node %d is killed", d.node), s.Restart
	}},
	{name: "a node is killed and comes back empty", weight: 3, memory: true, happen: func(d *disaster) (string, func()) {
		s := d.nodes[d.node].server
		s.Kill()
		s.Forget()
		return fmt.Sprintf("node %d is killed and loses its memory", d.node), s.Restart
	}},
	{name: "FLUSHALL", weight: 2, memory: true, happen: func(d *disaster) (string, func()) {
		c := redis.NewClient(&redis.Options{Addr: d.nodes[d.node].server.Addr(), MaxRetries: -1})
		defer func() { _ = c.Close() }()
		return fmt.Sprintf("somebody types FLUSHALL on node %d: %v", d.node, c.FlushAll(context.Background()).Err()), nothing
	}},
	{name: "a node hangs", weight: 3, happen: func(d *disaster) (string, func()) {
		s := d.nodes[d.node].server
		s.Pause()
		return fmt.Sprintf("node %d is stopped", d.node), s.Resume
	}},
	{name: "a clock jumps", weight: 3, memory: true, happen: func(d *disaster) (string, func()) {
		n := d.nodes[d.node]
		jumps := []time.Duration{30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, time.Hour}
		jump := jumps[d.dice.IntN(len(jumps))]
		if d.dice.IntN(2) == 0 {
			jump = -jump
		}
		n.ahead += jump
		n.shim.Shift(n.ahead)
		return fmt.Sprintf("the clock of node %d jumps by %v", d.node, jump), nothing
	}},
	{name: "a disk stalls", weight: 2, happen: func(d *disaster) (string, func()) {
		shim := d.nodes[d.node].shim
		shim.SlowSync(time.Second)
		return fmt.Sprintf("each write to the disk of node %d takes a second", d.node), func() { shim.SlowSync(0) }
	}},
	{name: "all nodes are killed", weight: 1, alone: true, happen: func(d *disaster) (string, func()) {
		for _, n := range d.nodes {
			n.server.Kill()
		}
		tale := "all nodes are killed"
		if d.dice.IntN(2) == 0 {
			d.nodes[d.node].server.Forget()
			tale += fmt.Sprintf(", and node %d loses its memory", d.node)
		}
		return tale, func() {
			for _, i := range d.dice.Perm(len(d.nodes)) {
				d.nodes[i].server.Restart()
			}
		}
	}},
	{name: "a replica is killed", weight: 2, happen: func(d *disaster) (string, func()) {
		r := d.replicas[d.replica]
		r.kill()
		return r.name + " is killed", r.start
	}},
	{name: "a replica stands still", weight: 3, happen: func(d *disaster) (string, func()) {
		r := d.replicas[d.replica]
		r.signal(syscall.SIGSTOP)
		return r.name + " is stopped", func() { r.signal(syscall.SIGCONT) }
	}},
}

// partitions are faults of the network between replicas and nodes.
var partitions = []fault{
	{name: "a node is cut off", weight: 2, happen: func(d *disaster) (string, func()) {
		return d.severs(func(_, node int) way {
			if node == d.node {
				return cut
			}
			return passes
		})
	}},
	{name: "a replica is cut off", weight: 2, happen: func(d *disaster) (string, func()) {
		return d.severs(func(replica, _ int) way {
			if replica == d.replica {
				return cut
			}
			return passes
		})
	}},
	{name: "each replica loses a node", weight: 3, happen: func(d *disaster) (string, func()) {
		turn := d.dice.IntN(len(d.nodes))
		return d.severs(func(replica, node int) way {
			if (replica+turn)%len(d.nodes) == node {
				return cut
			}
			return passes
		})
	}},
	{name: "halves", weight: 2, happen: func(d *disaster) (string, func()) {
		return d.severs(func(replica, node int) way {
			if (replica == d.replica) != (node == d.node) {
				return cut
			}
			return passes
		})
	}},
	{name: "some connections say nothing", weight: 3, happen: func(d *disaster) (string, func()) {
		return d.severs(func(int, int) way {
			if d.dice.IntN(3) == 0 {
				return silent
			}
			return passes
		})
	}},
}

func nothing() {}

// severs sets what the ways between replicas and nodes do; undo lets all pass.
func (d *disaster) severs(is func(replica, node int) way) (tale string, undo func()) {
	var gone []string
	for r, ways := range d.ways {
		for n, p := range ways {
			to := is(r, n)
			p.set(to)
			if to != passes {
				gone = append(gone, fmt.Sprintf("%s-%d", d.replicas[r].name, n))
			}
		}
	}
	what := "cut"
	if len(gone) == 0 {
		what = "none is"
	}
	return fmt.Sprintf("ways that are %s: %s", what, strings.Join(gone, " ")), func() {
		for _, ways := range d.ways {
			for _, p := range ways {
				p.set(passes)
			}
		}
	}
}

// How faults follow each other.
const (
	faultMin, faultMax = 200 * time.Millisecond, 4 * time.Second // as long as one lasts: also longer than TTLs
	calmMax            = 3 * time.Second                         // between the begin of one and the next
)

// happen lets faults happen until ctx ends, several at a time, and undoes them all. What befalls the same part is one after the other.
func (w *world) happen(ctx context.Context, dice *rand.Rand, all []fault) {
	nodes, replicas := make([]sync.Mutex, len(w.nodes)), make([]sync.Mutex, len(w.replicas))
	var network, memory sync.Mutex
	var work sync.WaitGroup
	for ctx.Err() == nil {
		f := draw(dice, all)
		d := &disaster{w, dice.IntN(len(w.nodes)), dice.IntN(len(w.replicas)), rand.New(rand.NewPCG(dice.Uint64(), 0))}
		lasts := faultMin + time.Duration(dice.Int64N(int64(faultMax-faultMin)))
		part := &nodes[d.node]
		switch {
		case f.of(partitions):
			part = &network
		case strings.HasPrefix(f.name, "a replica"):
			part = &replicas[d.replica]
		}
		if f.alone {
			work.Wait()
		}
		if ctx.Err() == nil && part.TryLock() {
			if f.memory && !memory.TryLock() {
				part.Unlock()
				continue
			}
			work.Go(func() {
				defer part.Unlock()
				w.befall(ctx, f, d, lasts)
				if f.memory {
					w.healed(ctx)
					memory.Unlock()
				}
			})
			if f.alone {
				work.Wait()
			}
		}
		rest(ctx, time.Duration(dice.Int64N(int64(calmMax))))
	}
	work.Wait()
}

func (f fault) of(list []fault) bool {
	for _, x := range list {
		if x.name == f.name {
			return true
		}
	}
	return false
}

// befall lets one fault happen for a while.
func (w *world) befall(ctx context.Context, f fault, d *disaster, lasts time.Duration) {
	tale, undo := f.happen(d)
	w.tell("%s, for %.1f s", tale, lasts.Seconds())
	w.count(f.name)
	rest(ctx, lasts)
	undo()
}

// draw picks a fault by its weight.
func draw(dice *rand.Rand, all []fault) fault {
	sum := 0
	for _, f := range all {
		sum += f.weight
	}
	at := dice.IntN(sum)
	for _, f := range all {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("the weights do not add up")
}

// rest waits, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
