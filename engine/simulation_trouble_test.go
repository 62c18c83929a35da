package engine_test

import "time"

// trouble is something that befalls a node or a replica. do starts it and returns how to end it and when.
type trouble struct {
	name   string
	chance float64 // in each moment, at most
	do     func(w *world, d dice) (after time.Duration, undo func())
}

// Troubles that plans look at.
const (
	replicaRestarts = "a replica restarts"
	replicaCrashes  = "a replica crashes"
)

// momentMax is the longest time between two looks, but for plans in which little happens.
const momentMax = 40 * time.Millisecond

var troubles = []trouble{
	{"a connection is cut", 0.05, func(w *world, d dice) (time.Duration, func()) {
		pick(d, w.replicas...).way(d).Cut()
		return 0, nil
	}},
	{"all connections of a replica are cut", 0.01, func(w *world, d dice) (time.Duration, func()) {
		for _, way := range pick(d, w.replicas...).ways {
			way.Cut()
		}
		return 0, nil
	}},
	{"a replica cannot reach a node", 0.01, func(w *world, d dice) (time.Duration, func()) {
		way := pick(d, w.replicas...).way(d)
		way.Disconnect()
		return d.upTo(8 * time.Second), way.Connect
	}},
	{"a replica is stopped", 0.004, func(w *world, d dice) (time.Duration, func()) {
		ways := pick(d, w.replicas...).ways
		for _, way := range ways {
			way.Stop()
		}
		return d.upTo(pick(d, 300*time.Millisecond, 3*time.Second, 10*time.Second)), func() {
			for _, way := range ways {
				way.Continue()
			}
		}
	}},
	{"a node is stopped within the node time-out", 0.02, func(w *world, d dice) (time.Duration, func()) {
		node := pick(d, w.nodes...)
		node.Pause()
		return d.upTo(400 * time.Millisecond), node.Resume
	}},
	{"a node is stopped for longer", 0.005, func(w *world, d dice) (time.Duration, func()) {
		node := pick(d, w.nodes...)
		node.Pause()
		return d.upTo(10 * time.Second), node.Resume
	}},
	{"a replica cannot reach any node", 0.003, func(w *world, d dice) (time.Duration, func()) {
		ways := pick(d, w.replicas...).ways
		for _, way := range ways {
			way.Disconnect()
		}
		return d.upTo(pick(d, time.Second, 20*time.Second)), func() {
			for _, way := range ways {
				way.Connect()
			}
		}
	}},
	{"a quorum is stopped", 0.002, func(w *world, d dice) (time.Duration, func()) {
		nodes := w.nodes[:w.quorum()]
		for _, node := range nodes {
			node.Pause()
		}
		return d.upTo(pick(d, time.Second, 10*time.Second)), func() {
			for _, node := range nodes {
				node.Resume()
			}
		}
	}},
	{"a node is stopped until its leases have lapsed", 0.002, func(w *world, d dice) (time.Duration, func()) {
		node := pick(d, w.nodes...)
		node.Pause()
		return d.upTo(90 * time.Second), node.Resume
	}},
	{replicaRestarts, 0.003, func(w *world, d dice) (time.Duration, func()) {
		r := pick(d, w.replicas...)
		if r.current.Load() == nil {
			return 0, nil
		}
		r.close()
		return d.upTo(3 * time.Second), r.open
	}},
	{replicaCrashes, 0.003, func(w *world, d dice) (time.Duration, func()) {
		r := pick(d, w.replicas...)
		if r.current.Load() == nil {
			return 0, nil
		}
		for _, way := range r.ways {
			way.Disconnect()
		}
		r.close()
		return d.upTo(3 * time.Second), r.open
	}},
}
