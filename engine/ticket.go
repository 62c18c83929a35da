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
	weight  int
}

const ticketLen = 8 + 8 + 8 + 4 + 4 // bytes, without id and MAC

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
	return idEncoding.EncodeToString(append(b, e.ticketMAC(r.s.name, b)...))
}

// openTicket reads a ticket for a semaphore; false if it is not ours, or over.
func (e *Engine) openTicket(semaphore, text string) (ticket, bool) {
	b, err := idEncoding.DecodeString(text)
	if err != nil || len(b) != ticketLen+10+16 || idEncoding.EncodeToString(b) != text { // the last character has a bit to spare
		return ticket{}, false
	}
	body, sum := b[:ticketLen+10], b[ticketLen+10:]
	t := ticket{
		arrival: int64(binary.BigEndian.Uint64(body)), since: int64(binary.BigEndian.Uint64(body[8:])),
		until: int64(binary.BigEndian.Uint64(body[16:])), params: binary.BigEndian.Uint32(body[24:]),
		weight: int(binary.BigEndian.Uint32(body[28:])),
		id:     idEncoding.EncodeToString(body[ticketLen:]),
	}
	return t, hmac.Equal(sum, e.ticketMAC(semaphore, body)) && e.arrival() < t.until
}

func (e *Engine) ticketMAC(semaphore string, body []byte) []byte {
	h := hmac.New(sha256.New, e.secretKey())
	h.Write([]byte("ticket\x00")) // no lease id begins so
	h.Write(body)
	h.Write([]byte(semaphore))
	return h.Sum(nil)[:16]
}
