package server

import (
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

// closing is a way in which a channel ends. All but closeRestart give back what it holds.
type closing struct {
	code   int
	reason string // up to 123 bytes
}

// The ways. The first two hold reasons that the client should mend, the others let it come back.
var (
	closeTooBig          = closing{websocket.CloseMessageTooBig, "a frame has up to 32768 bytes"}
	closeNotJSON         = closing{4400, "frames are JSON objects in text messages"}
	closeRestart         = closing{websocket.CloseServiceRestart, "restarting; leases live on until their TTL ends"}
	closeOverloaded      = closing{websocket.CloseTryAgainLater, "too many connections are open; come back in 1 to 5 seconds"}
	closeUnauthenticated = closing{4401, "a token is needed, or this one is not valid any more"}
	closeTooMany         = closing{4429, "too many frames in a second; come back in 1 to 5 seconds"}
	closeSilent          = closing{4408, "nothing was heard, not even a pong"}
	closeSlow            = closing{4408, "answers were not read in time"}
)

// goodbye is a closing that has been decided.
type goodbye struct {
	closing
	taken bool // by the writer; or there is nobody to write to
}

// close decides that the connection ends, tells the client why, and wakes the reader, which tidies up. Only the
// first call counts.
func (c *channel) close(how closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(how)
}

func (c *channel) closeLocked(how closing) {
	if c.out.goodbye != nil {
		return
	}
	c.out.goodbye = &goodbye{closing: how, taken: how.left()}
	c.space.Broadcast()
	if !c.out.goodbye.taken {
		c.writeLocked()
	}
	_ = c.conn.SetReadDeadline(time.Now()) // on a closed connection there is no reader to wake
}

// leftBy is the closing of a connection that the other side has ended, by its close frame or without one.
func leftBy(err error) closing {
	if e, ok := errors.AsType[*websocket.CloseError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		return closing{code: e.Code}
	}
	return closing{code: websocket.CloseAbnormalClosure}
}

// label is the code in metrics. Clients can send any code; those that mean nothing here are one.
func (how closing) label() string {
	switch how.code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
	default:
		if how.left() {
			return "other"
		}
	}
	return strconv.Itoa(how.code)
}

// left reports whether there is nobody to tell.
func (how closing) left() bool { return how.reason == "" }

// finish is the end of the reader: it gives back what the connection holds, and lets the client read
// why it was closed, which data left unread at our end would prevent.
func (c *channel) finish() {
	how := c.settle()
	if !how.left() {
		c.linger()
	}
	_ = c.conn.Close() // nothing can be done about it
	c.server.metrics.closes.WithLabelValues(how.label()).Inc()
	c.server.channels.remove(c)
}

// settle waits for the writer and cancels all requests, unless the leases are to live on.
func (c *channel) settle() closing {
	c.mu.Lock()
	if c.out.goodbye == nil { // stayAlive found the connection broken
		c.closeLocked(closing{code: websocket.CloseAbnormalClosure})
	}
	how := c.out.goodbye.closing
	requests := c.takeAllLocked()
	c.timer.Stop()
	c.mu.Unlock()
	if how.left() {
		_ = c.conn.Close() // a writer that is under way ends
	}
	c.unwatchAll()
	if how != closeRestart {
		for _, r := range requests {
			r.request.Leave(r.grace)
			r.left()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.writing {
		c.space.Wait()
	}
	return how
}

// linger reads on for a moment, so that the connection is not reset before the client has seen the close frame.
func (c *channel) linger() {
	conn := c.conn.NetConn()
	if conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, conn) // until the client closes, or the deadline
	}
}
