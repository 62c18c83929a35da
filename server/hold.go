package server

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// hold answers with a stream of the channel's frames, a line each, and the lease lives as long as the stream: it is released
// when the client leaves, and renewed meanwhile. A request that is refused before it had to wait gets its problem, as an acquire does.
// With grace it lives on for so long after that, to be attached.
// It is a POST: proxies and browsers repeat a GET, and would take a second lease.
//
//	@Summary		Hold permits as long as the answer is read
//	@Description	The lease is renewed meanwhile, and released when the connection ends.
//	@ID				hold
//	@Tags			leases
//	@Param			name			path	string		true	"Name, escaped once; - where ?name= has it"
//	@Param			request			body	holdBody	false	"What is asked for"
//	@Param			Idempotency-Key	header	string		false	"Another way to give key"
//	@Produce		application/x-ndjson,plain
//	@Success		200		{string}	string	"Also of a request that has waited and then is refused, which a frame says. The frames of the lease channel, a line each, at least one every 15 s; in text: granted LEASE, renewed MS, lost REASON"
//	@Failure		403		{object}	problem	"denied_by_policy: reason says why; policy_fault"
//	@Failure		404		{object}	problem	"unknown_semaphore"
//	@Failure		409		{object}	problem	"definition_conflict, superseded, in_progress"
//	@Failure		410		{object}	problem	"lease_released, lease_broken: for a minute, with a key"
//	@Failure		422		{object}	problem	"weight_exceeds_limit, key_reused, bad_ticket"
//	@Failure		423		{object}	problem	"no_permit"
//	@Failure		429		{object}	problem	"too_many_waiters, client_limit, too_many_semaphores"
//	@Failure		default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security		Bearer
//	@Router			/v1/semaphores/{name}/hold [post]
func (s *Server) hold(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	r := c.Request()
	p.idempotencyKey(r.Header)
	grace := p.grace()
	ask, attributes, err := p.ask(s.caller(r, who, "hold"), who, engine.WaitMaxChannel)
	switch {
	case err != nil:
		return err
	case ask.TTL == engine.Never:
		return badRequest("ttl", "ttl must not be 0 here: the lease ends with the connection")
	}
	ask.Kept, ask.Weigh = true, s.weigher(&ask, name, requestID(c.Response().Header()), attributes)
	st := &holdStream{s: s, c: c, who: who, semaphore: name, grace: grace, asked: time.Now(), ready: make(chan struct{}, 1), text: wantsText(r)}
	st.rc = http.NewResponseController(c.Response().Writer)
	if err := st.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errClientLeft // the deadline for the request would end the stream
	}
	request := s.engine.Ask(name, ask, st)
	end := st.run()
	if end != errStreamLeaves {
		request.Leave(grace) // of a lease that is over it does nothing
		st.left()
	}
	if end == errStreamOver || end == errStreamLeaves {
		return nil
	}
	return end
}

// How a stream ends that has begun.
var (
	errStreamOver   = errors.New("the stream is over") // the client has been told why
	errStreamLeaves = errors.New("the server leaves")  // and the lease lives until its TTL
)

// holdStream is the engine's Events of a hold stream. They come with locks of the engine held, and only queue; the handler's
// goroutine writes. What is queued is bounded by the pace of events and by the time that a write may take.
type holdStream struct {
	s         *Server
	c         echo.Context
	rc        *http.ResponseController
	who       *principal
	semaphore string
	grace     time.Duration
	asked     time.Time
	text      bool
	ready     chan struct{} // capacity 1: there is something to write

	begun bool // the answer's header is written; of the handler's goroutine, like last
	last  time.Time

	mu      sync.Mutex // guards what follows
	queue   []streamFrame
	ahead   int       // to be told, if waiting
	waiting time.Time // since when it waits; zero: it does not
	granted time.Time // zero: it holds nothing
	grant   grantOf
	id      string
	err     error // it was refused
	over    bool  // nothing more comes
}

// streamFrame is a frame and how it reads in text/plain.
type streamFrame struct {
	frame
	line string
}

// run writes until the stream ends, and says how.
func (st *holdStream) run() error {
	timer := time.NewTimer(aliveAfter)
	defer timer.Stop()
	var changed <-chan struct{}
	if st.s.cfg.Tokens != nil {
		changed = st.s.cfg.Tokens.changes()
	}
	for {
		timer.Reset(st.pause())
		select {
		case <-st.ready:
		case <-timer.C:
		case <-st.c.Request().Context().Done():
			return errClientLeft
		case <-st.s.leaving:
			return st.leave()
		case <-changed:
			changed = st.s.cfg.Tokens.changes()
			if st.s.cfg.Tokens.withHash(st.who.hash) == nil {
				return st.expel()
			}
		}
		if err := st.step(); err != nil {
			return err
		}
	}
}

// pause is how long nothing needs to be written if nothing happens.
func (st *holdStream) pause() time.Duration {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun {
		if st.waiting.IsZero() {
			return aliveAfter
		}
		return time.Until(st.waiting.Add(waitingAfter))
	}
	return time.Until(st.last.Add(aliveAfter))
}

// step writes what there is to write.
func (st *holdStream) step() error {
	st.mu.Lock()
	queue, err, over := st.queue, st.err, st.over
	waits := !st.begun && !st.waiting.IsZero() && time.Since(st.waiting) >= waitingAfter
	if waits && len(queue) == 0 {
		queue = append(queue, waitingLine(st.ahead))
	}
	st.queue = nil
	st.mu.Unlock()
	switch {
	case err != nil && !st.begun:
		return err
	case err != nil:
		queue = append(queue, streamFrame{refused("", err), "refused " + problemOf(err).Error()})
	case len(queue) == 0 && st.begun && time.Since(st.last) >= aliveAfter:
		queue = append(queue, streamFrame{jsonFrame{plainFrame{Type: "alive"}}, "alive"})
	}
	if len(queue) == 0 {
		return nil
	}
	if err := st.write(queue); err != nil {
		return errClientLeft
	}
	if over {
		return errStreamOver
	}
	return nil
}

