package quorum

import (
	"math/rand/v2"
	"testing"
)

// boundTwin is ShrinkBound as its definition says it.
func boundTwin(limit int, used Slots) int {
	for g := limit; g > 0; g-- {
		if g+used.From(g).Len() <= limit {
			return g
		}
	}
	return 0
}

func TestShrinkBoundIsTheLargestThatKeepsTheLimit(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		limit := 1 + random.IntN(20)
		var used []int
		for slot := range 30 {
			if random.IntN(3) == 0 {
				used = append(used, slot)
			}
		}
		s := SlotsOf(used...)
		if got, want := ShrinkBound(limit, s), boundTwin(limit, s); got != want {
			t.Fatalf("limit %d, used %v: bound %d, want %d", limit, s, got, want)
		}
	}
}
