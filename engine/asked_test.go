package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

// asked is a request, and what it was told. Its methods look when the bubble has come to rest.
type asked struct {
	*engine.Request
	t     *testing.T
	start time.Time

	mu      sync.Mutex // guards what follows
	told    []string   // all events, in order
	ahead   int
	lease   *engine.Lease
	at      time.Duration // from the asking to the last of granted, refused, failed, lost
	refusal *engine.Refusal
	err     error
	lost    string
	renewed time.Duration
}

func (a *asked) note(what string, more func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, what)
	more()
}

// ends is note of an event that changes what the request holds.
func (a *asked) ends(what string, more func()) {
	a.note(what, func() {
		a.at = time.Since(a.start)
		more()
	})
}

func (a *asked) Waiting(ahead int) {
	a.note(fmt.Sprintf("waiting %d", ahead), func() { a.ahead = ahead })
}
func (a *asked) Granted(l engine.Lease)   { a.ends("granted", func() { a.lease = &l }) }
func (a *asked) Refused(r engine.Refusal) { a.ends("refused", func() { a.refusal = &r }) }
func (a *asked) Failed(err error)         { a.ends("failed", func() { a.err = err }) }
func (a *asked) Lost(reason string)       { a.ends("lost "+reason, func() { a.lost = reason }) }

func (a *asked) Renewed(v time.Duration) { a.note("renewed", func() { a.renewed = v }) }

func (a *asked) Expiring(_ time.Duration, reason string) { a.note("expiring "+reason, func() {}) }

// look is what a request was told by now.
type look struct {
	told    string // the events, parted by "; "
	ahead   int
	lease   *engine.Lease
	at      time.Duration
	refusal *engine.Refusal
	err     error
	lost    string
	renewed time.Duration
}

func (a *asked) look() look {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return look{strings.Join(a.told, "; "), a.ahead, a.lease, a.at, a.refusal, a.err, a.lost, a.renewed}
}

// holds reports whether the request has a lease.
func (l look) holds() bool { return l.lease != nil && l.lost == "" }

// mustHold fails the test unless the request was granted.
func (a *asked) mustHold() engine.Lease {
	a.t.Helper()
	l := a.look()
	if !l.holds() {
		a.t.Fatalf("the request holds nothing; it was told: %s; %+v %v", l.told, l.refusal, l.err)
	}
	return *l.lease
}

// mustNotHold fails the test if the request was granted; it may have come to any other end.
func (a *asked) mustNotHold() {
	a.t.Helper()
	if l := a.look(); l.lease != nil {
		a.t.Fatalf("the request was granted %+v", *l.lease)
	}
}

// mustWait fails the test unless the request is in line, or claims.
func (a *asked) mustWait() {
	a.t.Helper()
	if l := a.look(); l.lease != nil || l.refusal != nil || l.err != nil {
		a.t.Fatalf("the request does not wait; it was told: %s; %+v %v %v", l.told, l.lease, l.refusal, l.err)
	}
}

// mustBeRefused fails the test unless the request was refused.
func (a *asked) mustBeRefused() engine.Refusal {
	a.t.Helper()
	l := a.look()
	if l.refusal == nil {
		a.t.Fatalf("the request was not refused; it was told: %s; %+v %v", l.told, l.lease, l.err)
	}
	return *l.refusal
}

// mustBeLost fails the test unless the request was told that its lease is lost, for this reason.
func (a *asked) mustBeLost(reason string) {
	a.t.Helper()
	if l := a.look(); l.lost != reason {
		a.t.Fatalf("the request was told: %s; want lost %s", l.told, reason)
	}
}
