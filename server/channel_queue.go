package server

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Limits of what a client has not read yet.
const (
	queueMax     = 3 * channelRequestsMax // frames; beyond it the client is too slow, and closed. All that it asks for may be granted at once
	queueFull    = 1024                   // frames; beyond it no more requests are read
	renewalsMax  = 1000                   // leases told in one renewed frame
	writeTimeMax = 10 * time.Second       // for the connection to take one batch
)

// outbox is what a channel has to send; guarded by channel.mu.
type outbox struct {
	queue    []frame
	renewals []renewal // sent together, as one frame
	ping     bool
	goodbye  *goodbye // once set, it is sent last and nothing is queued any more
	writing  bool     // a writer is running
	lastSent time.Time
	lastPing time.Time
}

// renewal is one lease in a renewed frame.
type renewal struct {
	ID         string `json:"id"`
	ValidityMS int64  `json:"validity_ms"`
}

// send queues a frame. It never blocks and may be called under locks of the engine.
func (c *channel) send(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked(f)
}

func (c *channel) sendLocked(f frame) {
	if c.out.goodbye != nil {
		return
	}
	if len(c.out.queue) >= queueMax {
		c.closeLocked(closeSlow)
		return
	}
	c.out.queue = append(c.out.queue, f)
	c.writeLocked()
}

// writeLocked starts a writer unless there is one.
func (c *channel) writeLocked() {
	if !c.out.writing {
		c.out.writing = true
		c.server.channels.work.Go(c.write)
	}
}

// waitForSpace holds up the reader while the client does not read its answers. It returns false
// when the connection is to be closed.
func (c *channel) waitForSpace() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out.queue) >= queueFull && c.out.goodbye == nil {
		c.space.Wait()
	}
	return c.out.goodbye == nil
}

// write sends what is queued, and ends when nothing is left.
func (c *channel) write() {
	buf := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(buf)
	for {
		batch, ok := c.batch()
		if !ok {
			return
		}
		if err := c.writeBatch(batch, buf); err != nil {
			c.writeFailed(err)
			return
		}
	}
}

// frameBuffers are what frames are encoded in, and leases in answers of REST.
var frameBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 512)) }}

// batch takes all that is queued. It returns false when there is nothing, and the writer is to end.
func (c *channel) batch() (outbox, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.out
	if len(b.queue) == 0 && len(b.renewals) == 0 && !b.ping && (b.goodbye == nil || b.goodbye.taken) {
		c.out.writing = false
		c.space.Broadcast() // finish waits for the writer
		return b, false
	}
	c.out.queue, c.out.renewals, c.out.ping = nil, nil, false
	if len(b.queue)+len(b.renewals) > 0 {
		c.out.lastSent = time.Now()
	}
	if b.goodbye != nil {
		b.goodbye.taken = true
	}
	c.space.Broadcast()
	return b, true
}

func (c *channel) writeBatch(b outbox, buf *[]byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil {
		return err
	}
	for _, f := range b.queue {
		if err := c.writeFrame(f, buf); err != nil {
			return err
		}
	}
	for len(b.renewals) > 0 {
		n := min(len(b.renewals), renewalsMax)
		if err := c.writeFrame(jsonFrame{renewedFrame{Type: "renewed", Leases: b.renewals[:n]}}, buf); err != nil {
			return err
		}
		b.renewals = b.renewals[n:]
	}
	if b.ping {
		if err := c.conn.WriteMessage(websocket.PingMessage, nil); err != nil {
			return err
		}
	}
	if b.goodbye == nil {
		return nil
	}
	text := websocket.FormatCloseMessage(b.goodbye.code, b.goodbye.reason)
	return c.conn.WriteControl(websocket.CloseMessage, text, time.Now().Add(writeTimeMax))
}

func (c *channel) writeFrame(f frame, buf *[]byte) error {
	*buf = f.appendTo((*buf)[:0])
	c.server.metrics.out.Inc()
	return c.conn.WriteMessage(websocket.TextMessage, *buf)
}

// writeFailed ends a connection that nothing can be written to: the reader notices.
func (c *channel) writeFailed(err error) {
	left := leftBy(err)
	if isTimeout(err) {
		left = closeSlow
	}
	c.mu.Lock()
	if c.out.goodbye == nil {
		c.out.goodbye = &goodbye{closing: left, taken: true}
	}
	c.out.queue, c.out.renewals, c.out.writing = nil, nil, false
	c.space.Broadcast()
	c.mu.Unlock()
	if !errors.Is(err, websocket.ErrCloseSent) { // else the library has said goodbye, to a frame too big or to a close
		_ = c.conn.Close() // it is broken already
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
