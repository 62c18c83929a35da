package main

import (
	"net"
	"sync"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
)

// What a proxy does with connections.
type way int

const (
	passes way = iota
	cut        // refuses them, and ends those there are
	silent     // keeps them, and lets nothing through
)

// proxy stands between one replica and one node.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	is      way
	closed  bool
	conns   map[net.Conn]struct{}
}

// newProxy returns one that passes everything to target. It ends with the test.
func newProxy(t redistest.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes what the proxy does.
func (p *proxy) set(to way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.is = to
	if to == cut {
		p.drop()
	}
	p.changed.Broadcast()
}

// drop ends all connections. p.mu is held.
func (p *proxy) drop() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.drop()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *proxy) accept() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.connect(from) })
	}
}

// connect carries one connection.
func (p *proxy) connect(from net.Conn) {
	defer func() { _ = from.Close() }()
	if !p.own(from) {
		return
	}
	to, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil || !p.own(to) {
		if to != nil {
			_ = to.Close()
		}
		return
	}
	p.work.Go(func() { p.carry(from, to) })
	p.carry(to, from)
}

// own takes a connection up, unless it is to be refused.
func (p *proxy) own(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.is == cut {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// carry copies one direction, while it may.
func (p *proxy) carry(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		for p.is == silent && !p.closed {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				err = writeErr
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
}
