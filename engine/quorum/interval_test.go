package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/permitd/permitd/engine/quorum"
)

// TestIntervalScripts plays testdata/interval/*.txt. All times are milliseconds; one interval lives from "new" to "new".
//
//	observe node=T sent=T received=T    an answer
//	widened now=T                       the interval as it is then
func TestIntervalScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/interval", func(t *testing.T, path string) {
		var known quorum.Interval
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			at := func(name string) time.Duration {
				var ms int64
				d.ScanArgs(t, name, &ms)
				return time.Duration(ms) * time.Millisecond
			}
			shown, note := known, ""
			switch d.Cmd {
			case "new":
				known = quorum.Interval{}
				shown = known
			case "observe":
				var jumped bool
				known, jumped = known.Observe(at("node"), at("sent"), at("received"))
				shown = known
				if jumped {
					note = ", jumped"
				}
			case "widened":
				shown = known.Widened(at("now"))
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			if !shown.Known {
				return "nothing is known\n"
			}
			return fmt.Sprintf("%v to %v, width %v%s\n", shown.Lo, shown.Hi, shown.Width(), note)
		})
	})
}

// A clock that runs at most 0.1 % fast or slow is never said to jump, and its offset stays within the interval, but for what it
// drifts while one answer is under way: an answer is taken as if the clock were right for so long.
func TestTheIntervalHoldsTheOffsetOfAClockThatIsNotQuiteRight(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	const answerMax = 2 * time.Second
	slack := answerMax * quorum.DriftPerMille / 1000
	for range 200 {
		rate := 1 + (2*random.Float64()-1)*quorum.DriftPerMille/1000*0.999
		start := time.Duration(random.Int64N(int64(time.Hour)))
		node := func(now time.Duration) time.Duration { return start + time.Duration(float64(now)*rate) }
		within := func(limit time.Duration) time.Duration { return time.Duration(random.Int64N(int64(limit))) }
		var known quorum.Interval
		now := time.Duration(0)
		for range 300 {
			now += within(time.Minute)
			sent := now
			now += within(answerMax / 2)
			seen := node(now)
			now += within(answerMax / 2)
			var jumped bool
			known, jumped = known.Observe(seen, sent, now)
			offset := node(now) - now
			if jumped || offset < known.Lo-slack || offset > known.Hi+slack {
				t.Fatalf("seed %d: the offset is %v, known is %v to %v, jumped %v", seed, offset, known.Lo, known.Hi, jumped)
			}
			later := now + within(time.Hour)
			wide := known.Widened(later)
			if offset := node(later) - later; offset < wide.Lo-slack || offset > wide.Hi+slack {
				t.Fatalf("seed %d: after %v the offset is %v, known is %v to %v", seed, later-now, offset, wide.Lo, wide.Hi)
			}
		}
	}
}
