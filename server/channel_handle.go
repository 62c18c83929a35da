package server

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/permitd/permitd/engine"
)

// handle serves one frame. It returns false when the connection is to be closed for it.
func (c *channel) handle(text string) bool {
	p := &params{}
	if !p.addJSON(text) {
		if utf8.ValidString(text) && json.Valid([]byte(text)) {
			c.sendError("", "bad_frame", "a frame is a JSON object")
			return true
		}
		c.close(closeNotJSON)
		return false
	}
	ref, ok := p.ref()
	switch {
	case !ok:
		c.sendError("", "bad_frame", "a frame needs a ref of 1 to 64 characters")
	case c.pending(ref):
		c.sendError(ref, "duplicate_ref", "the request with this ref is not answered yet")
	default:
		c.dispatch(p, ref)
	}
	return true
}

// ref takes what ties an answer to its request.
func (p *params) ref() (string, bool) {
	v := p.take("ref")
	if v == nil || !v.json {
		return "", false
	}
	ref, ok := v.string()
	return ref, ok && ref != "" && utf8.RuneCountInString(ref) <= refMax
}

func (c *channel) sendError(ref, kind, detail string) {
	c.send(jsonFrame{errorFrame{Type: "error", Ref: ref, Kind: kind, Detail: detail}})
}

func (c *channel) dispatch(p *params, ref string) {
	var err error
	switch frameType := p.text("type", refMax); {
	case p.err != nil:
		err = p.err
	case frameType == "acquire":
		err = c.acquire(p, ref)
	case frameType == "attach":
		err = c.attach(p, ref)
	case frameType == "release":
		err = c.release(p, ref)
	case frameType == "renew":
		err = c.renew(p, ref)
	case frameType == "cancel":
		err = c.cancel(p, ref)
	case frameType == "watch":
		err = c.watch(p, ref)
	case frameType == "unwatch":
		err = c.unwatch(p, ref)
	case frameType == "ping":
		if err = p.end(); err == nil {
			c.send(jsonFrame{plainFrame{Type: "pong", Ref: ref}})
		}
	default:
		err = badRequest("type", "frames of type %q are not known here", frameType)
	}
	if err != nil {
		c.send(refused(ref, err))
	}
}

// acquire puts a request in line. Its events answer the frame.
func (c *channel) acquire(p *params, ref string) error {
	grace := p.grace()
	semaphore, ask, err := c.readAcquire(p, ref)
	if err != nil {
		return err
	}
	r := &channelRequest{channel: c, ref: ref, semaphore: semaphore, grace: grace, asked: time.Now()}
	if err := c.admit(r); err != nil {
		return err
	}
	r.request = c.server.engine.Ask(semaphore, ask, r)
	return nil
}

// attach takes over a lease that is held elsewhere: over HTTP, by a connection that was lost, through another replica. Whoever had
// it hears that it has moved.
func (c *channel) attach(p *params, ref string) error {
	semaphore, capability, grace := p.text("semaphore", engine.NameMax), p.capability(), p.grace()
	who := c.who.Load()
	if err := firstError(p.end(), checkName("semaphore", semaphore), who.mayUse(semaphore)); err != nil {
		return err
	}
	r := &channelRequest{channel: c, ref: ref, semaphore: semaphore, grace: grace, attaches: true, asked: time.Now()}
	if err := c.admit(r); err != nil {
		return err
	}
	r.request = c.server.engine.Attach(semaphore, capability, r)
	return nil
}

func (c *channel) readAcquire(p *params, ref string) (semaphore string, ask engine.Ask, err error) {
	semaphore = p.text("semaphore", engine.NameMax)
	who := c.who.Load()
	ask, attributes, err := p.ask(c.from, who, engine.WaitMaxChannel)
	if err == nil {
		err = checkName("semaphore", semaphore)
	}
	if err == nil {
		err = firstError(who.may(scopeLease), who.mayUse(semaphore))
	}
	if err == nil && ask.TTL == engine.Never {
		err = badRequest("ttl", "ttl must not be 0 over the channel: a lease ends with its connection")
	}
	ask.Kept, ask.Weigh = true, c.server.weigher(&ask, semaphore, ref, attributes)
	return semaphore, ask, err
}

// release gives back a lease of this connection, or a part of it.
func (c *channel) release(p *params, ref string) error {
	capability, keep := p.capability(), p.integer("keep", 0, 0, engine.WeightMax)
	if err := p.end(); err != nil {
		return err
	}
	if keep == 0 {
		c.releases(capability)
	}
	return c.later(ref, capability, func(semaphore string) (frame, error) {
		released, err := c.server.engine.ReleaseOwn(context.Background(), semaphore, capability, keep)
		if err != nil {
			return nil, err
		}
		if !released.Held {
			c.over(released.ID, "released")
		}
		return &releasedFrame{ref, released}, nil
	})
}

// renew lengthens a lease of this connection at once, and to another TTL if one is named.
func (c *channel) renew(p *params, ref string) error {
	capability, ttl := p.capability(), p.ttl()
	if err := p.end(); err != nil {
		return err
	}
	if ttl == engine.Never {
		return badRequest("ttl", "ttl must not be 0 over the channel: a lease ends with its connection")
	}
	return c.later(ref, capability, func(semaphore string) (frame, error) {
		lease, err := c.server.engine.Renew(context.Background(), semaphore, capability, ttl)
		if err != nil {
			return nil, err
		}
		leases := []renewal{{ID: lease.ID, ValidityMS: lease.Validity.Milliseconds()}}
		return jsonFrame{renewedFrame{Type: "renewed", Ref: ref, Leases: leases}}, nil
	})
}

// later does what waits for the nodes in a goroutine of its own, so that the reader can go on.
func (c *channel) later(ref, capability string, do func(semaphore string) (frame, error)) error {
	id, _, _ := strings.Cut(capability, ".")
	semaphore, err := c.begin(ref, id)
	if err != nil {
		return err
	}
	c.server.channels.work.Go(func() {
		answer, err := do(semaphore)
		if err != nil {
			answer = refused(ref, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, ref)
		c.sendLocked(answer)
	})
	return nil
}

// cancel ends a request, wherever it is: after the answer the client holds nothing of it.
func (c *channel) cancel(p *params, ref string) error {
	of := p.text("of", 4*refMax)
	if err := p.end(); err != nil {
		return err
	}
	was := "unknown"
	if r := c.find(of); r != nil {
		r.request.Cancel()
		was = c.forget(r)
	}
	c.send(jsonFrame{cancelledFrame{Type: "cancelled", Ref: ref, Of: of, Was: was}})
	return nil
}
