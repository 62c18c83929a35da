package engine_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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
	simLess   = flag.String("sim.less", "", "what is left out of the plan of the one seed")
	simWorker = flag.String("sim.worker", "", "set by the simulation itself: i/n runs every n-th trial from the i-th on in this process")
)

// What a plain `go test` runs.
const (
	seedsUsual = 120
	seedsShort = 20 // also under the race detector
)

// seedMax is how long a seed may take: some hundred times what it does take.
const seedMax = 2 * time.Minute

// TestSimulation plays seeds of random plans: clients of a few replicas ask, hold, renew, release and vanish on a network that
// delays, loses, repeats and cuts, and all that the design promises is checked at every step.
//
// A seed fixes the plan, what befalls every message, what every client does, and all ids and pauses of the engine. What it
// cannot fix is the order in which Go runs goroutines that may run at the same instant, and which case it takes of several in
// a select. Each worker has one processor and draws times to the nanosecond, so that little is left to that: a seed plays the
// same again nearly always. One that does not fail again at once does within a few repeats (-count).
//
// Seeds are spread over processes, one a core, because what makes them repeatable is global to a process, and because a
// deadlock in a bubble ends it.
func TestSimulation(t *testing.T) { playSeeds(t, *simSeed, 1) }

// playSeeds plays seeds from the first on: as many as were asked for, or a share of those that are usual.
func playSeeds(t *testing.T, first uint64, share float64) {
	seeds := *simSeeds
	if seeds == 0 {
		seeds = seedsUsual
		if testing.Short() || raceDetector {
			seeds = seedsShort
		}
		seeds = int(share * float64(seeds))
	}
	list := trials(t, first, seeds)
	if *simWorker != "" {
		var i, n int
		if _, err := fmt.Sscanf(*simWorker, "%d/%d", &i, &n); err != nil {
			t.Fatal(err)
		}
		playTrials(t, list, i, n)
		return
	}
	t.Parallel()
	start := time.Now()
	workers := min(runtime.GOMAXPROCS(0), len(list))
	failed := make([]*trial, workers)
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() {
			if output, err := worker(t, fmt.Sprintf("%d/%d", i, workers), first, seeds, *simLess); err != nil {
				t.Errorf("%v\n%s", err, failures(output))
				failed[i] = failedTrial(list, output)
			}
		})
	}
	running.Wait()
	t.Logf("%d trials, seeds from %d on, in %v", len(list), first, time.Since(start).Round(time.Millisecond))
	for _, r := range failed {
		if r != nil {
			tellLeast(t, *r)
			return
		}
	}
}

// playTrials plays every n-th trial from the i-th on, one after the other.
func playTrials(t *testing.T, list []trial, i, n int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for ; i < len(list); i += n {
		r := list[i]
		t.Run(fmt.Sprintf("%d,seed=%d", i, r.seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, r.seed)
			defer time.AfterFunc(seedMax, func() {
				debug.SetTraceback("all")
				panic(fmt.Sprintf("seed %d goes on and on: time stands still in it", r.seed))
			}).Stop()
			synctest.Test(t, func(t *testing.T) { r.play(t) })
		})
	}
}

// play plays a trial, and says how to play it again if something was broken.
func (r trial) play(t *testing.T) {
	p := r.plan()
	w := simulate(t, p)
	t.Logf("%d grants, %d steps, %v, scripts: %t, eras: %v", len(w.granted), w.steps, w.now().Round(time.Second), p.lua, w.erasAtTheEnd())
	if err := w.verdict(); err != nil {
		w.network.show(t)
		t.Errorf("%v\nagain: %s", err, r.again())
	}
}

// worker plays trials in a process of its own.
func worker(t *testing.T, which string, seed uint64, seeds int, less string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimulation$", "-test.v", "-test.timeout=0", "-sim.worker="+which,
		fmt.Sprint("-sim.seed=", seed), fmt.Sprint("-sim.seeds=", seeds), fmt.Sprint("-sim.lua=", *simLua), "-sim.less="+less)
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	return cmd.CombinedOutput()
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

var (
	failedPattern  = regexp.MustCompile(`--- FAIL: TestSimulation/(\d+),`)
	startedPattern = regexp.MustCompile(`=== RUN   TestSimulation/(\d+),`)
)

// failedTrial is the first trial that failed in a worker; one that has ended the process is the last that it began.
func failedTrial(list []trial, output []byte) *trial {
	found := failedPattern.FindSubmatch(output)
	if found == nil {
		if started := startedPattern.FindAllSubmatch(output, -1); len(started) > 0 {
			found = started[len(started)-1]
		}
	}
	var i int
	if found == nil {
		return nil
	}
	if _, err := fmt.Sscan(string(found[1]), &i); err != nil || i >= len(list) {
		return nil
	}
	return &list[i]
}

// tellLeast shrinks a trial that failed, and says how to play what is left of it and how to keep it.
func tellLeast(t *testing.T, r trial) {
	least := shrink(r, func(r trial) bool {
		_, err := worker(t, "0/1", r.seed, 1, strings.Join(r.less, ", "))
		return err != nil
	})
	t.Logf("the least that fails: %s\nto keep it, add to engine/%s: %s", least.again(), keptTrials, least)
}
