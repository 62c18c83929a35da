package redistest

import (
	"net"
	"sync"
)

// patient is the server's end of a net.Pipe whose writes do not wait for the reader. A pipe has no buffer: a server that
// answers the first command of a pipeline would wait for a client that is still writing the second, for ever.
type patient struct {
	net.Conn

	mu     sync.Mutex // guards what follows
	more   sync.Cond  // queued was added to, or closed was set
	queued []byte
	closed bool
}

// newPatient returns an end whose goroutine ends with Close.
func newPatient(conn net.Conn) *patient {
	p := &patient{Conn: conn}
	p.more.L = &p.mu
	go p.pump()
	return p
}

func (p *patient) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	p.queued = append(p.queued, b...)
	p.more.Signal()
	return len(b), nil
}

// pump writes what is queued until the connection is closed at either end.
func (p *patient) pump() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		if len(p.queued) == 0 {
			p.more.Wait()
			continue
		}
		b := p.queued
		p.queued = nil
		p.mu.Unlock()
		_, err := p.Conn.Write(b)
		p.mu.Lock()
		p.closed = p.closed || err != nil
	}
}

func (p *patient) Close() error {
	p.mu.Lock()
	p.closed = true
	p.more.Signal()
	p.mu.Unlock()
	return p.Conn.Close()
}
