package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// The lease channel, and its limits.
const (
	channelPath     = "/v1/ws"
	channelProtocol = "permitd.v1"

	frameMax           = 32 << 10 // bytes of a frame from a client
	channelRequestsMax = 10_000   // leases, waiters and answers under way of a channel
	framesPerSecond    = 20_000   // from a client
	refMax             = 64       // characters

	pingEvery   = 10 * time.Second
	silenceMax  = 25 * time.Second // without a pong or a frame from the client
	aliveAfter  = 15 * time.Second // without a frame to the client
	lingerTime  = time.Second      // for a client to read why it was closed
	openTimeMax = 10 * time.Second // for the answer to the upgrade

	// Small buffers: most channels are idle holders, and frames are short.
	readBufferSize  = 512
	writeBufferSize = 1 << 10
)

var upgrader = websocket.Upgrader{
	HandshakeTimeout: openTimeMax,
	ReadBufferSize:   readBufferSize,
	WriteBufferSize:  writeBufferSize,
	WriteBufferPool:  &sync.Pool{},
	Subprotocols:     []string{channelProtocol},
	CheckOrigin:      func(*http.Request) bool { return true }, // openChannel has checked
	Error:            func(http.ResponseWriter, *http.Request, int, error) {},
}

// channel is one connection: what it asked for, what it holds, and what it is still to be told.
//
// One goroutine reads and calls the engine; another writes while something is queued. Both end with the
// connection, and server.channels waits for them. Events of the engine take mu last and only queue.
type channel struct {
	server *Server
	conn   *websocket.Conn
	who    atomic.Pointer[principal] // changed when the tokens are
	from   engine.HolderInfo
	timer  *time.Timer // ticks for pings and alive frames
	pace   pace        // of the reader

	mu       sync.Mutex
	space    sync.Cond                  // the queue got shorter
	requests map[string]*channelRequest // by ref: the newest of a ref; waiting or held
	leases   map[string]*channelRequest // by lease id
	busy     map[string]bool            // refs of releases and renewals under way
	ended    recent                     // leases of this channel that are over
	watches  map[string]*watch          // by topic
	live     int                        // requests that wait or hold
	out      outbox
}

// openChannel upgrades a request and returns: the HTTP server's goroutine and buffers are not kept
// for the life of the connection, which would double what an idle holder costs.
//
//	@Summary		The lease channel, over WebSocket
//	@Description	Its frames are in /channel.schema.json.
//	@ID				channel
//	@Tags			leases
//	@Produce		json
//	@Success		101		"The upgrade; subprotocol permitd.v1. A token may travel as subprotocol permitd.token.BASE64URL"
//	@Failure		default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security		Bearer
//	@Router			/v1/ws [get]
func (s *Server) openChannel(c echo.Context) error {
	r := c.Request()
	token, offered := channelToken(r)
	if err := s.mayOpen(r, offered); err != nil {
		return err
	}
	if !s.channels.enter() {
		return engine.ErrDraining
	}
	conn, err := upgrader.Upgrade(c.Response(), r, nil)
	if err != nil {
		s.channels.leave()
		if _, refused := errors.AsType[websocket.HandshakeError](err); refused {
			return badRequest("", "%s", err.Error())
		}
		return errClientLeft
	}
	c.Response().Status, c.Response().Committed = http.StatusSwitchingProtocols, true
	who := everyone
	if s.cfg.Tokens != nil {
		who = s.cfg.Tokens.of(token)
	}
	var refused *closing
	switch {
	case s.taken.count.Load() > int64(s.cfg.MaxConnections):
		refused = &closeOverloaded
	case who == nil:
		refused = &closeUnauthenticated
	}
	if who == nil {
		who = nobody
	}
	ch := &channel{server: s, conn: conn, from: s.caller(r, who, viaChannel)}
	ch.who.Store(who)
	ch.space.L = &ch.mu
	s.channels.start(ch, refused)
	return nil
}

// mayOpen refuses what a page or a program must not open; offered are its subprotocols but for that of the token, with which a
// browser needs another one that the server can choose.
func (s *Server) mayOpen(r *http.Request, offered []string) error {
	if err := s.mayOpenFrom(r); err != nil {
		return err
	}
	if len(websocket.Subprotocols(r)) > 0 && !slices.Contains(offered, channelProtocol) {
		return badRequest("Sec-WebSocket-Protocol", "the only subprotocol here is %s", channelProtocol)
	}
	return nil
}

// read serves frames until the connection ends, and then gives back what it holds. While it waits for a frame its stack is
// shallow: the runtime halves a stack that is used to less than a quarter, and 4 KB are what an idle holder's should be.
func (c *channel) read() {
	c.greet()
	for c.stayAlive() == nil {
		messageType, r, err := c.conn.NextReader()
		if !c.take(messageType, r, err) {
			break
		}
	}
	c.finish()
}

// greet sets up the connection and says who serves.
func (c *channel) greet() {
	c.conn.SetReadLimit(frameMax)
	c.conn.SetPongHandler(func(string) error { return c.stayAlive() })
	c.conn.SetPingHandler(func(text string) error {
		_ = c.conn.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(lingerTime)) // a broken connection ends the reader anyway
		return c.stayAlive()
	})
	c.send(welcomeFrame(c))
}

var errNotText = errors.New("a binary message")

// take serves a message that has begun to arrive, or the end of the connection. It returns false when there will be no more.
func (c *channel) take(messageType int, r io.Reader, err error) bool {
	text, err := readFrame(messageType, r, err)
	if err != nil {
		c.readFailed(err)
		return false
	}
	c.server.metrics.in.Inc()
	return c.waitForSpace() && c.handle(text)
}

func readFrame(messageType int, r io.Reader, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case messageType != websocket.TextMessage:
		return "", errNotText
	}
	text, err := io.ReadAll(r) // up to frameMax
	return string(text), err
}

// readFailed closes the connection with what the reader's error means to the client, if it is there to hear it.
func (c *channel) readFailed(err error) {
	switch {
	case errors.Is(err, errNotText):
		c.close(closeNotJSON)
	case errors.Is(err, websocket.ErrReadLimit): // as soon as its header says so
		c.close(closeTooBig)
	case isTimeout(err):
		c.close(closeSilent)
	default:
		c.close(leftBy(err))
	}
}

// stayAlive is called with every frame, control frames too: it moves the deadline by which the client must be heard again,
// and counts. It fails when the connection is to be closed: a deadline set here must not undo the one by which close
// wakes the reader.
func (c *channel) stayAlive() error {
	if !c.pace.allows(time.Now()) {
		c.close(closeTooMany)
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.goodbye != nil {
		return net.ErrClosed
	}
	return nil
}

// pace counts the frames of the current second.
type pace struct {
	second time.Time
	frames int
}

func (p *pace) allows(now time.Time) bool {
	if now.Sub(p.second) >= time.Second {
		*p = pace{second: now}
	}
	p.frames++
	return p.frames <= framesPerSecond
}
