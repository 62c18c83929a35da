package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of what names a request.
const (
	KeyMax       = 128              // characters of a key
	PlaceKept    = 15 * time.Second // how long a place in line is kept for whoever asks again with its key
	TicketValid  = 10 * time.Minute // how long a ticket resumes a place
	awayMax      = 100_000          // places kept for those who are away, of one semaphore; beyond it none is kept
	keyReusedFor = time.Minute      // how long after its release a key says how its lease ended
)

// Errors of asking again.
var (
	ErrSuperseded = errors.New("the same request was made again, and waits in place of this one")
	ErrKeyReused  = errors.New("the key was used for a request with other parameters")
	ErrBadTicket  = errors.New("the ticket is not one of this request, or older than 10 minutes")
)

// ValidKey reports why a key cannot be one: 1 to KeyMax of A-Z a-z 0-9 . _ ~ -.
func ValidKey(key string) error {
	wrong := len(key) == 0 || len(key) > KeyMax || strings.ContainsFunc(key, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._~-", c))
	})
	if wrong {
		return &InvalidError{Field: "key", Detail: fmt.Sprintf("must be 1 to %d of A-Z a-z 0-9 . _ ~ -", KeyMax)}
	}
	return nil
}

// keyedID is the id of the lease that a request with this key gets, on every replica the same.
func keyedID(secret []byte, principal, semaphore, key string) string {
	h := hmac.New(sha256.New, secret)
	for _, part := range []string{"key", principal, semaphore, key} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return idEncoding.EncodeToString(h.Sum(nil)[:10])
}

