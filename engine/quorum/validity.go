package quorum

import (
	"slices"
	"time"
)

// Margin is what a validity stays short of a lease's end at the nodes, besides 1 % of the TTL: more than the
// JumpMin by which a node's clock may step unnoticed.
const Margin = 25 * time.Millisecond

// Validity returns until when, by the coordinator's clock, a lease may be trusted: the smaller of
// asked + ttl and the Q-th largest end, less ttl/100 (clocks that run at different rates), Margin and the widest
// clock interval that the ends rest on. An end is the time at which the request was sent plus what the node's answer
// says is left; ends has one for every node that holds the lease. Fewer than Q ends: the zero time.
//
// It is Redlock's validity (Antirez, "Distributed locks with Redis"), made to rest on what nodes answered.
func Validity(n int, asked, ttl time.Duration, ends []time.Duration, width time.Duration) time.Duration {
	need := Size(n)
	if len(ends) < need {
		return 0
	}
	sorted := slices.Clone(ends)
	slices.Sort(sorted)
	end := min(asked+ttl, sorted[len(sorted)-need])
	return end - ttl/100 - Margin - width
}
