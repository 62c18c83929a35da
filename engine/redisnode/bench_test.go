package redisnode

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
)

// bench is a node on a Redis of its own with a semaphore, and the operations that are measured.
type bench struct {
	testing.TB
	addr   string
	node   *Node
	header *engine.Header
	probe  chan engine.Probe
	start  time.Time
}

func (b *bench) Probed(p engine.Probe, connected bool) {
	if connected {
		b.probe <- p
	}
}
func (*bench) Down(error)        {}
func (*bench) Woken(engine.Wake) {}

// newBench forms a node and defines the semaphores s0, s1, … with 100 permits each.
func newBench(tb testing.TB, semaphores int) *bench {
	b := &bench{
		TB: tb, addr: redistest.Start(tb).Addr(), probe: make(chan engine.Probe, 10), start: time.Now(),
		header: &engine.Header{Cluster: "c", Known: []int64{1}},
	}
	node, err := New(Config{Addr: b.addr, NodeTimeout: 10 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	b.node = node
	tb.Cleanup(node.Close)
	node.Start("aaaaaaaaaaaaaaaa", func() time.Duration { return time.Since(b.start) }, b)
	run := (<-b.probe).RunID
	token := engine.Ballot{Counter: 1, Replica: "a"}
	b.do(&engine.Freeze{Token: token, RunID: run})
	b.do(&engine.Load{Token: token, RunID: run, Cluster: "c", N: 1, Known: []int64{1}})
	b.do(&engine.Commit{Token: token, RunID: run})
	for i := range semaphores {
		b.do(&engine.Accept{Kind: engine.RegisterSemaphore, Name: fmt.Sprint("s", i), Ballot: token, Value: engine.Value{Limit: 100}})
	}
	return b
}

func (b *bench) do(op engine.Op) {
	done := make(chan *engine.Answer, 1)
	b.node.Send(b.call(op, func(a *engine.Answer) { done <- a }))
	b.check(<-done)
}

func (b *bench) check(a *engine.Answer) {
	if a.Err != nil {
		b.Errorf("no answer: %v", a.Err)
	}
	switch a.Says {
	case engine.SaysDone, engine.SaysAccepted, engine.SaysGranted, engine.SaysReleased:
	default:
		b.Errorf("says %q", a.Says)
	}
}

func (b *bench) call(op engine.Op, done func(*engine.Answer)) *engine.Call {
	return &engine.Call{Header: b.header, Op: op, Done: done}
}

func claimOf(semaphore, lease string, n int64) *engine.Claim {
	return &engine.Claim{
		Semaphore: semaphore, Lease: lease, By: lease, Owner: engine.Owner{Nonce: lease}, Info: `{"holder":"anna","via":"http"}`, Weight: 1,
		TTL: 30 * time.Second, Fence: 1, Wait: true, Order: engine.Order{Arrival: n + 1, Replica: "aaaaaaaaaaaaaaaa", Seq: n},
	}
}

func releaseOf(semaphore, lease string) *engine.Release {
	return &engine.Release{
		Semaphore: semaphore, Lease: lease, By: lease, Owner: engine.Owner{Nonce: lease}, Left: 30 * time.Second, Why: engine.WhyReleased,
		Replica: "aaaaaaaaaaaaaaaa",
	}
}

func leaseID(n int64) string { return fmt.Sprintf("lease%011d", n) }

// bare returns the command of an operation as a program would send it that has nothing but go-redis.
func (b *bench) bare(op engine.Op) *redis.Cmd {
	var a arguments
	newEncoder(prefixDefault, scripts).encode(&a, b.call(op, nil))
	var args []any
	for _, arg := range a.list {
		if p, ok := arg.(*part); ok {
			arg = string(p.bytes)
		}
		args = append(args, arg)
	}
	return redis.NewCmd(context.Background(), args...)
}

// bareConn returns a connection of go-redis.
func (b *bench) bareConn() *redis.Conn {
	client := redis.NewClient(&redis.Options{Addr: b.addr, Protocol: 2, PipelinePoolSize: -1})
	b.Cleanup(func() { _ = client.Close() })
	conn := client.Conn()
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// BenchmarkLone is one claim and one release at a time.
func BenchmarkLone(b *testing.B) {
	b.Run("bare EVALSHA", func(b *testing.B) {
		bench := newBench(b, 1)
		conn := bench.bareConn()
		var n int64
		for b.Loop() {
			n++
			for _, op := range []engine.Op{claimOf("s0", leaseID(n), n), releaseOf("s0", leaseID(n))} {
				b.StopTimer()
				cmd := bench.bare(op)
				b.StartTimer()
				if err := conn.Process(b.Context(), cmd); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("lane", func(b *testing.B) {
		b.ReportAllocs()
		bench := newBench(b, 1)
		var n int64
		for b.Loop() {
			n++
			bench.do(claimOf("s0", leaseID(n), n))
			bench.do(releaseOf("s0", leaseID(n)))
		}
	})
}

// BenchmarkHundredAtOnce is pairs of claim and release on three servers, 100 under way at any time.
func BenchmarkHundredAtOnce(b *testing.B) {
	const atOnce = 100
	for _, semaphores := range []int{100, 1} {
		b.Run(fmt.Sprintf("bare pipeliner, %d semaphores", semaphores), func(b *testing.B) {
			nodes := []*bench{newBench(b, semaphores), newBench(b, semaphores), newBench(b, semaphores)}
			var conns []*redis.Conn
			for _, node := range nodes {
				conns = append(conns, node.bareConn())
			}
			b.ResetTimer()
			for n := 0; n < b.N; n += atOnce {
				var all sync.WaitGroup
				for i, node := range nodes {
					all.Go(func() { barePairs(b, node, conns[i], semaphores, n, min(atOnce, b.N-n)) })
				}
				all.Wait()
			}
		})
		b.Run(fmt.Sprintf("lanes, %d semaphores", semaphores), func(b *testing.B) {
			nodes := []*bench{newBench(b, semaphores), newBench(b, semaphores), newBench(b, semaphores)}
			b.ReportAllocs()
			b.ResetTimer()
			lanePairs(b, nodes, semaphores, atOnce)
		})
	}
}

// barePairs sends claims as one pipeline, then their releases.
func barePairs(b *testing.B, node *bench, conn *redis.Conn, semaphores, from, count int) {
	for _, release := range []bool{false, true} {
		pipe := conn.Pipeline()
		for i := range count {
			n := int64(from + i)
			semaphore := fmt.Sprint("s", i%semaphores)
			if release {
				_ = pipe.Process(b.Context(), node.bare(releaseOf(semaphore, leaseID(n))))
			} else {
				_ = pipe.Process(b.Context(), node.bare(claimOf(semaphore, leaseID(n), n)))
			}
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Error(err)
		}
	}
}

// lanePairs keeps so many pairs under way: when all three nodes have answered a claim, its release is sent, then the next.
func lanePairs(b *testing.B, nodes []*bench, semaphores, atOnce int) {
	next := make(chan int64)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			answers := make(chan *engine.Answer, len(nodes))
			semaphore := fmt.Sprint("s", i%semaphores)
			for n := range next {
				for _, op := range []engine.Op{claimOf(semaphore, leaseID(n), n), releaseOf(semaphore, leaseID(n))} {
					for _, node := range nodes {
						node.node.Send(node.call(op, func(a *engine.Answer) { answers <- a }))
					}
					for range nodes {
						nodes[0].check(<-answers)
					}
				}
			}
		})
	}
	for n := range b.N {
		next <- int64(n)
	}
	close(next)
	all.Wait()
}

// BenchmarkFollow is a release and the claim that follows it on a semaphore that is full, eight times in a pipeline, as one script and
// as two. What counts is the time that the server needs.
func BenchmarkFollow(b *testing.B) {
	for _, apart := range []bool{false, true} {
		b.Run(map[bool]string{false: "in turn", true: "apart"}[apart], func(b *testing.B) {
			const pairs = 8
			bench := newBench(b, 1)
			conn := bench.bareConn()
			for n := range int64(100) {
				bench.do(claimOf("s0", leaseID(n), n))
			}
			follower := bench.header
			if apart {
				follower = new(*bench.header) // what has another header is not executed in turn
			}
			answers := make(chan *engine.Answer, 2*pairs)
			hear := func(a *engine.Answer) { answers <- a }
			before, n := serverTime(b, conn), int64(100)
			for b.Loop() {
				var calls []*engine.Call
				for range pairs {
					release, claim := releaseOf("s0", leaseID(n-100)), claimOf("s0", leaseID(n), n)
					release.Follows = true
					next := engine.Place{Order: claimOf("s0", "", n+1).Order, Weight: 1, Count: 1, Total: 1}
					calls = append(calls,
						&engine.Call{Header: bench.header, Op: release, Done: hear},
						&engine.Call{Header: follower, Op: claim, Done: hear, Fill: func() engine.Placement {
							return engine.Placement{Next: next}
						}})
					n++
				}
				bench.node.Send(calls...)
				for range calls {
					bench.check(<-answers)
				}
			}
			spent := serverTime(b, conn) - before
			b.ReportMetric(float64(spent.Microseconds())/float64(n-100), "server-µs/pair")
		})
	}
}

// serverTime is how much time on a core a server has used yet.
func serverTime(tb testing.TB, conn *redis.Conn) (sum time.Duration) {
	text, err := conn.Info(context.Background(), "cpu").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(text) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if what == "used_cpu_user" || what == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}
