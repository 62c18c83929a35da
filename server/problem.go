package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

// problem is an error as a client sees it (RFC 9457): a kind that stays the same for programs, and
// a detail for people. The cause, if any, is for the log alone.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"`

	Field        string          `json:"field,omitempty"`
	Limit        *int            `json:"limit,omitempty"`
	Requested    *int            `json:"requested,omitempty"`
	Weight       *int            `json:"weight,omitempty"`
	InUse        *int            `json:"in_use,omitempty"`
	Waiting      *int            `json:"waiting,omitempty"`
	Ahead        *int            `json:"ahead,omitempty"`
	PlaceKeptMS  int64           `json:"place_kept_ms,omitempty"` // for so long the key of the request resumes its place at this replica
	Ticket       string          `json:"ticket,omitempty"`        // resumes its place at any replica, for 10 minutes
	RetryAfterMS *int64          `json:"retry_after_ms,omitempty"`
	Yours        *definitionJSON `json:"yours,omitempty"`
	Existing     *definitionJSON `json:"existing,omitempty"`
	RequestID    string          `json:"request_id,omitempty"`

	Reason string   `json:"reason,omitempty"`  // of denied_by_policy: the policy's
	UsedBy []string `json:"used_by,omitempty"` // of policy_in_use: semaphores
	Stage  string   `json:"stage,omitempty"`   // of invalid_module, with the three below: where it was refused
	Got    string   `json:"got,omitempty"`
	Want   string   `json:"want,omitempty"`
	Hint   string   `json:"hint,omitempty"`

	cause error
}

func (p *problem) Error() string {
	if p.Detail == "" {
		return p.Kind
	}
	return p.Kind + ": " + p.Detail
}

func (p *problem) Unwrap() error { return p.cause }

// headerTicket is the header of a refusal that has the ticket, too.
const headerTicket = "Permitd-Ticket"

// problemsPath is where kinds are listed; a problem's type points into it.
const problemsPath = "/problems"

func newProblem(k kind, format string, args ...any) *problem {
	detail := format
	if len(args) > 0 {
		detail = fmt.Sprintf(format, args...)
	}
	return &problem{Type: problemsPath + "#" + k.name, Title: k.title, Status: k.status, Kind: k.name, Detail: detail}
}

// badRequest is a mistake of the client; field names the parameter, if one can be named.
func badRequest(field, format string, args ...any) *problem {
	p := newProblem(kindBadRequest, format, args...)
	p.Field = field
	return p
}

// sentinels are the errors of policies and of the engine that have a kind of their own and no more to tell.
var sentinels = []struct {
	err  error
	kind kind
}{
	{policies.ErrUnknownPolicy, kindNotFound},
	{policies.ErrUnknownVersion, kindNotFound},
	{policies.ErrRevMismatch, kindRevMismatch},
	{policies.ErrTooManyPolicies, kindTooManyPolicies},
	{policies.ErrUnavailable, kindPolicyUnavailable},
	{policies.ErrClosed, kindDraining},
	{engine.ErrTooLargeValue, kindTooManyPolicies},
	{engine.ErrUnknownSemaphore, kindUnknownSemaphore},
	{engine.ErrNotConfirmed, kindQuorumUnavailable},
	{engine.ErrQuorumUnavailable, kindQuorumUnavailable},
	{engine.ErrDraining, kindDraining},
	{engine.ErrTooManyWaiters, kindTooManyWaiters},
	{engine.ErrTooManySemaphores, kindTooManySemaphores},
	{engine.ErrSuperseded, kindSuperseded},
	{engine.ErrKeyReused, kindKeyReused},
	{engine.ErrBadTicket, kindBadTicket},
	{engine.ErrRevMismatch, kindRevMismatch},
	{engine.ErrSemaphoreInUse, kindSemaphoreInUse},
	{engine.ErrUnknownLease, kindUnknownLease},
	{engine.ErrLeaseExpired, kindLeaseExpired},
	{engine.ErrLeaseReleased, kindLeaseReleased},
	{engine.ErrLeaseBroken, kindLeaseBroken},
	{engine.ErrInProgress, kindQuorumUnavailable},
}

// advice is told behind what the engine says.
var advice = map[kind]string{
	kindUnknownSemaphore: "; declare it (PUT), or ask for a permit with create",
	kindSemaphoreInUse:   "; break=true breaks their leases",
}

// problemOf maps every error to what a client sees of it. What it does not know is internal: its
// text stays in the log.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*engine.WeightError](err); ok {
		p := newProblem(kindWeightExceedsLimit, "%s", e.Error())
		p.Requested, p.Weight, p.Limit = &e.Requested, &e.Weight, &e.Limit
		return p
	}
	if e, ok := errors.AsType[*engine.DefinitionConflict](err); ok {
		p := newProblem(kindDefinitionConflict, "%s", e.Error())
		p.Yours, p.Existing = new(definitionOf(e.Yours)), new(definitionOf(e.Existing))
		return p
	}
	if e, ok := errors.AsType[*engine.DrainingError](err); ok {
		p := newProblem(kindDraining, "%s", e.Error())
		p.Ticket = e.Ticket
		return p
	}
	if e, ok := errors.AsType[*engine.InvalidError](err); ok {
		return badRequest(e.Field, "%s", e.Error())
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return problemOfEcho(e)
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			p := newProblem(s.kind, "%s", s.err.Error()+advice[s.kind])
			p.cause = err
			return p
		}
	}
	p := newProblem(kindInternal, "the log has more under this request_id")
	p.cause = err
	return p
}

