package redisnode

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestWordsOfUsualIdentifiersAreTheIdentifiers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "7q3m2k9dhf2raw4e", "AAAAAAAAAAAAAAAA", "lease1"} {
		if got := word(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWordsHaveNoSpacesNorCommas(t *testing.T) {
	t.Parallel()
	for b := range 256 {
		if got := word(string([]byte{byte(b)})); strings.ContainsAny(got, " ,\x00\n%") {
			t.Errorf("byte %#x became %q", b, got)
		}
	}
}

func TestWordsStandForAnyBytesAndCompareAsTheyDo(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		b := make([]byte, dice.IntN(4))
		for i := range b {
			b[i] = byte(dice.IntN(256))
			if dice.IntN(2) == 0 {
				b[i] = "09AZaz/:@[`{ ,!"[dice.IntN(15)]
			}
		}
		return string(b)
	}
	for range 20_000 {
		a, b := random(), random()
		if text, ok := unword(word(a)); !ok || text != a {
			t.Fatalf("%q became %q and that %q, %v", a, word(a), text, ok)
		}
		if cmp.Compare(a, b) != cmp.Compare(word(a), word(b)) {
			t.Fatalf("%q and %q compare otherwise as %q and %q", a, b, word(a), word(b))
		}
	}
}

func TestWhatIsNoWordIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a b", "!", "!2", "!2g", "!41", "{20", "a!2", "\xff", "!2f"} {
		if got, ok := unword(text); ok {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}
