package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// connectionCount counts the connections that are open, those of channels included, which net/http no longer knows.
type connectionCount struct{ count atomic.Int64 }

func (n *connectionCount) listener(l net.Listener) net.Listener {
	return &countedListener{l, n}
}

type countedListener struct {
	net.Listener
	count *connectionCount
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.count.count.Add(1)
	limitSilence(c)
	return &countedConn{Conn: c, count: l.count}, nil
}

type countedConn struct {
	net.Conn
	count *connectionCount
	once  sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.count.count.Add(-1) })
	return c.Conn.Close()
}
