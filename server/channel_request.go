package server

import (
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
)

// channelRequest is a request of a channel and the lease that came of it: the engine's Events, which
// come with locks of the engine held. Its life is waiting, held, over; guarded by channel.mu.
type channelRequest struct {
	channel   *channel
	request   *engine.Request // of the reader alone
	ref       string
	semaphore string
	grace     time.Duration // for which its lease lives on when the connection ends
	attaches  bool          // to a lease that there is
	asked     time.Time
	granted   time.Time // zero: it waits
	id        string    // of its lease
	grant     grantOf
	over      bool
	releasing bool // by a release frame of its own channel, which answers for it

	ahead  int         // as the engine told last
	due    time.Time   // before this its client is not told that it waits
	notice *time.Timer // tells it then; nil: nothing is to be told
}

const (
	// waitingAfter is how long a request waits before its client is told so: under load a waiting frame for each request that is
	// granted in a moment would take as much work as the grant.
	waitingAfter = 200 * time.Millisecond
	waitingEvery = time.Second // at most
)

// admit enters a new request, unless the connection has too many.
func (c *channel) admit(r *channelRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live+len(c.busy) >= channelRequestsMax {
		return newProblem(kindClientLimit, "a connection has up to %d leases and waiters", channelRequestsMax)
	}
	if c.requests == nil {
		c.requests, c.leases = map[string]*channelRequest{}, map[string]*channelRequest{}
	}
	c.requests[r.ref] = r
	c.live++
	return nil
}

// begin enters a release or a renewal, and finds the semaphore of its lease. It fails when the
// lease is not of this connection.
func (c *channel) begin(ref, id string) (semaphore string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.leases[id]; r != nil {
		semaphore = r.semaphore
	} else if semaphore = c.ended.get(id); semaphore == "" {
		return "", newProblem(kindUnknownLease, "this connection has no such lease")
	}
	if c.live+len(c.busy) >= 2*channelRequestsMax {
		return "", newProblem(kindClientLimit, "too many releases and renewals are under way")
	}
	if c.busy == nil {
		c.busy = map[string]bool{}
	}
	c.busy[ref] = true
	return semaphore, nil
}

// releases notes that a lease is released by its own channel.
func (c *channel) releases(capability string) {
	id, _, _ := strings.Cut(capability, ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.leases[id]; r != nil {
		r.releasing = true
	}
}

// pending reports whether a request with this ref is not answered yet.
func (c *channel) pending(ref string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.requests[ref]
	for _, w := range c.watches {
		if w.ref == ref {
			return true // it goes on answering
		}
	}
	return c.busy[ref] || r != nil && r.granted.IsZero()
}

// find returns the newest request of a ref that waits or is held.
func (c *channel) find(ref string) *channelRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[ref]
}

// forget drops a request that was cancelled and tells what it was.
func (c *channel) forget(r *channelRequest) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.over:
		return "unknown"
	case r.granted.IsZero():
		r.count(errClientLeft)
		c.endLocked(r)
		return "waiting"
	default:
		c.server.metrics.ended("cancelled", r.granted)
		c.endLocked(r)
		return "granted"
	}
}

// over drops a lease that has ended.
func (c *channel) over(id, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.leases[id]; r != nil {
		c.server.metrics.ended(reason, r.granted)
		c.endLocked(r)
	}
}

func (c *channel) endLocked(r *channelRequest) {
	r.over = true
	r.unnoticeLocked()
	c.live--
	if c.requests[r.ref] == r {
		delete(c.requests, r.ref)
	}
	if r.id != "" {
		delete(c.leases, r.id)
		c.ended.add(r.id, r.semaphore)
	}
}

// takeAllLocked empties the connection and returns what waited and what was held. What is granted from now on has no grace: its
// client does not know of it.
func (c *channel) takeAllLocked() []*channelRequest {
	all := make([]*channelRequest, 0, c.live)
	for _, r := range c.requests {
		if r.granted.IsZero() {
			r.unnoticeLocked()
			r.grace = 0
			all = append(all, r)
		}
	}
	for _, r := range c.leases {
		all = append(all, r)
	}
	c.requests, c.leases = nil, nil
	return all
}

