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
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
)

func main() {
	p := plan{}
	flag.DurationVar(&p.length, "time", 2*time.Minute, "how long faults happen")
	flag.Uint64Var(&p.seed, "seed", rand.Uint64N(1_000_000), "of the faults")
	flag.BoolVar(&p.partitions, "partitions", false, "only two permits and partitions, as Jepsen did to Hazelcast's semaphore")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := redistest.OnStand(func(s *redistest.Stand) error { return play(ctx, s, os.Stdout, p) }); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		fmt.Fprintln(os.Stderr, "chaos: again:", p.command())
		os.Exit(1)
	}
}
