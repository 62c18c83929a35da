package redisnode

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// bars are three nodes that an engine uses, and that bare connections use under another prefix: both in one run, on the same
// servers.
type bars struct {
	nodes  []*bench
	conns  []*redis.Conn
	engine *engine.Engine
}

func newBars(b *testing.B, semaphores int) *bars {
	r := &bars{}
	var nodes []engine.Node
	for range 3 {
		bare := newBench(b, semaphores)
		r.nodes, r.conns = append(r.nodes, bare), append(r.conns, bare.bareConn())
		node, err := New(Config{Addr: bare.addr, Prefix: "engine"})
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	e, err := engine.Open(engine.Config{Nodes: nodes})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	if err := e.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	for i := range semaphores {
		if _, _, err := e.Put(b.Context(), fmt.Sprint("s", i), engine.Definition{Limit: 100}, engine.Condition{}, ""); err != nil {
			b.Fatal(err)
		}
	}
	r.engine = e
	return r
}

// pair acquires and releases through the engine.
func (r *bars) pair(b *testing.B, semaphore string) (acquire time.Duration) {
	start := time.Now()
	o, err := r.engine.Acquire(b.Context(), semaphore, engine.Ask{})
	acquire = time.Since(start)
	if err != nil || o.Refusal != nil {
		b.Errorf("not granted: %+v %v", o.Refusal, err)
		return acquire
	}
	if _, err := r.engine.Release(b.Context(), semaphore, o.Lease.Capability, 0); err != nil {
		b.Error(err)
	}
	return acquire
}

// BenchmarkBarLone compares a lone acquire through the engine with the same claim sent bare to the three nodes, until the
// second answer. Bar: the medians' ratio is at most 1.4; goal 1.3.
func BenchmarkBarLone(b *testing.B) {
	r := newBars(b, 1)
	send := make([]chan *redis.Cmd, len(r.conns))
	heard := make(chan error, 2*len(r.conns))
	for i, conn := range r.conns {
		send[i] = make(chan *redis.Cmd)
		go func() {
			for cmd := range send[i] {
				heard <- conn.Process(context.Background(), cmd)
			}
		}()
		defer close(send[i])
	}
	bare := func(op engine.Op) (second time.Duration) {
		var cmds []*redis.Cmd
		for _, node := range r.nodes {
			cmds = append(cmds, node.bare(op))
		}
		start := time.Now()
		for i, cmd := range cmds {
			send[i] <- cmd
		}
		for i := range r.conns {
			if err := <-heard; err != nil {
				b.Error(err)
			}
			if i == 1 {
				second = time.Since(start)
			}
		}
		return second
	}
	var through, direct []time.Duration
	var n int64
	for b.Loop() {
		n++
		through = append(through, r.pair(b, "s0"))
		direct = append(direct, bare(claimOf("s0", leaseID(n), n)))
		bare(releaseOf("s0", leaseID(n)))
	}
	median := func(times []time.Duration) float64 {
		slices.Sort(times)
		return float64(times[len(times)/2].Microseconds())
	}
	b.ReportMetric(median(through), "µs/acquire")
	b.ReportMetric(median(direct), "µs/bare")
	b.ReportMetric(median(through)/median(direct), "of-bare(bar<=1.4)")
}

// BenchmarkBarPairs compares acquire and release through the engine, 100 at once, with a bare pipeliner that sends the same
// claims and releases to the same nodes, in turns. Bar: half of its rate; goal 0.6.
func BenchmarkBarPairs(b *testing.B) {
	const atOnce = 100
	for _, semaphores := range []int{100, 1} {
		b.Run(fmt.Sprintf("%d semaphores", semaphores), func(b *testing.B) {
			r := newBars(b, semaphores)
			var through, direct time.Duration
			pairs := 0
			for b.Loop() {
				start := time.Now()
				r.pairsThrough(b, semaphores, atOnce, 10*atOnce)
				through += time.Since(start)
				start = time.Now()
				for k := range 10 {
					r.pairsBare(b, semaphores, pairs+k*atOnce, atOnce)
				}
				direct += time.Since(start)
				pairs += 10 * atOnce
			}
			b.ReportMetric(float64(pairs)/through.Seconds(), "pairs/s")
			b.ReportMetric(float64(pairs)/direct.Seconds(), "bare-pairs/s")
			b.ReportMetric(direct.Seconds()/through.Seconds(), "of-bare(bar>=0.5)")
		})
	}
}

func (r *bars) pairsThrough(b *testing.B, semaphores, atOnce, count int) {
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for range count / atOnce {
				r.pair(b, fmt.Sprint("s", i%semaphores))
			}
		})
	}
	all.Wait()
}

func (r *bars) pairsBare(b *testing.B, semaphores, from, count int) {
	var all sync.WaitGroup
	for i, node := range r.nodes {
		all.Go(func() { barePairs(b, node, r.conns[i], semaphores, from, count) })
	}
	all.Wait()
}
