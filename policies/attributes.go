package policies

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// wrongAttribute says what is wrong with an attribute of a client, if anything is.
func wrongAttribute(key, value string) string {
	switch {
	case key == "":
		return "the key is empty"
	case len(key) > AttributeKeyMax:
		return fmt.Sprintf("a key of %d bytes, at most %d", len(key), AttributeKeyMax)
	case len(value) > AttributeValueMax:
		return fmt.Sprintf("a value of %d bytes, at most %d", len(value), AttributeValueMax)
	case !utf8.ValidString(key) || !utf8.ValidString(value):
		return "not UTF-8"
	case strings.HasPrefix(key, reservedPrefix):
		return "keys that begin with " + reservedPrefix + " come from the server"
	}
	return ""
}

// clampTTL turns what a module asked for into what the semaphore allows; 0 is the semaphore's default.
func (r *Request) clampTTL(ms int64) time.Duration {
	if ms == 0 {
		return 0
	}
	least, most := r.TTLMin, r.TTLMax
	if least == 0 {
		least = ttlMinUsual
	}
	if most == 0 {
		most = ttlMaxUsual
	}
	ms = min(max(ms, least.Milliseconds()), most.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}

func utf16le(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
	}
	return string(utf16.Decode(units))
}