// left counts a request that ended because its connection did.
func (r *channelRequest) left() {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.over: // it ended in between
	case r.granted.IsZero():
		r.count(errClientLeft)
	case r.grace > 0: // it lives on
		c.server.metrics.heldFor(r.granted)
	default:
		c.server.metrics.ended("disconnected", r.granted)
	}
}

// count counts what became of a request for permits.
func (r *channelRequest) count(err error) {
	if !r.attaches {
		r.channel.server.metrics.acquired(r.semaphore, err, time.Since(r.asked))
	}
}

// Waiting tells the place in line, when it is time to.
func (r *channelRequest) Waiting(ahead int) {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	r.ahead = ahead
	if r.due.IsZero() {
		r.due = r.asked.Add(waitingAfter)
	}
	if r.notice == nil {
		r.notice = time.AfterFunc(time.Until(r.due), r.tellWaiting)
	}
}

// tellWaiting tells the place in line if the request still waits, and the client has read what it was told.
func (r *channelRequest) tellWaiting() {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.requests[r.ref] != r || !r.granted.IsZero():
	case len(c.out.queue) >= queueFull/2:
		r.notice.Reset(waitingEvery)
	default:
		r.notice, r.due = nil, time.Now().Add(waitingEvery)
		c.sendLocked(jsonFrame{waitingFrame{Type: "waiting", Ref: r.ref, Ahead: r.ahead}})
	}
}

// unnoticeLocked drops what is still to be told of the waiting.
func (r *channelRequest) unnoticeLocked() {
	if r.notice != nil {
		r.notice.Stop()
	}
}

// Granted tells the lease.
func (r *channelRequest) Granted(l engine.Lease) {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	r.unnoticeLocked()
	r.id, r.granted, r.grant = l.ID, time.Now(), newGrantOf(&l)
	r.count(nil)
	if c.leases != nil { // else the connection is ending, and cancels the request in a moment
		c.leases[r.id] = r
	}
	c.sendLocked(&grantedFrame{r.ref, r.attaches, l})
}

// Refused tells that there was no permit in time.
func (r *channelRequest) Refused(refusal engine.Refusal) { r.Failed(noPermit(refusal)) }

// Failed tells why there will be no lease.
func (r *channelRequest) Failed(err error) {
	c := r.channel
	if !r.attaches { // an attachment is as a renewal
		err = askFailed(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.count(err)
	c.endLocked(r)
	c.sendLocked(refused(r.ref, err))
}

// Renewed tells how long the lease is valid from now on.
func (r *channelRequest) Renewed(validity time.Duration) {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.goodbye == nil {
		c.out.renewals = append(c.out.renewals, renewal{ID: r.id, ValidityMS: validity.Milliseconds()})
		c.writeLocked()
	}
}

// Expiring warns that the lease may end.
func (r *channelRequest) Expiring(validity time.Duration, reason string) {
	r.channel.send(jsonFrame{expiringFrame{Type: "expiring", ID: r.id, ValidityMS: validity.Milliseconds(), Reason: reason}})
}

// Lost tells that the lease is over.
func (r *channelRequest) Lost(reason string) {
	c := r.channel
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason != "released" {
		c.server.lost(r.semaphore, r.id, c.from.Principal, reason, r.grant)
	}
	if r.releasing {
		c.server.metrics.released("released")
	} // else whoever released or broke it has counted that
	c.server.metrics.heldFor(r.granted)
	c.endLocked(r)
	if reason == "moved" {
		c.ended.forget(r.id) // a late release of this connection must not end it elsewhere
	}
	if r.releasing {
		return
	}
	c.sendLocked(jsonFrame{lostFrame{Type: "lost", ID: r.id, Semaphore: r.semaphore, Reason: reason}})
}
