package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// appendLease appends the members of a lease, without the braces around them: an answer of REST and
// a frame of the channel have the same. It is written by hand because every grant passes it (a third of
// the time of encoding/json).
func appendLease(b []byte, l *engine.Lease) []byte {
	b = appendText(append(b, `"lease":`...), l.Capability)
	b = appendText(append(b, `,"id":`...), l.ID)
	b = appendText(append(b, `,"semaphore":`...), l.Semaphore)
	b = strconv.AppendInt(append(b, `,"requested":`...), int64(l.Requested), 10)
	b = strconv.AppendInt(append(b, `,"weight":`...), int64(l.Weight), 10)
	b = appendText(append(b, `,"slots":`...), l.Slots.String())
	b = strconv.AppendInt(append(b, `,"fence":`...), l.Fence, 10)
	b = appendText(append(b, `,"holder":`...), l.Holder)
	if l.TTL != engine.Never {
		b = strconv.AppendInt(append(b, `,"ttl_ms":`...), l.TTL.Milliseconds(), 10)
		b = strconv.AppendInt(append(b, `,"validity_ms":`...), l.Validity.Milliseconds(), 10)
		b = strconv.AppendInt(append(b, `,"renew_after_ms":`...), l.RenewAfter.Milliseconds(), 10)
	}
	if l.Policy.Name != "" {
		b = appendText(append(b, `,"policy":{"name":`...), l.Policy.Name)
		b = append(strconv.AppendInt(append(b, `,"generation":`...), l.Policy.Generation, 10), '}')
	}
	return strconv.AppendBool(append(b, `,"replayed":`...), l.Replayed)
}

// appendReleased appends the members of what a release did.
func appendReleased(b []byte, r *engine.Released) []byte {
	b = appendText(append(b, `"id":`...), r.ID)
	b = append(append(b, `,"state":"`...), releasedState(r)...)
	b = strconv.AppendInt(append(b, `","weight":`...), int64(r.Weight), 10)
	return strconv.AppendInt(append(b, `,"cooling_ms":`...), r.Cooling.Milliseconds(), 10)
}

func releasedState(r *engine.Released) string {
	if r.Held {
		return "held"
	}
	return "released"
}

// appendText appends a JSON string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			escaped, _ := json.Marshal(text) // of a string: it cannot fail
			return append(b, escaped...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// answerLease writes a lease to its holder, and tells whether it could be written.
func answerLease(c echo.Context, l *engine.Lease) error {
	if wantsText(c.Request()) {
		return answerNow(c, http.StatusOK, textType, append([]byte(l.Capability), '\n'))
	}
	buf := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(buf) // whatever writes it does not keep it
	*buf = append(appendLease(append((*buf)[:0], '{'), l), "}\n"...)
	return answerNow(c, http.StatusOK, jsonType, *buf)
}
