package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
)

// client asks for permits, holds them for a while and gives them back, again and again.
type client struct {
	w      *world
	name   string
	dice   dice
	habits habits
}

// live goes on until the world winds down.
func (c *client) live() {
	for !c.w.winding.Load() && c.w.sleep(c.dice.upTo(c.habits.think)) {
		e := c.w.someEngine(c.dice)
		if e == nil {
			continue
		}
		s := pick(c.dice, c.w.plan.semaphores...)
		t := c.w.ask(e, s.name, c.wish(&s))
		if c.wait(t) {
			c.hold(t)
		}
	}
}

// wish draws what a request asks for.
func (c *client) wish(s *semaphorePlan) engine.Ask {
	h, d := &c.habits, c.dice
	ask := engine.Ask{
		Permits: 1, Wait: pick(d, h.waits...), TTL: pick(d, h.ttls...), Kept: d.chance(h.kept), Holder: engine.HolderInfo{Holder: c.name},
	}
	if h.heavy {
		ask.Permits = 1 + d.IntN(s.def.Limit)
	}
	if d.chance(h.priorities) {
		ask.Priority = d.IntN(2*engine.PriorityMax+1) - engine.PriorityMax
	}
	if d.chance(h.never) {
		ask.TTL = engine.Never
	}
	if s.create || d.chance(0.2) {
		def := s.def
		ask.Create = &def
	}
	return ask
}

// wait waits until the request is decided, or cancels it: while its first claim is under way, at the instant of the grant, or at any
// time. It reports whether the client holds a lease.
func (c *client) wait(t *tale) bool {
	if c.dice.chance(c.habits.cancel) {
		patience := c.dice.upTo(pick(c.dice, time.Nanosecond, 2*c.w.plan.faults.LatencyMax, time.Second, time.Minute))
		select {
		case <-t.heard: // told this very instant
			if c.dice.chance(0.2) {
				t.cancel()
				return false
			}
		case <-time.After(patience):
			t.cancel()
			return false
		case <-c.w.broken:
			return false
		}
	}
	select {
	case <-t.heard:
	case <-c.w.broken:
		return false
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return t.granted != forever
}

// hold uses a lease, in steps, and gives it back in one way or another.
func (c *client) hold(t *tale) {
	for range 1 + c.dice.IntN(4) {
		if !c.use(t) {
			break
		}
		switch {
		case !t.ask.Kept && c.dice.chance(c.habits.renew):
			c.renew(t)
		case c.dice.chance(c.habits.part):
			c.giveBackPart(t)
		}
	}
	c.finish(t)
}

// use lets time pass while the client works, and reports whether it still holds the lease: it stops before its validity ends.
func (c *client) use(t *tale) bool {
	c.w.mu.Lock()
	left := t.until - c.w.now()
	c.w.mu.Unlock()
	work := min(c.dice.upTo(c.habits.hold), left)
	if c.dice.chance(c.habits.late) && left < time.Minute {
		work = left + c.dice.upTo(time.Second)
	}
	timer := time.NewTimer(max(0, work))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ended:
		return false
	case <-c.w.broken:
		return false
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return t.valid()
}

// other returns the replica that the client goes to next, now and then another than the one that granted; nil if there is none.
func (c *client) other(t *tale) *engine.Engine {
	c.w.mu.Lock()
	orphan := t.orphan
	c.w.mu.Unlock()
	if orphan || c.dice.chance(c.habits.foreign) {
		return c.w.someEngine(c.dice)
	}
	return t.engine
}

// doubtful reports whether another replica than its own cannot tell that a lease was granted: it is on slots beyond the limit, and some of
// the nodes only know it from others (RATIONALE.md, "Which valid lease can only its own replica renew?"). w.mu is held.
func (t *tale) doubtful(e *engine.Engine, err error) bool {
	limit := t.w.chosen.latest(t.semaphore).Limit
	return t.w.plan.eras && e != t.engine && errors.Is(err, engine.ErrInProgress) && t.slots.From(limit).Len() > 0
}

// renew asks for a longer validity.
func (c *client) renew(t *tale) {
	e, w := c.other(t), c.w
	if e == nil {
		return
	}
	ttl := pick(c.dice, append(c.habits.ttls, 0)...)
	if t.ask.TTL == engine.Never {
		ttl = 0
	}
	asked := w.now()
	w.called("Renew", func(ctx context.Context) {
		l, err := e.Renew(ctx, t.semaphore, t.lease.Capability, ttl)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.steps++
		switch {
		case err == nil:
			w.violated(cmp.Or(t.checkRenewed(l, ttl), t.checkAge(asked)))
			t.lease.Fence = max(t.lease.Fence, l.Fence) // whoever takes a lease over may raise it
			t.prolonged(asked, l.Validity)
		case t.isOld(err):
		case t.valid() && !w.mayBeAway(e, err, asked) && !t.doubtful(e, err):
			w.violatedf("a valid lease %s of %s was not renewed: %w", t.lease.ID, t.semaphore, err)
		case t.released && errors.Is(err, engine.ErrLeaseReleased), errors.Is(err, engine.ErrLeaseExpired), w.mayBeAway(e, err, asked):
		case errors.Is(err, engine.ErrInProgress): // it has ended here and not yet there
		default:
			w.violatedf("the renewal of lease %s of %s: %w", t.lease.ID, t.semaphore, err)
		}
	})
}

// isOld reports whether err is what is said of a lease that has reached hold_max, and it may have. w.mu is held.
func (t *tale) isOld(err error) bool {
	var invalid *engine.InvalidError
	most := t.w.planned(t.semaphore).def.HoldMax
	return errors.As(err, &invalid) && invalid.Field == "lease" && most > 0 && t.w.now()-t.asked >= most-most/1000-slack
}

// checkAge: no lease is renewed that was older than hold_max already when that was asked for. w.mu is held.
func (t *tale) checkAge(asked time.Duration) error {
	most, age := t.w.planned(t.semaphore).def.HoldMax, asked-t.granted
	if most == 0 || t.lease.TTL == engine.Never || age <= most+most/1000+slack {
		return nil
	}
	return fmt.Errorf("lease %s of %s was renewed at the age of %v; hold_max is %v", t.lease.ID, t.semaphore, age, most)
}

// checkRenewed says what is wrong with a lease as a renewal returns it. w.mu is held.
func (t *tale) checkRenewed(l engine.Lease, ttl time.Duration) error {
	switch {
	case l.ID != t.lease.ID || l.Fence < t.lease.Fence || !l.Slots.Contains(t.slots) || !t.parted && !t.slots.Contains(l.Slots):
		return fmt.Errorf("lease %s of %s, slots %s, fence %d, was renewed as %+v", t.lease.ID, t.semaphore, t.slots, t.lease.Fence, l)
	case t.lease.TTL == engine.Never:
		return nil
	case l.Validity <= 0 || ttl != 0 && l.TTL != ttl:
		return fmt.Errorf("lease %s of %s was renewed with %v as %+v", t.lease.ID, t.semaphore, ttl, l)
	}
	return nil
}
