// Command bench measures permitd against the bars of its design, each as a ratio to a control in the same run on the same
// machine: absolute numbers of a busy machine say little. It starts its own redis-servers and permitd on free ports of
// loopback, prints a line a bar, and fails by itself only when the physics is broken: a throughput above limit / hold time, or
// more holders than permits, means that the cap was not kept.
//
//	go run ./deploy/bench [-time 30s] [name…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
)

// errPhysics says that a cap was not kept.
var errPhysics = errors.New("the limit was not kept")

// benchmark is one measurement with its bars.
type benchmark struct {
	name, about string
	run         func(context.Context, *stand, time.Duration) error
}

var benchmarks = []benchmark{
	{"channel", "5 clients, 3 permits, 50 ms, over WebSocket, three nodes", contended{
		clients: 5, permits: 3, hold: 50 * time.Millisecond, replicas: 1, rate: 0.98, p99: 5 * time.Millisecond,
	}.run},
	{"crowd", "60 clients, 10 permits, 20 ms, over WebSocket, three nodes", contended{
		clients: 60, permits: 10, hold: 20 * time.Millisecond, replicas: 1, rate: 0.95, p99: 10 * time.Millisecond, scripts: 9,
	}.run},
	{"hot2", "8 clients, 3 permits, 50 ms, over WebSocket, three nodes, 2 replicas", contended{
		clients: 8, permits: 3, hold: 50 * time.Millisecond, replicas: 2, rate: 0.95, p99Times: 1.5,
	}.run},
	{"hot4", "8 clients, 3 permits, 50 ms, over WebSocket, three nodes, 4 replicas", contended{
		clients: 8, permits: 3, hold: 50 * time.Millisecond, replicas: 4, rate: 0.95, p99Times: 1.5,
	}.run},
	{"crowd3", "60 clients, 10 permits, 20 ms, over WebSocket, three nodes, 3 replicas", contended{
		clients: 60, permits: 10, hold: 20 * time.Millisecond, replicas: 3, rate: 0.90, p99: 50 * time.Millisecond, scripts: 12,
	}.run},
	{"waiters", "100,000 waiters, 200 permits, 50 ms, engine API, three nodes", waiters},
	{"handover", "from a release to the next grant, over WebSocket, three nodes, idle otherwise", handover},
	{"rest", "acquire and release over REST, embedded store, 50 connections", rest},
	{"policy", "acquire with and without a policy, by turns, over WebSocket, three nodes", policy},
	{"idle", "9,000 idle holders over WebSocket, clients in another process", idle},
	{"kill", "kill -9 of the server under load, embedded store, 50 times", kills},
	{"nodefail", "what a node that hangs, or is dead, costs those who acquire, three nodes", nodeFail},
	{"reseed", "a node that was emptied votes again, under load, three nodes", reseed},
	{"coldrestart", "all three nodes are killed at once and restarted, --durable-nodes", coldRestart},
}

func main() {
	if addr := os.Getenv(emptyEnv); addr != "" {
		fmt.Fprintln(os.Stderr, serveEmpty(addr))
		os.Exit(1)
	}
	if text := os.Getenv(bareEnv); text != "" {
		fmt.Fprintln(os.Stderr, serveBare(text))
		os.Exit(1)
	}
	length := flag.Duration("time", 30*time.Second, "how long each measurement lasts")
	flag.Usage = usage
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *length, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: bench [-time 30s] [name…]")
	for _, b := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-8s %s\n", b.name, b.about)
	}
}

// run runs the named benchmarks, or all.
func run(ctx context.Context, length time.Duration, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			usage()
			return fmt.Errorf("there is no benchmark %q", name)
		}
	}
	fmt.Printf("load of the machine at the start: %s\n", load())
	for _, b := range benchmarks {
		if len(names) > 0 && !slices.Contains(names, b.name) || ctx.Err() != nil {
			continue
		}
		fmt.Printf("\n%s: %s\n", b.name, b.about)
		err := redistest.OnStand(func(s *redistest.Stand) error { return b.run(ctx, &stand{s}, length) })
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	fmt.Printf("\nload of the machine at the end: %s\n", load())
	return ctx.Err()
}

// load is the machine's load of the last minute, so that a reader knows what else went on.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// bar prints what was reached beside what is asked for.
func bar(what string, reached float64, unit string, met bool, asked string) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
	}
	fmt.Printf("  %-44s %10.3f %-4s bar %-24s %s\n", what, reached, unit, asked, verdict)
}

// value prints a number that has no bar.
func value(what string, reached float64, unit string) {
	fmt.Printf("  %-44s %10.3f %s\n", what, reached, unit)
}
