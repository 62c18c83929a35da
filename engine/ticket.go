package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// ticket is what a request that was not granted takes along, to resume its place on any replica. Times are the nodes', µs.
type ticket struct {
	id      string
	arrival int64 // of its order: its head start is in it
	since   int64 // when it first asked
	until   int64 // when the ticket ends
	params  uint32
	word    Weighed // zero: no policy was asked
}

const ticketLen = 8 + 8 + 8 + 4 + 4 // bytes, without id, what a policy said, and MAC

// ticket makes one for a request.
func (r *Request) ticket(now time.Duration) string {
	e := r.s.e
	arrived := e.arrival()
	b := make([]byte, 0, ticketLen+10+16)
	b = binary.BigEndian.AppendUint64(b, uint64(r.order.Arrival))
	b = binary.BigEndian.AppendUint64(b, uint64(arrived-int64((now-r.since)/time.Microsecond)))
	b = binary.BigEndian.AppendUint64(b, uint64(arrived+int64(TicketValid/time.Microsecond)))
	b = binary.BigEndian.AppendUint32(b, r.params)
	b = binary.BigEndian.AppendUint32(b, uint32(r.weight))
	b, _ = idEncoding.AppendDecode(b, []byte(r.id)) // it is one of ours
	if r.word.Weight > 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.word.TTL))
		b = binary.BigEndian.AppendUint64(b, uint64(r.word.Policy.Generation))
		b = append(b, r.word.Policy.Name...)
	}
	return idEncoding.EncodeToString(append(b, e.ticketMAC(r.s.name, b)...))
}

// openTicket reads a ticket for a semaphore; false if it is not ours, or over.
func (e *Engine) openTicket(semaphore, text string) (ticket, bool) {
	b, err := idEncoding.DecodeString(text)
	if err != nil || len(b) < ticketLen+10+16 || idEncoding.EncodeToString(b) != text { // the last character has a bit to spare
		return ticket{}, false
	}
	body, sum := b[:len(b)-16], b[len(b)-16:]
	if !hmac.Equal(sum, e.ticketMAC(semaphore, body)) {
		return ticket{}, false
	}
	t := ticket{
		arrival: int64(binary.BigEndian.Uint64(body)), since: int64(binary.BigEndian.Uint64(body[8:])),
		until: int64(binary.BigEndian.Uint64(body[16:])), params: binary.BigEndian.Uint32(body[24:]),
		id: idEncoding.EncodeToString(body[ticketLen : ticketLen+10]),
	}
	if word := body[ticketLen+10:]; len(word) > 0 {
		t.word = Weighed{
			Weight: int(binary.BigEndian.Uint32(body[28:])), TTL: time.Duration(binary.BigEndian.Uint64(word)),
			Policy: PolicyVersion{Name: string(word[16:]), Generation: int64(binary.BigEndian.Uint64(word[8:]))},
		}
	}
	return t, e.arrival() < t.until
}

func (e *Engine) ticketMAC(semaphore string, body []byte) []byte {
	h := hmac.New(sha256.New, e.secretKey())
	h.Write([]byte("ticket\x00")) // no lease id begins so
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(semaphore))))
	h.Write([]byte(semaphore))
	h.Write(body)
	return h.Sum(nil)[:16]
}
