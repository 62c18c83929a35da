package engine_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// The flags of the simulation. `make sim SEEDS=1000` runs as many seeds; a failure prints the command that runs its seed again.
var (
	simSeed   = flag.Uint64("sim.seed", 1, "the first seed of the simulation")
	simSeeds  = flag.Int("sim.seeds", 0, "how many seeds to run; 0: some seconds' worth")
	simLua    = flag.Bool("sim.lua", false, "run all seeds on the scripts of redisnode; else every twentieth")
	simWorker = flag.Int("sim.worker", 0, "set by the simulation itself: run every n-th seed in this process")
)

// What a plain `go test` runs.
const (
	seedsUsual = 120
	seedsShort = 20 // also under the race detector
)

// seedMax is how long a seed may take: some hundred times what it does take.
const seedMax = 2 * time.Minute

// TestSimulation plays seeds of random plans: clients of two replicas ask, hold, renew, release and vanish on a network that delays,
// loses, repeats and cuts, and all that the design promises is checked at every step.
//
// A seed fixes the plan, what befalls every message, what every client does, and all ids and pauses of the engine. What it
// cannot fix is the order in which Go runs goroutines that may run at the same instant, and which case it takes of several in
// a select. Each worker has one processor and draws times to the nanosecond, so that little is left to that: a seed plays the
// same again nearly always. One that does not fail again at once does within a few repeats (-count).
//
// Seeds are spread over processes, one a core, because what makes them repeatable is global to a process, and because a
// deadlock in a bubble ends it.
func TestSimulation(t *testing.T) {
	seeds := *simSeeds
	if seeds == 0 {
		seeds = seedsUsual
		if testing.Short() || raceDetector {
			seeds = seedsShort
		}
	}
	if *simWorker > 0 {
		simulateSeeds(t, *simSeed, seeds, *simWorker)
		return
	}
	t.Parallel()
	start := time.Now()
	workers := min(runtime.GOMAXPROCS(0), seeds)
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() { runWorker(t, *simSeed+uint64(i), seeds, workers) })
	}
	running.Wait()
	t.Logf("%d seeds from %d on in %v", seeds, *simSeed, time.Since(start).Round(time.Millisecond))
}

// simulateSeeds plays every n-th seed from first on, one after the other.
func simulateSeeds(t *testing.T, first uint64, seeds, n int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := first; seed < *simSeed+uint64(seeds); seed += uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			defer time.AfterFunc(seedMax, func() {
				debug.SetTraceback("all")
				panic(fmt.Sprintf("seed %d goes on and on: time stands still in it", seed))
			}).Stop()
			synctest.Test(t, func(t *testing.T) { simulateSeed(t, seed) })
		})
	}
}

// simulateSeed plays a seed, and says how to play it again if something was broken.
func simulateSeed(t *testing.T, seed uint64) {
	p := planOf(seed)
	if *simLua {
		p.onScripts()
	}
	w := simulate(t, p)
	t.Logf("%d grants, %d steps, %v, scripts: %t", len(w.granted), w.steps, w.now().Round(time.Second), p.lua)
	if err := w.verdict(); err != nil {
		w.network.show(t)
		t.Errorf("%v\nagain: go test ./engine -run 'TestSimulation$' -sim.seed=%d -sim.seeds=1 -sim.lua=%t", err, seed, *simLua)
	}
}

// runWorker plays every n-th seed from first on in a process of its own.
func runWorker(t *testing.T, first uint64, seeds, n int) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimulation$", "-test.v", "-test.timeout=0",
		fmt.Sprint("-sim.worker=", n), fmt.Sprint("-sim.seed=", first), fmt.Sprint("-sim.seeds=", seeds-int(first-*simSeed)),
		fmt.Sprint("-sim.lua=", *simLua))
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, failures(output))
	}
}

// failures leaves out of a worker's output what went well.
func failures(output []byte) string {
	var kept bytes.Buffer
	for block := range strings.SplitSeq(string(output), "=== RUN") {
		if !strings.Contains(block, "--- PASS") || strings.Contains(block, "FAIL") {
			kept.WriteString(block)
		}
	}
	return kept.String()
}
