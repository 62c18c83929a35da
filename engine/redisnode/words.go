package redisnode

import "strings"

// The scripts keep and tell identifiers (of leases, attempts, owners, replicas, clusters) as words between spaces and commas.
// A word has letters and digits as they are and every other byte as a sign and two hexadecimal digits. The signs are chosen so that
// words compare, byte by byte, as what they stand for: each sorts between the same letters and digits as the bytes it
// stands for.

const hexDigits = "0123456789ABCDEF"

// plain reports whether a byte stands for itself.
func plain(b byte) bool {
	return '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
}

// sign is what introduces a byte that is not plain.
func sign(b byte) byte {
	switch {
	case b < '0':
		return '!'
	case b < 'A':
		return ':'
	case b < 'a':
		return '['
	default:
		return '{'
	}
}

// appendWord appends text as a word.
func appendWord(to []byte, text string) []byte {
	for i := range len(text) {
		if b := text[i]; plain(b) {
			to = append(to, b)
		} else {
			to = append(to, sign(b), hexDigits[b>>4], hexDigits[b&15])
		}
	}
	return to
}

// word returns text as a word.
func word(text string) string {
	for i := range len(text) {
		if !plain(text[i]) {
			return string(appendWord(nil, text))
		}
	}
	return text
}

// unword returns what a word stands for; ok is false if it is none.
func unword(word string) (text string, ok bool) {
	at := strings.IndexFunc(word, func(r rune) bool { return r >= 0x80 || !plain(byte(r)) })
	if at < 0 {
		return word, true
	}
	out := append(make([]byte, 0, len(word)), word[:at]...)
	for i := at; i < len(word); i++ {
		if plain(word[i]) {
			out = append(out, word[i])
			continue
		}
		if i+2 >= len(word) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, word[i+1]), strings.IndexByte(hexDigits, word[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b := byte(high<<4 | low)
		if plain(b) || sign(b) != word[i] {
			return "", false
		}
		out = append(out, b)
		i += 2
	}
	return string(out), true
}