// write sends frames, after the header if that was not sent.
func (st *holdStream) write(queue []streamFrame) error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w := st.c.Response()
	if !st.begun {
		st.begun = true
		h := w.Header()
		h.Set("X-Accel-Buffering", "no") // else nginx keeps all of it to the end
		h["Content-Type"] = streamType
		if st.text {
			h["Content-Type"] = textType
		}
		w.WriteHeader(http.StatusOK)
	}
	var b []byte
	for _, f := range queue {
		if st.text {
			b = append(b, f.line...)
		} else {
			b = f.appendTo(b)
		}
		b = append(b, '\n')
	}
	st.last = time.Now()
	if _, err := w.Write(b); err != nil {
		return err
	}
	return st.rc.Flush()
}

var streamType = []string{"application/x-ndjson"}

// leave says that the server stops. The lease has been renewed and lives for its TTL, for its holder to renew over REST.
func (st *holdStream) leave() error {
	if err := st.step(); err != nil {
		return err
	}
	f := newDraining()
	if st.write([]streamFrame{{jsonFrame{f}, "draining " + strconv.FormatInt(f.ReconnectAfterMS, 10)}}) != nil {
		return errClientLeft
	}
	return errStreamLeaves
}

// expel ends the stream of one whose token is gone.
func (st *holdStream) expel() error {
	p := newProblem(kindUnauthenticated, "the token is not valid any more")
	if !st.begun {
		return p
	}
	f := errorFrame{Type: "error", Kind: p.Kind, Detail: p.Detail}
	if st.write([]streamFrame{{jsonFrame{f}, "error " + p.Error()}}) != nil {
		return errClientLeft
	}
	return errStreamOver
}

// left counts a request, or a lease, that ends with its connection.
func (st *holdStream) left() {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.over:
	case st.granted.IsZero():
		st.s.metrics.acquired(st.semaphore, errClientLeft, time.Since(st.asked))
	case st.grace > 0: // it lives on
		st.s.metrics.heldFor(st.granted)
	default:
		st.s.metrics.ended("disconnected", st.granted)
	}
}

// note queues what do returns, and wakes the writer.
func (st *holdStream) note(do func() []streamFrame) {
	st.mu.Lock()
	st.queue = append(st.queue, do()...)
	st.mu.Unlock()
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

func waitingLine(ahead int) streamFrame {
	return streamFrame{jsonFrame{waitingFrame{Type: "waiting", Ahead: ahead}}, "waiting " + strconv.Itoa(ahead)}
}

// Waiting tells the place in line, the first time after a while: most requests wait for a moment only.
func (st *holdStream) Waiting(ahead int) {
	st.note(func() []streamFrame {
		st.ahead = ahead
		if !st.waiting.IsZero() && time.Since(st.waiting) >= waitingAfter {
			return []streamFrame{waitingLine(ahead)}
		}
		if st.waiting.IsZero() {
			st.waiting = time.Now()
		}
		return nil
	})
}

// Granted tells the lease.
func (st *holdStream) Granted(l engine.Lease) {
	st.note(func() []streamFrame {
		st.id, st.granted, st.grant = l.ID, time.Now(), newGrantOf(&l)
		st.s.metrics.acquired(st.semaphore, nil, st.granted.Sub(st.asked))
		return []streamFrame{{&grantedFrame{lease: l}, "granted " + l.Capability}}
	})
}

// Refused tells that there was no permit in time.
func (st *holdStream) Refused(r engine.Refusal) { st.Failed(noPermit(r)) }

// Failed tells why there will be no lease.
func (st *holdStream) Failed(err error) {
	st.note(func() []streamFrame {
		st.err, st.over = askFailed(err), true
		st.s.metrics.acquired(st.semaphore, st.err, 0)
		return nil
	})
}

// Renewed tells how long the lease is valid from now on.
func (st *holdStream) Renewed(validity time.Duration) {
	st.note(func() []streamFrame {
		ms := validity.Milliseconds()
		f := renewedFrame{Type: "renewed", Leases: []renewal{{ID: st.id, ValidityMS: ms}}}
		return []streamFrame{{jsonFrame{f}, "renewed " + strconv.FormatInt(ms, 10)}}
	})
}

// Expiring warns that the lease may end.
func (st *holdStream) Expiring(validity time.Duration, reason string) {
	st.note(func() []streamFrame {
		ms := validity.Milliseconds()
		f := expiringFrame{Type: "expiring", ID: st.id, ValidityMS: ms, Reason: reason}
		return []streamFrame{{jsonFrame{f}, "expiring " + strconv.FormatInt(ms, 10) + " " + reason}}
	})
}

// Lost tells that the lease is over.
func (st *holdStream) Lost(reason string) {
	st.note(func() []streamFrame {
		st.over = true
		if reason != "released" {
			st.s.lost(st.semaphore, st.id, st.who.name, reason, st.grant)
		}
		st.s.metrics.heldFor(st.granted) // whoever released or broke it has counted that
		f := lostFrame{Type: "lost", ID: st.id, Semaphore: st.semaphore, Reason: reason}
		return []streamFrame{{jsonFrame{f}, "lost " + reason}}
	})
}
