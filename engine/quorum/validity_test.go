package quorum_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

func TestValidityIsShortOfWhatAQuorumHolds(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name       string
		n          int
		asked, ttl time.Duration
		ends       []time.Duration
		width      time.Duration
		want       time.Duration
	}{
		{
			"the TTL from the asking on, less 1 % of it and the margin", 3, 100 * s, 30 * s,
			[]time.Duration{131 * s, 131 * s, 131 * s},
			0, 130*s - 300*ms - 25*ms,
		},
		{
			"less the width of the widest clock interval", 3, 100 * s, 30 * s,
			[]time.Duration{131 * s, 131 * s, 131 * s},
			400 * ms, 130*s - 300*ms - 25*ms - 400*ms,
		},
		{
			"the Q-th largest end counts: two of three hold it till then", 3, 100 * s, 30 * s,
			[]time.Duration{110 * s, 128 * s, 129 * s},
			0, 128*s - 300*ms - 25*ms,
		},
		{
			"in any order", 3, 100 * s, 30 * s,
			[]time.Duration{129 * s, 110 * s, 128 * s},
			0, 128*s - 300*ms - 25*ms,
		},
		{
			"one that holds it longer does not help", 3, 100 * s, 30 * s,
			[]time.Duration{500 * s, 120 * s},
			0, 120*s - 300*ms - 25*ms,
		},
		{
			"of five the third largest", 5, 0, 10 * s,
			[]time.Duration{9 * s, 8 * s, 7 * s, 6 * s, 5 * s},
			0, 7*s - 100*ms - 25*ms,
		},
		{
			"of one its own", 1, 0, 10 * s,
			[]time.Duration{9 * s},
			0, 9*s - 100*ms - 25*ms,
		},
		{
			"fewer than Q hold nothing", 3, 100 * s, 30 * s,
			[]time.Duration{131 * s},
			0, 0,
		},
		{
			"an answer that took longer than the TTL leaves none", 3, 100 * s, s,
			[]time.Duration{103 * s, 103 * s},
			0, 101*s - 10*ms - 25*ms,
		},
	} {
		if got := quorum.Validity(c.n, c.asked, c.ttl, c.ends, c.width); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

func TestValidityLeavesTheEndsAsTheyAre(t *testing.T) {
	t.Parallel()
	ends := []time.Duration{3, 1, 2}
	quorum.Validity(3, 0, 10, ends, 0)
	if ends[0] != 3 || ends[1] != 1 || ends[2] != 2 {
		t.Errorf("they are %v now", ends)
	}
}

func TestTheMarginCoversWhatAClockMayStepUnnoticed(t *testing.T) {
	t.Parallel()
	if quorum.JumpMin >= quorum.Margin {
		t.Errorf("a clock may step by %v unnoticed, the margin is %v", quorum.JumpMin, quorum.Margin)
	}
}

func TestALeaseCountsIfTheSilentNodesCouldMakeItAQuorum(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 7; n += 2 {
		for answered := 0; answered <= n; answered++ {
			for seen := 0; seen <= answered; seen++ {
				// The definition in the other direction: with all who did not answer it would have Q votes. Seen nowhere, it is
				// not known at all.
				want := seen > 0 && seen+(n-answered) >= n/2+1
				if got := quorum.MayHold(n, answered, seen); got != want {
					t.Errorf("%d of %d answered, %d have it: %v; want %v", answered, n, seen, got, want)
				}
			}
		}
	}
}
