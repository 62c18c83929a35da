package server

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// These walk JSON text that json.Valid has accepted, so they need not look for mistakes.

// skipSpace returns the index of the first byte from i on that is no white space.
func skipSpace(text string, i int) int {
	for i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
		i++
	}
	return i
}

// skipValue returns the index behind the value that starts at i.
func skipValue(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// skipString returns the index of the quote that closes the string which opens at i.
func skipString(text string, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// unquote returns the value of a JSON string; false if it is no string, or has half a surrogate pair,
// which encoding/json would turn into U+FFFD, making one name of two.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != '"' {
		return "", false
	}
	text = text[1 : len(text)-1]
	if strings.IndexByte(text, '\\') < 0 {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b = append(b, text[i])
			continue
		}
		i++
		if text[i] != 'u' {
			b = append(b, unescape(text[i]))
			continue
		}
		r := hex4(text[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			if !strings.HasPrefix(text[i+1:], `\u`) {
				return "", false
			}
			if r = utf16.DecodeRune(r, hex4(text[i+3:])); r == utf8.RuneError {
				return "", false
			}
			i += 6
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b), true
}

// unescape returns what a backslash before c stands for.
func unescape(c byte) byte {
	if at := strings.IndexByte("bfnrt", c); at >= 0 {
		return "\b\f\n\r\t"[at]
	}
	return c
}

// hex4 reads four hexadecimal digits.
func hex4(text string) (r rune) {
	for _, c := range []byte(text[:4]) {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