// params tells requests with other parameters apart. How long one waits may differ from time to time. mu is held.
func (s *semaphore) params(a *Ask) uint32 {
	var room [256]byte
	b := strconv.AppendInt(room[:0], int64(a.Permits), 10)
	b = strconv.AppendBool(append(b, ' '), a.AllFree)
	b = strconv.AppendInt(append(b, ' '), int64(a.TTL), 10)
	b = strconv.AppendInt(append(b, ' '), int64(a.Priority), 10)
	if a.Digest != 0 {
		b = strconv.AppendUint(append(b, " digest "...), a.Digest, 10)
	}
	if a.Create != nil {
		b = append(append(b, ' '), s.createText(a.Create.filled())...)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint32(sum[:])
}

// createText tells definitions apart. It remembers the last, as most requests bring the same. mu is held.
func (s *semaphore) createText(d Definition) string {
	if s.created.text == "" || s.created.of != d {
		s.created.of, s.created.text = d, fmt.Sprintf("%+v", d)
	}
	return s.created.text
}

// kept is a place in line whose owner is away.
type kept struct {
	order  Order // zero: it was not in line yet
	word   Weighed
	judged bool     // a policy was asked, or need not be
	asked  *Request // its policy is still being asked, for this one
	since  time.Duration
	params uint32
	until  time.Duration
	info   WaiterInfo // but for Waiting
}

// keyed reports whether the request may be made again.
func (r *Request) keyed() bool { return r.ask.Key != "" || r.ask.Ticket != "" }

// identify gives a request with a key the id of its lease, and one with a ticket its old place, too; others keep a new id. mu is held.
func (r *Request) identify() error {
	r.params = r.s.params(&r.ask)
	if !r.keyed() {
		return nil
	}
	r.asked = r.s.e.arrival()
	if r.ask.Key != "" {
		if err := ValidKey(r.ask.Key); err != nil {
			return err
		}
		r.id = keyedID(r.s.e.secretKey(), r.ask.Holder.Principal, r.s.name, r.ask.Key)
	}
	if r.ask.Ticket == "" {
		return nil
	}
	t, ok := r.s.e.openTicket(r.s.name, r.ask.Ticket)
	switch {
	case !ok || r.ask.Key != "" && t.id != r.id:
		return ErrBadTicket
	case t.params != r.params:
		return ErrKeyReused
	}
	r.id, r.order.Arrival, r.resumes = t.id, t.arrival, t.arrival != 0
	if r.resumes {
		r.obeys(t.word)
	}
	r.since -= time.Duration(max(0, r.asked-t.since)) * time.Microsecond
	return nil
}

// again lets a request in that may have been made before: it takes the place of one that waits, or finds out what became of the
// first. mu is held.
func (s *semaphore) again(r *Request) {
	if old := s.named[r.id]; old != nil {
		if old.params != r.params {
			r.fail(ErrKeyReused)
			return
		}
		if s.supersede(old, r); r.phase == waiting || r.phase == weighing {
			return
		}
	}
	if p, ok := s.away[r.id]; ok && s.e.cfg.Now() < p.until {
		if p.params != r.params {
			r.fail(ErrKeyReused)
			return
		}
		r.standsWhere(p.order, p.since, p.word, p.judged)
		if p.asked != nil {
			s.inherits(r, p.asked)
			return
		}
	}
	delete(s.away, r.id)
	s.named[r.id] = r
	s.seek(r)
}

// standsWhere gives a request the place of the same request before it, and what its policy said of that.
func (r *Request) standsWhere(order Order, since time.Duration, word Weighed, judged bool) {
	if order.Arrival != 0 {
		r.order, r.since, r.resumes = order, since, true
	}
	r.judged = r.judged || judged
	r.obeys(word)
}

// inherits lets r have what is found of old, which is being weighed: it is the same request, and is weighed once. mu is held.
func (s *semaphore) inherits(r, old *Request) {
	delete(s.away, r.id)
	s.named[r.id] = r
	r.phase, r.sizes = weighing, old.sizes
	old.heir = r
}

// supersede lets r stand where old does, if that is in line; old hears so. A claim under way goes on for r. mu is held.
func (s *semaphore) supersede(old, r *Request) {
	r.standsWhere(old.order, old.since, old.word, old.judged)
	if old.phase == weighing {
		s.inherits(r, old)
	}
	if s.line.has(old) {
		r.ttl, r.weight, r.ask.Permits, r.sizes, r.phase = old.ttl, old.weight, old.ask.Permits, old.sizes, waiting
		a, claims := old.attempt, s.line.claimsFor(old)
		s.line.leave(old)
		s.line.enter(r)
		switch {
		case a != nil:
			s.line.claims(r)
			old.attempt, r.attempt, a.r = nil, a, r
		case claims: // between two attempts
			s.line.claims(r)
			s.claimLater(r)
		}
	}
	old.fail(ErrSuperseded)
	if r.phase != waiting {
		return
	}
	s.named[r.id] = r
	if now := s.e.cfg.Now(); now < r.deadline || !s.line.claimsFor(r) {
		s.waits(r, now)
	}
	s.settled()
}

// keepWord has a kept place know what the policy said, if it was still asked when the place was left. A refusal is not kept: whoever
// comes again is a new request then, as after every refusal. mu is held.
func (s *semaphore) keepWord(r *Request, word Weighed, err error) {
	p, ok := s.away[r.id]
	switch {
	case !ok || p.asked != r:
		return
	case err != nil:
		delete(s.away, r.id)
		return
	}
	p.word, p.judged, p.asked = word, true, nil
	s.away[r.id] = p
}

// keepPlace keeps the place of a request that ends without a lease, for whoever asks again with its key, and reports whether it
// does. mu is held.
func (s *semaphore) keepPlace(r *Request) bool {
	return r.order.Arrival != 0 && s.keep(r, nil)
}

// keep is keepPlace of a request wherever it stood; asked is itself if its policy is still being asked. mu is held.
func (s *semaphore) keep(r, asked *Request) bool {
	keeps := r.ask.Key != "" && (r.ask.Wait > 0 || r.resumes) && len(s.away) < awayMax
	if keeps {
		s.touched = s.e.cfg.Now() // it is not forgotten before
		s.away[r.id] = kept{
			order: r.order, word: r.word, judged: r.judged, asked: asked, since: r.since, params: r.params,
			until: s.e.cfg.Now() + PlaceKept, info: r.waiter(),
		}
	}
	return keeps
}

// forgetAway drops the places that were kept long enough. mu is held.
func (s *semaphore) forgetAway(now time.Duration) {
	for id, p := range s.away {
		if now >= p.until {
			delete(s.away, id)
		}
	}
}
