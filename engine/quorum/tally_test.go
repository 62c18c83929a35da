package quorum_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/permitd/permitd/engine/quorum"
)

// TestTallyScripts plays testdata/tally/*.txt; go test -run TallyScripts -rewrite writes what came out into them. A case has a
// line for each node:
//
//	tally [closed]
//	yes <slots> <fence> [ver=N] [under=COUNTER]
//	no [under=COUNTER]
//	waiting
//	silent
//	----
//	what came out
//
// Definitions are named by their counter, 1 unless said; under=0 is a node that knows none.
func TestTallyScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/tally", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "tally" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			var ballots []quorum.Ballot
			for line := range strings.Lines(d.Input) {
				b, err := parseBallot(strings.Fields(line))
				if err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
				ballots = append(ballots, b)
			}
			return describe(quorum.Tally(ballots, d.HasArg("closed"))) + "\n"
		})
	})
}

func parseBallot(words []string) (b quorum.Ballot, err error) {
	if len(words) == 0 {
		return b, fmt.Errorf("a node without a word")
	}
	kind, words := words[0], words[1:]
	switch kind {
	case "waiting":
		return b, nil
	case "silent":
		return quorum.Ballot{Kind: quorum.Silent}, nil
	case "no":
		b.Kind = quorum.No
	case "yes":
		b.Kind = quorum.Yes
		if b.Slots, err = quorum.ParseSlots(words[0]); err != nil {
			return b, err
		}
		if b.Fence, err = strconv.ParseInt(words[1], 10, 64); err != nil {
			return b, err
		}
		words = words[2:]
	default:
		return b, fmt.Errorf("unknown kind %q", kind)
	}
	b.Definition = quorum.Version{Counter: 1, Replica: "R"}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
			return b, err
		case name == "ver":
			b.Ver = n
		case name == "under" && n == 0:
			b.Definition = quorum.Version{}
		case name == "under":
			b.Definition.Counter = n
		default:
			return b, fmt.Errorf("unknown word %q", word)
		}
	}
	return b, nil
}

// describe writes what of a verdict means something under its outcome.
func describe(v quorum.Verdict) string {
	switch v.Outcome {
	case quorum.Granted:
		return fmt.Sprintf("granted: slots %s, fence %d, ver %d, under %d, by %v", v.Slots, v.Fence, v.Ver, v.Definition.Counter, v.Members)
	case quorum.Split:
		return fmt.Sprintf("split: mend onto slots %s, fence %d, ver %d, under %d", v.Slots, v.Fence, v.Ver, v.Definition.Counter)
	case quorum.Refused:
		return fmt.Sprintf("refused, under %d", v.Definition.Counter)
	default:
		return v.String()
	}
}

func TestAQuorumIsOfAllConfiguredNodesNotOfThoseThatAnswer(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 7: 4, 63: 32} {
		if got := quorum.Size(n); got != want {
			t.Errorf("of %d nodes %d are a quorum; want %d", n, got, want)
		}
	}
	yes, no, silent := quorum.Ballot{Kind: quorum.Yes, Fence: 1}, quorum.Ballot{Kind: quorum.No}, quorum.Ballot{Kind: quorum.Silent}
	for _, ballots := range [][]quorum.Ballot{{yes, silent, silent}, {yes, yes, silent, silent, silent}, {no, silent, silent}} {
		if got := quorum.Tally(ballots, true); got.Outcome != quorum.Unreachable {
			t.Errorf("by %d ballots the outcome is %v; the others are silent", len(ballots), got.Outcome)
		}
	}
}

func TestVersionsAreOrderedByCounterThenReplica(t *testing.T) {
	t.Parallel()
	rising := []quorum.Version{{}, {0, "R1"}, {1, ""}, {1, "R1"}, {1, "R2"}, {2, ""}, {10, "R1"}}
	for i, v := range rising {
		for j, w := range rising {
			want := max(-1, min(1, i-j))
			if got := v.Compare(w); got != want {
				t.Errorf("%v compared with %v is %d; want %d", v, w, got, want)
			}
			if got := v.Less(w); got != (want < 0) {
				t.Errorf("%v less than %v is %v", v, w, got)
			}
		}
	}
}
