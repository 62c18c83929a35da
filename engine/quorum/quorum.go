// Package quorum decides: ballots in, verdict out. It is the arithmetic of permitd's protocol and nothing
// else: no I/O, no clock, no goroutine. Everything here is a function of its arguments.
//
// A node's answer to one request is a ballot. N nodes are configured and Q = N/2+1 of them are a quorum, never of
// those that happen to be reachable. Any two quorums share a node; that is the whole reason why a slot
// has at most one holder.
package quorum

// Size returns Q, the quorum of n configured nodes.
func Size(n int) int { return n/2 + 1 }

// Version numbers the accepted value of a register: its ballot in the sense of CASPaxos. Zero is none.
type Version struct {
	Counter int64
	Replica string
}

// Kind says what a node has said to a claim so far.
type Kind uint8

// Kinds of ballots.
const (
	Waiting Kind = iota // it was asked and may still answer
	Silent              // no answer will count: down, out, timed out
	No                  // it answered and does not hold the lease
	Yes                 // it holds the lease on Slots with Fence
)

// Ballot is one node's answer to one claim or mend.
type Ballot struct {
	Kind       Kind
	Definition Version // under which it answered; zero: it knows none
	Slots      Slots   // of a Yes
	Fence      int64   // of a Yes
	Ver        int64   // of a Yes
}

// alike reports whether two Yes ballots are votes for the same grant.
func (b *Ballot) alike(c *Ballot) bool {
	return b.Definition == c.Definition && b.Fence == c.Fence && b.Slots.Equal(c.Slots)
}

// Outcome is what the ballots amount to.
type Outcome uint8

// Outcomes.
const (
	Undecided   Outcome = iota
	Granted             // Q ballots agree on slots, fence and definition
	Split               // Q said yes under one definition, but not alike: mend onto the verdict
	Redefined           // fewer than Q answers name one definition: read the register
	Refused             // Q answered, and too few of them said yes
	Unreachable         // fewer than Q answered
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"undecided", "granted", "split", "redefined", "refused", "unreachable"}[o]
}

// Verdict is the outcome with what was granted, or, of a Split, what to mend onto.
type Verdict struct {
	Outcome
	Slots      Slots
	Fence      int64
	Ver        int64
	Definition Version
	Members    []int // of Granted: the ballots that agree; at least Q
}

// Tally decides a claim by the ballots of all configured nodes, in their order. closed says that nobody is
// waited for any longer: ballots still Waiting count as Silent.
//
// It decides as soon as no ballot still to come can change the outcome. Only a Split waits for all of them, even where they
// can not make a majority that agrees: they may change what most have voted for.
func Tally(ballots []Ballot, closed bool) Verdict {
	need := Size(len(ballots))
	if v, ok := agreement(ballots, need); ok {
		return v
	}
	answered, waiting := count(ballots)
	if closed {
		waiting = 0
	}
	switch {
	case answered+waiting < need:
		return Verdict{Outcome: Unreachable}
	case answered < need:
		return Verdict{Outcome: Undecided}
	}
	definition, named := mostNamed(ballots)
	if named+waiting < need {
		return Verdict{Outcome: Redefined}
	}
	yes := yesUnder(ballots, definition)
	switch {
	case named < need, waiting > 0 && yes+waiting >= need:
		return Verdict{Outcome: Undecided}
	case yes >= need:
		return bestVoted(ballots, definition)
	}
	return Verdict{Outcome: Refused, Definition: definition}
}

// agreement finds need ballots that are alike.
func agreement(ballots []Ballot, need int) (Verdict, bool) {
	for i := range ballots {
		b := &ballots[i]
		if b.Kind != Yes || len(ballots)-i < need {
			continue
		}
		members := make([]int, 0, len(ballots))
		ver := b.Ver
		for j := range ballots {
			if c := &ballots[j]; c.Kind == Yes && b.alike(c) {
				members = append(members, j)
				ver = max(ver, c.Ver)
			}
		}
		if len(members) >= need {
			return Verdict{Outcome: Granted, Slots: b.Slots, Fence: b.Fence, Ver: ver, Definition: b.Definition, Members: members}, true
		}
	}
	return Verdict{}, false
}

// count returns how many have answered and how many may still answer.
func count(ballots []Ballot) (answered, waiting int) {
	for i := range ballots {
		switch ballots[i].Kind {
		case Yes, No:
			answered++
		case Waiting:
			waiting++
		}
	}
	return answered, waiting
}

// mostNamed returns a definition that most answers name, and by how many. There is one only if these are Q.
func mostNamed(ballots []Ballot) (best Version, named int) {
	for i := range ballots {
		if ballots[i].Kind < No {
			continue
		}
		n := 0
		for j := range ballots {
			if ballots[j].Kind >= No && ballots[j].Definition == ballots[i].Definition {
				n++
			}
		}
		if n > named {
			best, named = ballots[i].Definition, n
		}
	}
	return best, named
}

// Less orders versions by counter, then replica.
func (v Version) Less(w Version) bool {
	return v.Counter < w.Counter || v.Counter == w.Counter && v.Replica < w.Replica
}

// Compare orders versions by counter, then replica.
func (v Version) Compare(w Version) int {
	switch {
	case v == w:
		return 0
	case v.Less(w):
		return -1
	}
	return 1
}

func yesUnder(ballots []Ballot, definition Version) int {
	n := 0
	for i := range ballots {
		if ballots[i].Kind == Yes && ballots[i].Definition == definition {
			n++
		}
	}
	return n
}

// bestVoted is what a split is mended onto: the slots most ballots have (of a tie, the largest fence's, then
// the lowest), with the largest fence and the next ver.
func bestVoted(ballots []Ballot, definition Version) Verdict {
	v := Verdict{Outcome: Split, Definition: definition}
	votes, fence := 0, int64(0)
	for i := range ballots {
		b := &ballots[i]
		if b.Kind != Yes || b.Definition != definition {
			continue
		}
		n := 0
		for j := range ballots {
			if c := &ballots[j]; c.Kind == Yes && c.Definition == definition && c.Slots.Equal(b.Slots) {
				n++
			}
		}
		if n > votes || n == votes && (b.Fence > fence || b.Fence == fence && b.Slots.First() < v.Slots.First()) {
			votes, fence, v.Slots = n, b.Fence, b.Slots
		}
		v.Fence = max(v.Fence, b.Fence)
		v.Ver = max(v.Ver, b.Ver+1)
	}
	return v
}