// problemOfEcho maps what the router itself says.
func problemOfEcho(e *echo.HTTPError) *problem {
	switch e.Code {
	case http.StatusNotFound:
		return newProblem(kindNotFound, "the path leads nowhere; in a name / is written %s", "%2F")
	case http.StatusMethodNotAllowed:
		return newProblem(kindMethodNotAllowed, "see the Allow header")
	default:
		p := newProblem(kindInternal, "the log has more under this request_id")
		p.cause = e
		return p
	}
}

// noPermit is the problem of a request that was not granted in time.
func noPermit(r engine.Refusal) *problem {
	p := newProblem(kindNoPermit, "%d of %d permits are in use and %d wait", r.InUse, r.Limit, r.Waiting)
	switch {
	case r.InUse > r.Limit:
		p.Detail = fmt.Sprintf("%d permits are in use, and the limit is %d by now: nothing is granted until fewer are; %d wait", r.InUse, r.Limit, r.Waiting)
	case r.Paused:
		p.Detail += "; the semaphore is paused"
	case r.Resting > 0:
		p.Detail += fmt.Sprintf("; nothing is granted for another %s, until leases that the nodes may have forgotten have ended",
			max(time.Second, r.Resting.Round(time.Second)))
	}
	p.Limit, p.InUse, p.Waiting, p.Ahead = &r.Limit, &r.InUse, &r.Waiting, &r.Ahead
	p.PlaceKeptMS, p.Ticket = r.PlaceKept.Milliseconds(), r.Ticket
	p.RetryAfterMS = new(r.RetryAfter.Milliseconds())
	return p
}

// askFailed is the error of a request for permits: where the nodes do not agree on what became of it, it is in progress.
// (A renewal that meets the same has not been confirmed.)
func askFailed(err error) error {
	if !errors.Is(err, engine.ErrInProgress) {
		return err
	}
	p := newProblem(kindInProgress, "%s", engine.ErrInProgress.Error())
	p.cause = err
	return p
}

// invalidDefinition turns what is wrong with a definition into its own kind.
func invalidDefinition(err error) error {
	e, ok := errors.AsType[*engine.InvalidError](err)
	if !ok {
		return err
	}
	p := newProblem(kindInvalidDefinition, "%s", e.Error())
	p.Field = e.Field
	return p
}

// Retry-After in seconds. 0 would be taken as absent by curl; a wide spread keeps the refused from
// coming back all at once.
const (
	retryAfterMin = 1
	retryAfterMax = 30
)

// retryAfter returns the seconds after which to try again, at random from about half the hint to the hint
// and a half; 0 if trying again will not help.
func (p *problem) retryAfter() int {
	switch {
	case p.Status == http.StatusLocked || p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable:
	case p.Kind == kindInProgress.name:
	default:
		return 0
	}
	hint := 2 * time.Second
	if p.RetryAfterMS != nil {
		hint = time.Duration(*p.RetryAfterMS) * time.Millisecond
	}
	hint = min(max(hint, time.Second), retryAfterMax*time.Second)
	jittered := hint/2 + rand.N(hint)
	return min(max(int(jittered.Round(time.Second)/time.Second), retryAfterMin), retryAfterMax)
}

// fail answers a request with a problem: Echo's HTTPErrorHandler.
func (s *Server) fail(err error, c echo.Context) {
	if errors.Is(err, errClientLeft) {
		c.Response().Status = statusClientLeft
		return
	}
	p := problemOf(err)
	h := c.Response().Header()
	if p.Kind == kindInternal.name {
		p.RequestID = requestID(h)
		s.log.Error("request failed", "request_id", p.RequestID, "method", c.Request().Method, "route", c.Path(), "error", p.cause)
	}
	if c.Response().Committed {
		return
	}
	switch p.Kind {
	case kindTooManyConnections.name:
		h.Set("Connection", "close")
	case kindUnauthenticated.name:
		h.Set("WWW-Authenticate", "Bearer")
	}
	if seconds := p.retryAfter(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if p.Ticket != "" { // scripts that want plain text find it here
		h.Set(headerTicket, p.Ticket)
	}
	if wantsText(c.Request()) {
		_ = answer(c, p.Status, textType, []byte(p.Error()+"\n")) // a client that left needs no answer
		return
	}
	body, _ := json.Marshal(p) // of strings and numbers: it cannot fail
	_ = answer(c, p.Status, problemType, append(body, '\n'))
}
