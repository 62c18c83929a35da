package quorum

// ShrinkBound returns below which slot permits may be granted while slots at or beyond the limit are still in use: the
// largest g with g + |{s in used: s >= g}| <= limit, so that with what is still out there nothing exceeds the limit; 0: none.
//
// Of the n slots in use beyond the limit each takes one of the free slots below it out of reach, the highest first: g is
// the n-th highest free one.
func ShrinkBound(limit int, used Slots) int {
	n := used.From(limit).Len()
	if n == 0 {
		return limit
	}
	free := Slots{{0, limit - 1}}.Minus(used)
	for i := len(free) - 1; i >= 0; i-- {
		if size := free[i].Last - free[i].First + 1; n > size {
			n -= size
			continue
		}
		return free[i].Last - n + 1
	}
	return 0
}
