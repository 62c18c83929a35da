package quorum

import "time"

// JumpMin is how far outside of what was known an answer's time must be to count as a jump of the node's clock.
// Below Margin, so that what stays unnoticed is covered by every validity.
const JumpMin = 20 * time.Millisecond

// DriftPerMille is how fast two clocks may move apart, in thousandths.
const DriftPerMille = 1

// Interval is what is known of a node's clock: its offset to the coordinator's, between Lo and Hi as
// of the coordinator's time At. The zero value knows nothing.
type Interval struct {
	Lo, Hi time.Duration // node time - coordinator time
	At     time.Duration
	Known  bool
}

// Width returns Hi - Lo.
func (i Interval) Width() time.Duration { return i.Hi - i.Lo }

// Widened returns the interval as it is at now: each side moves out by DriftPerMille of the time passed.
func (i Interval) Widened(now time.Duration) Interval {
	if !i.Known || now <= i.At {
		return i
	}
	drift := (now - i.At) * DriftPerMille / 1000
	return Interval{Lo: i.Lo - drift, Hi: i.Hi + drift, At: now, Known: true}
}

// Observe takes in an answer that carried the node's time and was sent and received at these times of
// the coordinator's: the offset was between time - received and time - sent. It returns the
// intersection, or the interval as it was when the answer contradicts it by at most JumpMin, or jumped when by more.
func (i Interval) Observe(node, sent, received time.Duration) (next Interval, jumped bool) {
	seen := Interval{Lo: node - received, Hi: node - sent, At: received, Known: true}
	if !i.Known {
		return seen, false
	}
	wide := i.Widened(received)
	if outside := max(seen.Lo-wide.Hi, wide.Lo-seen.Hi); outside > 0 {
		return wide, outside > JumpMin
	}
	return Interval{Lo: max(seen.Lo, wide.Lo), Hi: min(seen.Hi, wide.Hi), At: received, Known: true}, false
}
