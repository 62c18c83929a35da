package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// errClientLeft answers nobody: the connection is aborted, since net/http would send an empty 200 to
// a client that has only closed its sending half.
var errClientLeft = errors.New("the client left")

// statusClientLeft is what metrics count such a request under; nginx made the number a habit.
const statusClientLeft = 499

// acquire answers 200 exactly if the lease is held. A client that leaves while it waits is taken out
// of the line, where its place is kept for a while if the request has a key; a grant that can not be written to it is given
// back. (What was written and never read
// ends with its TTL: over plain HTTP nobody can see that. Over the channel it ends at once.)
//
//	@Summary		Take permits
//	@Description	A client that leaves while it waits is taken out of the line; a grant that cannot be written to it is given back.
//	@Description	A request with a key is the same request when it is made again: it keeps its place in line for 15 s while nobody
//	@Description	asks, and is answered with the same lease while that is held. The lease string of a key is always the same: take a
//	@Description	new key for each run, or a late release acts on what the key holds by then. A ticket resumes the place at any replica.
//	@ID				acquire
//	@Tags			leases
//	@Param			name			path	string		true	"Name, escaped once; - where ?name= has it"
//	@Param			request			body	acquireBody	false	"What is asked for"
//	@Param			Idempotency-Key	header	string		false	"Another way to give key"
//	@Produce		json,plain
//	@Success		200		{object}	leaseAnswer	"It is held; in text the lease alone"
//	@Failure		403		{object}	problem		"denied_by_policy: reason says why; policy_fault"
//	@Failure		404		{object}	problem		"unknown_semaphore"
//	@Failure		409		{object}	problem		"definition_conflict, superseded, in_progress"
//	@Failure		410		{object}	problem		"lease_released, lease_broken: for a minute, with a key"
//	@Failure		422		{object}	problem		"weight_exceeds_limit, key_reused, bad_ticket"
//	@Failure		423		{object}	problem		"no_permit"
//	@Failure		429		{object}	problem		"too_many_waiters, client_limit, too_many_semaphores"
//	@Failure		default	{object}	problem		"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security		Bearer
//	@Router			/v1/semaphores/{name}/acquire [post]
func (s *Server) acquire(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	r := c.Request()
	p.idempotencyKey(r.Header)
	ask, attributes, err := p.ask(s.caller(r, who, "http"), who, engine.WaitMax)
	if err != nil {
		return err
	}
	ask.Weigh = s.weigher(&ask, name, requestID(c.Response().Header()), attributes)
	if err := http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errClientLeft // the deadline for the request would end the wait
	}
	a, start := newArrival(), time.Now()
	request := s.engine.Ask(name, ask, a)
	select {
	case <-a.done:
	case <-r.Context().Done():
		request.Cancel()
		a.err = errClientLeft
	}
	s.metrics.acquired(name, a.err, time.Since(start))
	if a.err != nil {
		return a.err
	}
	if err := answerLease(c, &a.lease); err != nil {
		request.Cancel()
		s.metrics.released("given_back")
		return errClientLeft
	}
	return nil
}

// arrival is a request that somebody waits for: what the engine tells of it up to its verdict.
type arrival struct {
	done  chan struct{} // closed with the verdict
	lease engine.Lease
	err   error // not nil: nothing is held
}

func newArrival() *arrival { return &arrival{done: make(chan struct{})} }

func (a *arrival) Granted(l engine.Lease) {
	a.lease = l
	close(a.done)
}

func (a *arrival) Refused(r engine.Refusal) { a.Failed(noPermit(r)) }

func (a *arrival) Failed(err error) {
	a.err = askFailed(err)
	close(a.done)
}

// Over plain HTTP nobody hears how the line moves, nor what becomes of the lease after the answer.

func (a *arrival) Waiting(int)                    {}
func (a *arrival) Renewed(time.Duration)          {}
func (a *arrival) Expiring(time.Duration, string) {}
func (a *arrival) Lost(string)                    {}

// caller says who asks, for people.
func (s *Server) caller(r *http.Request, who *principal, via string) engine.HolderInfo {
	return engine.HolderInfo{Principal: who.name, Address: s.clientAddress(r), Via: via}
}
