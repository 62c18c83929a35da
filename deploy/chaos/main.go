// Command chaos runs permitd as it is deployed, three redis-servers and three replicas, each a process, and does to them what
// machines and networks do: kill -9, SIGSTOP, memory lost, power cuts, clocks that jump, disks that stall, connections that are cut
// or silent. Meanwhile clients take and give back permits over REST and the lease channel, and write down what they were told. Afterwards
// the history is checked: it must be one that a semaphore on one machine could have had, fences must grow, and all permits
// come back.
//
//	go run ./deploy/chaos [-time 2m] [-seed N] [-partitions]
//
// The seed determines which faults befall whom in which order; what the processes make of it, no seed can repeat.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"
)

func main() {
	p := plan{}
	flag.DurationVar(&p.length, "time", 2*time.Minute, "how long faults happen")
	flag.Uint64Var(&p.seed, "seed", rand.Uint64N(1_000_000), "of the faults")
	flag.BoolVar(&p.partitions, "partitions", false, "only two permits and partitions, as Jepsen did to Hazelcast's semaphore")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := onStand(func(s *stand) error { return play(ctx, s, os.Stdout, p) }); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		fmt.Fprintln(os.Stderr, "chaos: again:", p.command())
		os.Exit(1)
	}
}

// stand is a redistest.TB for a program that is no test: it owns directories and processes and takes them away at the end.
type stand struct {
	cleanups []func()
}

// failure is how a stand ends from deep within.
type failure struct{ error }

// onStand runs f and cleans up after it.
func onStand(f func(*stand) error) (err error) {
	s := &stand{}
	defer func() {
		for _, clean := range slices.Backward(s.cleanups) {
			clean()
		}
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return f(s)
}

func (s *stand) Helper() {}

func (s *stand) TempDir() string {
	dir, err := os.MkdirTemp("", "permitd-chaos-")
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *stand) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *stand) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
