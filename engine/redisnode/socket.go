package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// socket makes one connection at a time, and lets Close cut it from another goroutine. The zero value has none.
type socket struct {
	mu     sync.Mutex // guards what follows
	conn   net.Conn
	closed bool
}

// open makes a connection to the server and the go-redis client that uses it, and no other one: when it is lost, its client is
// closed. Every connection has a client of its own, since a pool would dial behind our back.
func (s *socket) open(ctx context.Context, cfg *Config, to server) (*redis.Client, error) {
	conn, err := cfg.Dialer(ctx, "tcp", to.addr)
	if err != nil {
		return nil, err
	}
	if !s.hold(conn) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// What is still in its buffers when it is closed must not reach the server: it would run later than what a
		// new connection sends.
		if err := tcp.SetLinger(0); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	if to.tls != nil {
		secure := tls.Client(conn, to.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secure
	}
	dialed := make(chan net.Conn, 1)
	dialed <- conn
	return redis.NewClient(to.options(func(context.Context, string, string) (net.Conn, error) {
		select {
		case conn := <-dialed:
			return conn, nil
		default:
			return nil, errLost
		}
	})), nil
}

// errLost is what go-redis is told when it wants another connection.
var errLost = errors.New("the connection was lost")

// hold remembers the connection that cut closes, and reports whether there may still be one.
func (s *socket) hold(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	return !s.closed
}

// cut closes the connection, if there is one, so that whoever reads from it goes on. It does not take leave of the server.
func (s *socket) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// close is cut for good.
func (s *socket) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cut()
}

// deadline is a context that ends at a time but needs no timer for it: go-redis asks for the time only.
type deadline struct {
	context.Context
	at time.Time
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }
