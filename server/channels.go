package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// channels are the open lease channels.
type channels struct {
	work sync.WaitGroup // upgrades, readers and writers, releases and renewals

	mu     sync.Mutex // guards what follows
	open   map[*channel]bool
	closed bool // by drain: none is opened any more
}

// enter announces a channel to come, so that drain waits for it. It returns false when there is none to come any more. leave
// takes it back; start goes on.
func (cs *channels) enter() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.closed {
		cs.work.Add(1)
	}
	return !cs.closed
}

func (cs *channels) leave() { cs.work.Done() }

// start begins to serve a connection that was announced, or turns it away at once.
func (cs *channels) start(c *channel, refused *closing) {
	cs.mu.Lock()
	if cs.open == nil {
		cs.open = map[*channel]bool{}
	}
	cs.open[c] = true
	closed := cs.closed
	cs.mu.Unlock()
	c.server.metrics.channels.Inc()
	c.mu.Lock()
	now := time.Now()
	c.out.lastSent, c.out.lastPing = now, now
	c.timer = time.AfterFunc(pingEvery, c.tick)
	switch {
	case closed:
		c.closeLocked(closeRestart)
	case refused != nil:
		c.closeLocked(*refused)
	}
	c.mu.Unlock()
	if tokens := c.server.cfg.Tokens; tokens != nil {
		c.authenticate(tokens) // they may have changed before it was listed
	}
	go func() {
		defer cs.leave()
		c.read()
	}()
}

// followTokens ends the channels whose tokens are gone, and lets the others do what theirs allow now, until the server stops.
func (s *Server) followTokens() {
	for changed := s.cfg.Tokens.changes(); ; {
		select {
		case <-changed:
		case <-s.stopped:
			return
		}
		changed = s.cfg.Tokens.changes()
		s.events.add(event{Type: eventTokens})
		for _, c := range s.channels.list(false) {
			c.authenticate(s.cfg.Tokens)
		}
	}
}

// authenticate looks anew what the token of the channel allows.
func (c *channel) authenticate(tokens *Tokens) {
	if who := tokens.withHash(c.who.Load().hash); who != nil {
		c.who.Store(who)
	} else {
		c.close(closeUnauthenticated)
	}
}

func (cs *channels) remove(c *channel) {
	cs.mu.Lock()
	delete(cs.open, c)
	cs.mu.Unlock()
	c.server.metrics.channels.Dec()
}

// list ends the opening of channels if last, and returns those that are open.
func (cs *channels) list(last bool) []*channel {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = cs.closed || last
	list := make([]*channel, 0, len(cs.open))
	for c := range cs.open {
		list = append(list, c)
	}
	return list
}

// drain says goodbye to all and waits for them; when ctx ends first, it cuts the connections.
func (cs *channels) drain(ctx context.Context) {
	for _, c := range cs.list(true) {
		c.mu.Lock()
		c.sendLocked(jsonFrame{newDraining()})
		c.closeLocked(closeRestart)
		c.mu.Unlock()
	}
	done := make(chan struct{})
	go func() {
		cs.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	for _, c := range cs.list(false) {
		_ = c.conn.Close() // in anger
	}
	<-done
}

// When clients are asked to come back after a restart: spread out, or they would all come at once.
const (
	reconnectMin    = 500 * time.Millisecond
	reconnectSpread = 2 * time.Second
)

func newDraining() drainingFrame {
	return drainingFrame{Type: "draining", ReconnectAfterMS: (reconnectMin + rand.N(reconnectSpread)).Milliseconds()}
}

// tick sends a ping when one is due, and an alive frame after a silence: page code cannot see pings.
func (c *channel) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.goodbye != nil {
		return
	}
	now := time.Now()
	if now.Sub(c.out.lastPing) >= pingEvery {
		c.out.lastPing, c.out.ping = now, true
		c.writeLocked()
	}
	if now.Sub(c.out.lastSent) >= aliveAfter {
		c.out.lastSent = now
		c.sendLocked(jsonFrame{plainFrame{Type: "alive"}})
	}
	next := min(c.out.lastPing.Add(pingEvery).Sub(now), c.out.lastSent.Add(aliveAfter).Sub(now))
	c.timer.Reset(next)
}
