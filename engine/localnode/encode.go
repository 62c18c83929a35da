package localnode

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// The kinds of entries of the second file. An entry is its kind and then its fields, in the order of the functions below:
// integers as varints, strings with their length before them.
const (
	kindLease     = 'L'
	kindCooling   = 'C'
	kindTombstone = 'T'
	kindSemaphore = 'S'
)

// appendEntry appends an entry as it is stored.
func appendEntry(b []byte, x storable) []byte {
	switch x := x.(type) {
	case *lease:
		return appendLease(append(b, kindLease), x, 0)
	case *cooling:
		b = appendString(append(b, kindCooling), x.semaphore.name)
		b = appendString(b, x.lease)
		b = appendSlots(b, x.slots)
		return binary.AppendVarint(b, x.at)
	case *tombstone:
		b = appendString(append(b, kindTombstone), x.semaphore.name)
		b = appendString(b, x.lease)
		b = appendString(b, x.by)
		b = appendOwner(b, x.owner)
		b = appendBool(b, x.anyOwner)
		b = appendString(b, x.why)
		b = binary.AppendVarint(b, x.since)
		return binary.AppendVarint(b, x.at)
	case *semaphore:
		b = appendString(append(b, kindSemaphore), x.name)
		b = binary.AppendVarint(b, x.longestTTL)
		return binary.AppendVarint(b, x.waitEnd)
	default:
		panic(fmt.Sprintf("localnode: %T is not stored", x))
	}
}

// appendLease appends a lease; skew is added to the times at which things happened to it.
func appendLease(b []byte, l *lease, skew int64) []byte {
	b = appendString(b, l.semaphore.name)
	b = appendString(b, l.id)
	b = appendString(b, l.by)
	b = appendOwner(b, l.owner)
	b = appendSlots(b, l.slots)
	b = binary.AppendVarint(b, l.fence)
	b = binary.AppendVarint(b, l.ver)
	b = binary.AppendVarint(b, l.at)
	b = binary.AppendVarint(b, l.granted+skew)
	b = binary.AppendVarint(b, l.touched+skew)
	b = appendBool(b, l.first)
	b = appendBool(b, l.copy)
	b = appendBallot(b, l.definition)
	return appendString(b, l.info)
}

// appendRegister appends a register.
func appendRegister(b []byte, r *register) []byte {
	b = appendBallot(b, r.promise)
	b = appendBallot(b, r.ballot)
	b = binary.AppendVarint(b, int64(r.value.Limit))
	b = binary.AppendVarint(b, int64(r.value.MinHold))
	b = appendBool(b, r.value.Paused)
	b = appendBool(b, r.value.Deleted)
	return appendString(b, r.value.Data)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendOwner(b []byte, o engine.Owner) []byte {
	return appendString(binary.AppendVarint(b, o.Gen), o.Nonce)
}

func appendBallot(b []byte, l engine.Ballot) []byte {
	return appendString(binary.AppendVarint(b, l.Counter), l.Replica)
}

// appendSlots appends how many spans there are, then of each its first slot and how many more it has.
func appendSlots(b []byte, s quorum.Slots) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, span := range s {
		b = binary.AppendUvarint(b, uint64(span.First))
		b = binary.AppendUvarint(b, uint64(span.Last-span.First))
	}
	return b
}

// reader reads what the functions above appended. Once something does not fit, it is bad and reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

// fail makes the reader bad.
func (r *reader) fail() { r.rest, r.bad = nil, true }

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) bool() bool { return r.byte() != 0 }

func (r *reader) string() string {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) owner() engine.Owner { return engine.Owner{Gen: r.int(), Nonce: r.string()} }

func (r *reader) ballot() engine.Ballot { return engine.Ballot{Counter: r.int(), Replica: r.string()} }

func (r *reader) slots() quorum.Slots {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	s := make(quorum.Slots, n)
	for i := range s {
		first := r.uint()
		more := r.uint()
		if first+more >= slotMax || i > 0 && int(first) <= s[i-1].Last+1 {
			r.fail()
			return nil
		}
		s[i] = quorum.Span{First: int(first), Last: int(first + more)}
	}
	return s
}

// slotMax is more than any slot has ever been; it keeps a damaged entry from asking for all memory there is.
const slotMax = 1 << 30

// lease reads what appendLease appended. The semaphore is found by its name.
func (r *reader) lease(skew int64, semaphoreOf func(string) *semaphore) *lease {
	l := &lease{semaphore: semaphoreOf(r.string())}
	l.id, l.by, l.owner, l.slots = r.string(), r.string(), r.owner(), r.slots()
	l.fence, l.ver, l.at = r.int(), r.int(), r.int()
	l.granted, l.touched = r.int()-skew, r.int()-skew
	l.first, l.copy, l.definition, l.info = r.bool(), r.bool(), r.ballot(), r.string()
	return l
}

// register reads what appendRegister appended.
func (r *reader) register() register {
	var x register
	x.promise, x.ballot = r.ballot(), r.ballot()
	x.value.Limit = int(r.int())
	x.value.MinHold = time.Duration(r.int())
	x.value.Paused, x.value.Deleted, x.value.Data = r.bool(), r.bool(), r.string()
	return x
}

// done reports whether all was read and nothing was bad.
func (r *reader) done() bool { return !r.bad && len(r.rest) == 0 }
