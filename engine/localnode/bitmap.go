package localnode

import (
	"math/bits"

	"github.com/permitd/permitd/engine/quorum"
)

// bitmap is a set of slots that finds what is not in it fast: a word tells of 64 slots at once. The zero value is empty.
type bitmap struct {
	words []uint64
	count int // = the number of bits that are set
}

const wordBits = 64

func (b *bitmap) has(n int) bool {
	return n/wordBits < len(b.words) && b.words[n/wordBits]&(1<<(n%wordBits)) != 0
}

// set adds a slot that is not in the set.
func (b *bitmap) set(n int) {
	for len(b.words) <= n/wordBits {
		b.words = append(b.words, 0)
	}
	b.words[n/wordBits] |= 1 << (n % wordBits)
	b.count++
}

// clear removes a slot that is in the set.
func (b *bitmap) clear(n int) {
	b.words[n/wordBits] &^= 1 << (n % wordBits)
	b.count--
}

// below counts the slots that are smaller than n.
func (b *bitmap) below(n int) int {
	sum := 0
	for i, word := range b.words {
		if i >= n/wordBits {
			if i == n/wordBits {
				sum += bits.OnesCount64(word & (1<<(n%wordBits) - 1))
			}
			break
		}
		sum += bits.OnesCount64(word)
	}
	return sum
}

// free returns the first slot from n on that is not in the set and smaller than end, or -1.
func (b *bitmap) free(n, end int) int {
	for n < end {
		if n/wordBits >= len(b.words) {
			return n
		}
		rest := ^b.words[n/wordBits] >> (n % wordBits)
		if rest != 0 {
			if n += bits.TrailingZeros64(rest); n < end {
				return n
			}
			return -1
		}
		n += wordBits - n%wordBits
	}
	return -1
}

// from returns the slots of the set that are at least n.
func (b *bitmap) from(n int) quorum.Slots {
	var s quorum.Slots
	for i := n / wordBits; i < len(b.words); i++ {
		word := b.words[i]
		if i == n/wordBits {
			word = word >> (n % wordBits) << (n % wordBits)
		}
		for ; word != 0; word &= word - 1 {
			slot := i*wordBits + bits.TrailingZeros64(word)
			if last := len(s) - 1; last >= 0 && s[last].Last+1 == slot {
				s[last].Last = slot
			} else {
				s = append(s, quorum.Span{First: slot, Last: slot})
			}
		}
	}
	return s
}

// pick returns the first want free slots from start on, wrapping at end. There must be as many below end; start < end.
func (b *bitmap) pick(start, end, want int) quorum.Slots {
	high := b.run(start, end, want)
	if want -= high.Len(); want == 0 {
		return high
	}
	return b.run(0, start, want).Union(high)
}

// run returns at most want free slots in [n, end).
func (b *bitmap) run(n, end, want int) quorum.Slots {
	var s quorum.Slots
	for n = b.free(n, end); n >= 0 && want > 0; n = b.free(n+1, end) {
		if last := len(s) - 1; last >= 0 && s[last].Last+1 == n {
			s[last].Last = n
		} else {
			s = append(s, quorum.Span{First: n, Last: n})
		}
		want--
	}
	return s
}
