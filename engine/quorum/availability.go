package quorum

// MayHold reports whether a lease that was seen on so many of the answering nodes may have Q votes, the nodes
// that did not answer taken as holding it: seen >= answered - (n - Q).
func MayHold(n, answered, seen int) bool {
	return seen > 0 && seen >= answered-(n-Size(n))
}
