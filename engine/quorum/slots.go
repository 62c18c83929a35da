package quorum

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Span is a run of slots, both ends included: 0 <= First <= Last.
type Span struct{ First, Last int }

// Slots is a set of slot numbers: spans in rising order that neither touch nor overlap. The zero
// value is the empty set. It is immutable: every operation returns a new set.
type Slots []Span

// OneSlot returns the set of one slot.
func OneSlot(n int) Slots { return Slots{{n, n}} }

// SlotsOf returns the set of the given slots, in any order, repeats allowed.
func SlotsOf(numbers ...int) Slots {
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	var s Slots
	for _, n := range sorted {
		s = s.with(Span{n, n})
	}
	return s
}

// with appends a span that starts no earlier than the last one of s.
func (s Slots) with(span Span) Slots {
	if last := len(s) - 1; last >= 0 && span.First <= s[last].Last+1 {
		s[last].Last = max(s[last].Last, span.Last)
		return s
	}
	return append(s, span)
}

// Len returns how many slots the set has.
func (s Slots) Len() int {
	n := 0
	for _, span := range s {
		n += span.Last - span.First + 1
	}
	return n
}

// First returns the smallest slot, or -1 of the empty set.
func (s Slots) First() int {
	if len(s) == 0 {
		return -1
	}
	return s[0].First
}

// All yields the slots in rising order.
func (s Slots) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, span := range s {
			for n := span.First; n <= span.Last; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// Equal reports whether both sets have the same slots.
func (s Slots) Equal(t Slots) bool { return slices.Equal(s, t) }

// Contains reports whether every slot of t is in s.
func (s Slots) Contains(t Slots) bool { return len(t.Minus(s)) == 0 }

// Overlaps reports whether s and t share a slot.
func (s Slots) Overlaps(t Slots) bool {
	for i, j := 0, 0; i < len(s) && j < len(t); {
		switch {
		case s[i].Last < t[j].First:
			i++
		case t[j].Last < s[i].First:
			j++
		default:
			return true
		}
	}
	return false
}

// Union returns the slots that are in s or in t.
func (s Slots) Union(t Slots) Slots { return UnionOf(s, t) }

// UnionOf returns the slots that are in any of the sets. Their spans are sorted once, however many sets there are.
func UnionOf(sets ...Slots) Slots {
	all := slices.Concat(sets...)
	slices.SortFunc(all, func(a, b Span) int { return a.First - b.First })
	u := all[:0] // never overtakes what is read
	for _, span := range all {
		u = u.with(span)
	}
	return u
}

// Minus returns the slots of s that are not in t.
func (s Slots) Minus(t Slots) Slots {
	var d Slots
	j := 0
	for _, span := range s {
		for j < len(t) && t[j].Last < span.First {
			j++
		}
		from := span.First
		for k := j; k < len(t) && t[k].First <= span.Last; k++ {
			if from < t[k].First {
				d = append(d, Span{from, t[k].First - 1})
			}
			from = t[k].Last + 1
		}
		if from <= span.Last {
			d = append(d, Span{from, span.Last})
		}
	}
	return d
}

// From returns the slots of s that are at least n.
func (s Slots) From(n int) Slots {
	var d Slots
	for _, span := range s {
		if span.Last >= n {
			d = append(d, Span{max(span.First, n), span.Last})
		}
	}
	return d
}

// String writes the set as "0-3,7"; the empty set is "".
func (s Slots) String() string {
	if len(s) == 1 && s[0].First == s[0].Last {
		return strconv.Itoa(s[0].First)
	}
	var b []byte
	for i, span := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(span.First), 10)
		if span.Last > span.First {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(span.Last), 10)
		}
	}
	return string(b)
}

// slotMax bounds what ParseSlots takes, so that sums of what it returns do not overflow.
const slotMax = math.MaxInt32 - 1

// ParseSlots reads what String writes. Spans that are out of order, touch or overlap are an error, and so is a slot beyond
// 2^31 - 2.
func ParseSlots(text string) (Slots, error) {
	if text == "" {
		return nil, nil
	}
	s := make(Slots, 0, 1+strings.Count(text, ","))
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > slotMax || len(s) > 0 && from <= s[len(s)-1].Last+1 {
			return nil, fmt.Errorf("quorum: %q is not a set of slots", text)
		}
		s = append(s, Span{from, to})
	}
	return s, nil
}

// Lowest returns the n lowest slots of the set, or all if it has fewer.
func (s Slots) Lowest(n int) Slots {
	var d Slots
	for _, span := range s {
		if n <= 0 {
			break
		}
		last := min(span.Last, span.First+n-1)
		d = append(d, Span{span.First, last})
		n -= last - span.First + 1
	}
	return d
}
