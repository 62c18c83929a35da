package engine

import "time"

// Attach takes a lease over by its capability, from whoever has it: another replica, another connection, a client over HTTP. events
// hears Granted with what is left of it, and from then on what a request with Ask.Kept hears; who had it hears that it moved.
// Failed: ErrUnknownLease, ErrLeaseExpired, ErrLeaseReleased, ErrLeaseBroken, ErrInProgress, ErrQuorumUnavailable, ErrDraining.
func (e *Engine) Attach(name, capability string, events Events) *Request {
	r := &Request{ask: Ask{Permits: 1, Kept: true}, events: events, start: -1, told: -1, attaches: true}
	s := e.semaphore(name)
	defer s.unlock()
	r.s = s
	id, err := e.openCapability(name, capability)
	switch {
	case e.draining.Load():
		r.fail(ErrDraining)
	case err != nil:
		r.fail(err)
	default:
		r.id = id
		s.seek(r)
	}
	return r
}

// Leave ends what a request tells: its holder is gone. A lease is renewed for grace, within which it can be attached, and then
// given back; without one it is as Cancel.
func (r *Request) Leave(grace time.Duration) {
	held := false
	r.s.locked(func() {
		if held = r.phase == holding && grace > 0; held {
			r.events = silent{}
			r.timer = time.AfterFunc(grace, r.Cancel)
		}
	})
	if !held {
		r.Cancel()
	}
}

// silent hears nothing.
type silent struct{}

func (silent) Waiting(int)                    {}
func (silent) Granted(Lease)                  {}
func (silent) Refused(Refusal)                {}
func (silent) Failed(error)                   {}
func (silent) Renewed(time.Duration)          {}
func (silent) Expiring(time.Duration, string) {}
func (silent) Lost(string)                    {}
