package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// doors is what every request passes: headers of every answer, the doors that are closed to some, and the clock of
// the metrics.
func (s *Server) doors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		r, h := c.Request(), c.Response().Header()
		h["Cache-Control"] = noStore
		h["X-Request-Id"] = []string{s.ids.of(r)}
		s.shareWith(r, h)
		err := s.mayEnter(r)
		switch {
		case err == nil && preflight(r):
			err = c.NoContent(http.StatusNoContent)
		case err == nil:
			err = s.guard(next, c)
		}
		if err != nil {
			s.fail(err, c)
		}
		s.metrics.request(c, time.Since(start))
		if errors.Is(err, errClientLeft) {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// mayEnter refuses requests by what they are sent to and where they come from.
func (s *Server) mayEnter(r *http.Request) error {
	if !s.servesHost(r.Host) {
		return newProblem(kindWrongHost, "this name is not served here; see --allow-host, --tokens and --insecure")
	}
	if s.taken.count.Load() > int64(s.cfg.MaxConnections) && r.URL.Path != channelPath {
		return newProblem(kindTooManyConnections, "more than %d connections are open", s.cfg.MaxConnections)
	}
	return s.checkOrigin(r)
}

// handler serves a request of who.
type handler func(c echo.Context, who *principal) error

// needs lets those in whose token has a scope, and of each principal only so many of a scope at once. Giving back is never held
// up.
func (s *Server) needs(scope string, h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		who, err := s.authenticate(c.Request(), scope)
		if err != nil {
			return err
		}
		if scope != scopeHolder && scope != scopeNone {
			underWay, err := s.busy.enter(asker{who.name, scope}, s.cfg.MaxRequests)
			if err != nil {
				return err
			}
			defer underWay.Add(-1)
		}
		return h(c, who)
	}
}

// guard turns a panic of a handler into a problem. The log has its stack.
func (s *Server) guard(next echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := newProblem(kindInternal, "the log has more under this request_id")
			p.cause = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			err = p
		}
	}()
	return next(c)
}

// requestIDs names requests: random for the process, counted within.
type requestIDs struct {
	prefix string
	last   *atomic.Uint64
}

const (
	requestIDPrefix = 8  // random characters
	requestIDMax    = 64 // of one that a client or a proxy brings
)

func newRequestIDs() requestIDs {
	return requestIDs{strings.ToLower(rand.Text()[:requestIDPrefix]) + "-", new(atomic.Uint64)}
}

// of returns the id that came with a request, or a new one.
func (ids requestIDs) of(r *http.Request) string {
	if given := r.Header["X-Request-Id"]; len(given) == 1 && validRequestID(given[0]) {
		return given[0]
	}
	return ids.prefix + strconv.FormatUint(ids.last.Add(1), 36)
}

func validRequestID(id string) bool {
	return id != "" && len(id) <= requestIDMax && strings.Trim(id, requestIDCharacters) == ""
}

// requestIDCharacters do no harm in a log or a header.
const requestIDCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+="

// requestID returns the id of the request that an answer belongs to.
func requestID(h http.Header) string { return h.Get("X-Request-Id") }

// sameOrigin reports whether an Origin header names the host that the request was sent to. The scheme is left out:
// behind a proxy that ends TLS it differs.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
