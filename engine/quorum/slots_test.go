package quorum_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/permitd/permitd/engine/quorum"
)

// numbers is the dumb twin of quorum.Slots: a map.
type numbers map[int]bool

func numbersOf(list ...int) numbers {
	m := numbers{}
	for _, n := range list {
		m[n] = true
	}
	return m
}

func (m numbers) sorted() []int {
	var list []int
	for n := range m {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

func (m numbers) where(keep func(n int) bool) []int {
	return slices.DeleteFunc(m.sorted(), func(n int) bool { return !keep(n) })
}

// listed are the slots of a set, which must be as its type promises: spans in rising order that neither touch nor overlap.
func listed(t *testing.T, s quorum.Slots) []int {
	t.Helper()
	for i, span := range s {
		if span.First < 0 || span.Last < span.First || i > 0 && span.First <= s[i-1].Last+1 {
			t.Errorf("%v is not in order", s)
		}
	}
	return slices.Collect(s.All())
}

func TestSlotsDoAsASetOfNumbersDoes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(rand.Uint64(), 2))
	draw := func() []int {
		list := make([]int, random.IntN(12))
		for i := range list {
			list[i] = random.IntN(20)
		}
		return list
	}
	for range 20_000 {
		p, q, n := draw(), draw(), random.IntN(22)
		s, u := quorum.SlotsOf(p...), quorum.SlotsOf(q...)
		a, b := numbersOf(p...), numbersOf(q...)
		sWas, uWas := s.String(), u.String()

		sets := []struct {
			what string
			got  quorum.Slots
			want []int
		}{
			{"itself", s, a.sorted()},
			{"union", s.Union(u), numbersOf(append(a.sorted(), q...)...).sorted()},
			{"union of three", quorum.UnionOf(u, quorum.OneSlot(n), s), numbersOf(append(append(a.sorted(), q...), n)...).sorted()},
			{"minus", s.Minus(u), a.where(func(n int) bool { return !b[n] })},
			{"from", s.From(n), a.where(func(slot int) bool { return slot >= n })},
			{"lowest", s.Lowest(n), a.sorted()[:min(n, len(a))]},
		}
		for _, c := range sets {
			if got := listed(t, c.got); !slices.Equal(got, c.want) {
				t.Errorf("%v and %v, %d: %s is %v; want %v", p, q, n, c.what, got, c.want)
			}
		}
		common := a.where(func(n int) bool { return b[n] })
		facts := []struct {
			what      string
			got, want bool
		}{
			{"equal", s.Equal(u), slices.Equal(a.sorted(), b.sorted())},
			{"overlap", s.Overlaps(u), len(common) > 0},
			{"contain", s.Contains(u), len(common) == len(b)},
		}
		for _, c := range facts {
			if c.got != c.want {
				t.Errorf("%v and %v: %s is %v; want %v", p, q, c.what, c.got, c.want)
			}
		}
		first := -1
		if len(a) > 0 {
			first = a.sorted()[0]
		}
		if s.Len() != len(a) || s.First() != first {
			t.Errorf("%v: length %d, first %d; want %d, %d", p, s.Len(), s.First(), len(a), first)
		}
		if back, err := quorum.ParseSlots(s.String()); err != nil || !back.Equal(s) {
			t.Errorf("%v is written %q and read as %v, %v", p, s, back, err)
		}
		if s.String() != sWas || u.String() != uWas {
			t.Fatalf("%s and %s were changed to %s and %s", sWas, uWas, s, u)
		}
	}
}

func TestSlotsAreWrittenAsSpans(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]int{
		"":        {},
		"0":       {0},
		"7":       {7},
		"0-1":     {1, 0},
		"0-3,7":   {3, 2, 1, 0, 7, 7},
		"4,6,8-9": {9, 6, 8, 4},
	} {
		if got := quorum.SlotsOf(list...).String(); got != want {
			t.Errorf("%v is written %q; want %q", list, got, want)
		}
	}
	if got := quorum.OneSlot(7).String(); got != "7" {
		t.Errorf("slot 7 is written %q", got)
	}
}

func TestTheWalkOverSlotsCanStop(t *testing.T) {
	t.Parallel()
	var seen []int
	for n := range quorum.SlotsOf(1, 2, 3, 9).All() {
		seen = append(seen, n)
		if n == 2 {
			break
		}
	}
	if !slices.Equal(seen, []int{1, 2}) {
		t.Errorf("walked over %v", seen)
	}
}

func TestWhatIsNotASetOfSlotsIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		",", "1,", ",1", "a", "1-", "-1", "1-a", "3-2", "1--2", "1,1", "1,2", "0-3,4", "0-3,2", "5,1", " 1", "1 ", "1.5",
		"2147483647", "0-2147483647", "0-9223372036854775807,5", "9223372036854775808",
	} {
		if s, err := quorum.ParseSlots(text); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}

func FuzzParseSlots(f *testing.F) {
	for _, text := range []string{"", "0", "0-3,7", "1,2", "2147483646", "0-9223372036854775807,5", "+1", "007", "3-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := quorum.ParseSlots(text)
		if err != nil {
			return
		}
		for i, span := range s {
			if span.First < 0 || span.Last < span.First || i > 0 && span.First <= s[i-1].Last+1 {
				t.Fatalf("%q is read as %v", text, s)
			}
		}
		again, err := quorum.ParseSlots(s.String())
		if err != nil || !again.Equal(s) || s.Len() < len(s) {
			t.Fatalf("%q is read as %v, and that as %v, %v", text, s, again, err)
		}
	})
}
