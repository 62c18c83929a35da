package enginetest

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

var (
	differSeed  = flag.Uint64("differ.seed", 1, "the first seed of the walks")
	differSeeds = flag.Int("differ.seeds", 0, "how many seeds each kind of node is walked with (0: a few)")
)

// walkSteps is how many operations a walk has, those that only compare what is remembered aside.
const walkSteps = 3000

// eachSeed walks once for each seed: for a few, or those that the flags ask for. One that fails says how to see it again.
func eachSeed(t *testing.T, few int, walk func(t *testing.T, seed uint64)) {
	if *differSeeds > 0 {
		few = *differSeeds
	}
	for seed := *differSeed; seed < *differSeed+uint64(few); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					name, _, _ := strings.Cut(t.Name(), "/")
					t.Logf("again: go test ./engine/enginetest -run '%s$' -differ.seed=%d -differ.seeds=1", name, seed)
				}
			})
			walk(t, seed)
		})
	}
}

func TestADurableNodeDoesWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	eachSeed(t, 2, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			wall := func() time.Duration { return time.Duration(time.Now().UnixNano()) } // as of a Redis: its fences start from there
			node, err := localnode.Open(localnode.Config{Dir: t.TempDir(), Now: wall})
			if err != nil {
				t.Fatal(err)
			}
			Differ(t, seed, walkSteps, Virtual, map[string]engine.Node{MeReplica: node})
		})
	})
}
