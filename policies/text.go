package policies

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// bounded makes text of a guest fit to be shown: valid UTF-8 of at most limit bytes, cut between characters, without control
// characters, line separators, or marks that turn the direction of what follows; those become spaces.
func bounded(text []byte, limit int) string {
	if plain(text, limit) {
		return string(text)
	}
	text = text[:min(len(text), utf8.UTFMax*limit)] // no character becomes shorter than a quarter
	var b strings.Builder
	for len(text) > 0 && b.Len() < limit {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if hidden(r) {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// plain is the common case, printable ASCII, in which nothing has to be done.
func plain(text []byte, limit int) bool {
	if len(text) > limit {
		return false
	}
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}
