package enginetest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// walkSteps is how many operations a walk has, those that only compare what is remembered aside.
const walkSteps = 3000

// inBubbles walks once for each seed, each in a bubble of its own.
func inBubbles(t *testing.T, seeds, steps int, open func(t *testing.T) map[string]engine.Node) {
	for _, seed := range Seeds(t, seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { Differ(t, seed, steps, Virtual, open(t)) })
		})
	}
}

func TestADurableNodeDoesWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	inBubbles(t, 3, walkSteps, func(t *testing.T) map[string]engine.Node {
		wall := func() time.Duration { return time.Duration(time.Now().UnixNano()) } // as of a Redis: its fences start from there
		node, err := localnode.Open(localnode.Config{Dir: t.TempDir(), Now: wall})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]engine.Node{MeReplica: node}
	})
}
