package quorum_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/permitd/permitd/engine/quorum"
)

// twin is Tally straight from its definition: what the ballots amount to when nobody is waited for, and, before that,
// whatever every way in which the rest may still answer amounts to. It is slow and, it is hoped, obviously right.
func twin(ballots []quorum.Ballot, closed bool) quorum.Verdict {
	if v := counted(ballots); closed || v.Outcome == quorum.Granted {
		return v
	}
	var outcomes []quorum.Outcome
	for _, all := range completions(ballots) {
		outcomes = append(outcomes, counted(all).Outcome)
	}
	slices.Sort(outcomes)
	outcomes = slices.Compact(outcomes)
	if len(outcomes) > 1 || outcomes[0] == quorum.Split && slices.ContainsFunc(ballots, isWaiting) {
		return quorum.Verdict{Outcome: quorum.Undecided}
	}
	return counted(ballots)
}

func isWaiting(b quorum.Ballot) bool  { return b.Kind == quorum.Waiting }
func isYes(b quorum.Ballot) bool      { return b.Kind == quorum.Yes }
func isAnswered(b quorum.Ballot) bool { return b.Kind == quorum.Yes || b.Kind == quorum.No }

// counted is the verdict when nobody is waited for.
func counted(ballots []quorum.Ballot) quorum.Verdict {
	need := len(ballots)/2 + 1
	number := func(of func(quorum.Ballot) bool) int { return len(slices.DeleteFunc(slices.Clone(ballots), not(of))) }
	for _, b := range ballots {
		same := func(c quorum.Ballot) bool {
			return isYes(b) && isYes(c) && c.Fence == b.Fence && c.Definition == b.Definition && c.Slots.String() == b.Slots.String()
		}
		if number(same) >= need {
			v := quorum.Verdict{Outcome: quorum.Granted, Slots: b.Slots, Fence: b.Fence, Definition: b.Definition}
			for i, c := range ballots {
				if same(c) {
					v.Members = append(v.Members, i)
					v.Ver = max(v.Ver, c.Ver)
				}
			}
			return v
		}
	}
	if number(isAnswered) < need {
		return quorum.Verdict{Outcome: quorum.Unreachable}
	}
	for _, b := range ballots {
		under := func(c quorum.Ballot) bool { return isAnswered(c) && c.Definition == b.Definition }
		yes := func(c quorum.Ballot) bool { return under(c) && isYes(c) }
		switch {
		case !isAnswered(b) || number(under) < need:
		case number(yes) >= need:
			return mendedOnto(slices.DeleteFunc(slices.Clone(ballots), not(yes)))
		default:
			return quorum.Verdict{Outcome: quorum.Refused, Definition: b.Definition}
		}
	}
	return quorum.Verdict{Outcome: quorum.Redefined}
}

func not(of func(quorum.Ballot) bool) func(quorum.Ballot) bool {
	return func(b quorum.Ballot) bool { return !of(b) }
}

// mendedOnto is the split of these yes ballots.
func mendedOnto(yes []quorum.Ballot) quorum.Verdict {
	votes := func(b quorum.Ballot) (n int) {
		for _, c := range yes {
			if c.Slots.String() == b.Slots.String() {
				n++
			}
		}
		return n
	}
	v := quorum.Verdict{Outcome: quorum.Split, Definition: yes[0].Definition}
	for _, b := range yes {
		v.Fence, v.Ver = max(v.Fence, b.Fence), max(v.Ver, b.Ver+1)
	}
	slices.SortStableFunc(yes, func(b, c quorum.Ballot) int {
		switch {
		case votes(b) != votes(c):
			return votes(c) - votes(b)
		case b.Fence != c.Fence:
			return int(c.Fence - b.Fence)
		default:
			return b.Slots.First() - c.Slots.First()
		}
	})
	v.Slots = yes[0].Slots
	return v
}

// completions are all ways in which those that are waited for may still answer, as far as they differ for the verdict: not
// at all, or no or yes as somebody else has answered, or on their own.
func completions(ballots []quorum.Ballot) [][]quorum.Ballot {
	i := slices.IndexFunc(ballots, isWaiting)
	if i < 0 {
		return [][]quorum.Ballot{ballots}
	}
	answers := []quorum.Ballot{
		{Kind: quorum.Silent},
		{Kind: quorum.No, Definition: quorum.Version{Counter: 99}},
		{Kind: quorum.Yes, Definition: quorum.Version{Counter: 99}, Slots: quorum.OneSlot(99), Fence: 99},
	}
	for _, b := range ballots {
		if isAnswered(b) {
			answers = append(answers, quorum.Ballot{Kind: quorum.No, Definition: b.Definition},
				quorum.Ballot{Kind: quorum.Yes, Definition: b.Definition, Slots: b.Slots, Fence: b.Fence},
				quorum.Ballot{Kind: quorum.Yes, Definition: b.Definition, Slots: quorum.OneSlot(99), Fence: 99})
		}
	}
	var all [][]quorum.Ballot
	for _, a := range answers {
		next := slices.Clone(ballots)
		next[i] = a
		all = append(all, completions(next)...)
	}
	return all
}

func compare(t *testing.T, ballots []quorum.Ballot) {
	t.Helper()
	for _, closed := range []bool{false, true} {
		got, want := quorum.Tally(ballots, closed), twin(ballots, closed)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, closed %v:\n got %s %+v\nwant %s %+v", ballots, closed, got.Outcome, got, want.Outcome, want)
		}
	}
}

// kinds are the ballots that small inputs are made of.
func kinds() []quorum.Ballot {
	list := []quorum.Ballot{{Kind: quorum.Waiting}, {Kind: quorum.Silent}, {Kind: quorum.No}}
	for d := range int64(2) {
		definition := quorum.Version{Counter: 1 + d, Replica: "R"}
		list = append(list, quorum.Ballot{Kind: quorum.No, Definition: definition})
		for slot := range 2 {
			for fence := range int64(2) {
				list = append(list, quorum.Ballot{
					Kind: quorum.Yes, Definition: definition, Slots: quorum.OneSlot(slot), Fence: 5 + fence, Ver: fence * d,
				})
			}
		}
	}
	return list
}

func TestTallyIsItsTwinOnEverySmallInput(t *testing.T) {
	t.Parallel()
	all := kinds()
	for _, a := range all {
		compare(t, []quorum.Ballot{a})
		for _, b := range all {
			for _, c := range all {
				compare(t, []quorum.Ballot{a, b, c})
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestTallyIsItsTwinOnRandomInputs(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	all := append(kinds(), quorum.Ballot{
		Kind: quorum.Yes, Definition: quorum.Version{Counter: 1, Replica: "R"}, Slots: quorum.SlotsOf(0, 2), Fence: 6, Ver: 3,
	})
	for range 10_000 {
		ballots := make([]quorum.Ballot, 1+2*random.IntN(3))
		waiting := 0
		for i := range ballots {
			// A few kinds only, so that they agree now and then; few that wait, since the twin tries all they may say.
			ballots[i] = all[random.IntN(3+random.IntN(len(all)-2))]
			if isWaiting(ballots[i]) {
				if waiting++; waiting > 2 {
					ballots[i].Kind = quorum.Silent
				}
			}
		}
		compare(t, ballots)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
