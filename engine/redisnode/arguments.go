package redisnode

import (
	"strconv"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// arguments are those of one command. What they are made of is used again for the next one, so that writing a call
// allocates next to nothing. The zero value is empty.
type arguments struct {
	list  []any // what go-redis is given; of ours, the first len(parts) at most
	parts []*part
	used  int
}

// part is one argument that was encoded here.
type part struct{ bytes []byte }

// MarshalBinary is how go-redis asks for it.
func (p *part) MarshalBinary() ([]byte, error) { return p.bytes, nil }

// reset starts anew, with what is the same in all calls of a script.
func (a *arguments) reset(command ...any) {
	a.list = append(a.list[:0], command...)
	a.used = 0
}

// next returns room for one more argument.
func (a *arguments) next() *part {
	if a.used == len(a.parts) {
		a.parts = append(a.parts, &part{})
	}
	p := a.parts[a.used]
	a.used++
	a.list = append(a.list, p)
	p.bytes = p.bytes[:0]
	return p
}

// key adds a key: its kind and the era stand before the user's bytes.
func (a *arguments) key(prefix, kind, era, name string) {
	p := a.next()
	p.bytes = append(append(append(p.bytes, prefix...), ':'), kind...)
	p.bytes = append(append(append(append(p.bytes, ':'), era...), ':'), name...)
}

// text adds free text.
func (a *arguments) text(s string) {
	p := a.next()
	p.bytes = append(p.bytes, s...)
}

// word adds an identifier.
func (a *arguments) word(s string) {
	p := a.next()
	p.bytes = appendWord(p.bytes, s)
}

func (a *arguments) number(n int64) {
	p := a.next()
	p.bytes = strconv.AppendInt(p.bytes, n, 10)
}

// flag adds 1 or 0.
func (a *arguments) flag(set bool) {
	p := a.next()
	p.bytes = appendFlag(p.bytes, set)
}

// duration adds a length of time in µs, or "never".
func (a *arguments) duration(d time.Duration) {
	p := a.next()
	if d == engine.Never {
		p.bytes = append(p.bytes, neverWord...)
		return
	}
	p.bytes = strconv.AppendInt(p.bytes, max(0, d.Microseconds()), 10)
}

// neverWord is what is written for engine.Never.
const neverWord = "never"

func (a *arguments) slots(s quorum.Slots) { a.text(s.String()) }

// owner adds "gen nonce".
func (a *arguments) owner(o engine.Owner) {
	p := a.next()
	p.bytes = appendWord(append(strconv.AppendInt(p.bytes, o.Gen, 10), ' '), o.Nonce)
}

// ballot adds "counter replica".
func (a *arguments) ballot(b engine.Ballot) {
	p := a.next()
	p.bytes = appendBallot(p.bytes, b)
}

// order adds "arrival seq replica".
func (a *arguments) order(o engine.Order) {
	p := a.next()
	p.bytes = appendOrder(p.bytes, o)
}

// place adds "arrival seq replica weight count total oldest", or nothing for none.
func (a *arguments) place(stated engine.Place) {
	p := a.next()
	if stated.Order.IsZero() {
		return
	}
	p.bytes = appendOrder(p.bytes, stated.Order)
	for _, n := range [...]int64{int64(stated.Weight), int64(stated.Count), int64(stated.Total), max(0, stated.Oldest.Microseconds())} {
		p.bytes = strconv.AppendInt(append(p.bytes, ' '), n, 10)
	}
}

func appendBallot(to []byte, b engine.Ballot) []byte {
	return appendWord(append(strconv.AppendInt(to, b.Counter, 10), ' '), b.Replica)
}

func appendOrder(to []byte, o engine.Order) []byte {
	to = append(strconv.AppendInt(to, o.Arrival, 10), ' ')
	return appendWord(append(strconv.AppendInt(to, o.Seq, 10), ' '), o.Replica)
}

func appendFlag(to []byte, set bool) []byte {
	if set {
		return append(to, '1')
	}
	return append(to, '0')
}

// appendEras writes a vector of eras, by commas.
func appendEras(to []byte, eras []int64) []byte {
	for i, era := range eras {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, era, 10)
	}
	return to
}
