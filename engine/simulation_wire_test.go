package engine_test

import (
	"errors"
	"net"
	"sync"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// wired is the way of a replica to a node that is reached over connections: what is written takes its time, connections are lost, and
// what was written before may arrive after that, as from a closed socket's buffer.
type wired struct {
	engine.Node
	dial func() net.Conn // to the server
	gate *gate           // of the server

	mu        sync.Mutex // guards what follows
	faults    enginetest.Faults
	dice      dice
	unplugged bool
	wires     map[*wire]bool // that are connected
	all       []*wire
}

// gate stops what is on its way to a server that is stopped.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while it is open
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// connect makes a connection.
func (w *wired) connect() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unplugged {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	c := &wire{way: w, far: far, server: w.dial(), up: newPipe(), down: newPipe()}
	w.wires[c] = true
	w.all = append(w.all, c)
	go c.read(far, c.up, true)
	go c.read(c.server, c.down, false)
	go c.deliver(c.up, c.server, w.gate)
	go c.deliver(c.down, far, nil)
	return near, nil
}

// Spoil changes what happens to what is written from now on.
func (w *wired) Spoil(f enginetest.Faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

// Cut loses all connections.
func (w *wired) Cut() {
	w.mu.Lock()
	all := w.wires
	w.wires = map[*wire]bool{}
	w.mu.Unlock()
	for c := range all {
		c.cut()
	}
	synctest.Wait()
}

// Disconnect is Cut without new connections until Connect.
func (w *wired) Disconnect() {
	w.mu.Lock()
	w.unplugged = true
	w.mu.Unlock()
	w.Cut()
}

// Connect ends a Disconnect.
func (w *wired) Connect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unplugged = false
}

// end drops whatever is still on its way.
func (w *wired) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		c.up.drop()
		c.down.drop()
	}
}

// latency returns how long something is under way, and whether the connection is lost with it.
func (w *wired) latency() (took time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took = w.faults.LatencyMin + w.dice.upTo(w.faults.LatencyMax-w.faults.LatencyMin)
	if w.dice.chance(w.faults.Slow) {
		took += w.dice.upTo(w.faults.SlowMax)
	}
	return took, w.dice.chance(w.faults.Cut)
}

// late returns when what is in the buffer of a lost connection arrives; false: never.
func (w *wired) late() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice.upTo(w.faults.LateRunMax), w.dice.chance(w.faults.LateRun)
}

// wire is one connection.
type wire struct {
	way      *wired
	far      net.Conn // the other end of what the replica holds
	server   net.Conn
	up, down *pipe
}

// read puts what comes in on its way.
func (c *wire) read(from net.Conn, to *pipe, loses bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			took, lost := c.way.latency()
			to.put(buffer[:n], took)
			if lost && loses {
				go c.cut()
			}
		}
		if err != nil {
			c.cut()
			return
		}
	}
}

// deliver writes what is due until nothing comes any more.
func (c *wire) deliver(from *pipe, to net.Conn, gate *gate) {
	defer func() { _ = to.Close() }()
	for {
		b, ok := from.take()
		if !ok {
			return
		}
		if gate != nil {
			gate.pass()
		}
		if _, err := to.Write(b); err != nil {
			c.cut()
			return
		}
	}
}

// cut loses the connection. What the replica has written stays in the buffer and may arrive later.
func (c *wire) cut() {
	_ = c.far.Close()
	c.down.end(0, false)
	after, arrives := c.way.late()
	c.up.end(after, arrives)
}

// pipe is what is on its way in one direction, in order.
type pipe struct {
	mu     sync.Mutex // guards what follows
	queue  []parcel
	last   time.Time
	ended  bool
	signal chan struct{} // has room for one
}

type parcel struct {
	bytes []byte
	due   time.Time
}

func newPipe() *pipe { return &pipe{signal: make(chan struct{}, 1)} }

func (p *pipe) put(b []byte, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if due := time.Now().Add(took); due.After(p.last) {
		p.last = due
	}
	p.queue = append(p.queue, parcel{append([]byte(nil), b...), p.last})
	p.poke()
}

func (p *pipe) poke() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// end lets nothing more in. What is on its way arrives after a while, or not at all.
func (p *pipe) end(after time.Duration, arrives bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if !arrives {
		p.queue = nil
	}
	for i := range p.queue {
		p.queue[i].due = p.queue[i].due.Add(after)
	}
	p.poke()
}

// drop lets nothing of what is on its way arrive, and nothing more in.
func (p *pipe) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue, p.ended = nil, true
	p.poke()
}

// take waits for what is due next; false when nothing comes any more.
func (p *pipe) take() ([]byte, bool) {
	for {
		p.mu.Lock()
		wait, none := time.Duration(-1), false
		if len(p.queue) > 0 {
			if wait = time.Until(p.queue[0].due); wait <= 0 {
				b := p.queue[0].bytes
				p.queue = p.queue[1:]
				p.mu.Unlock()
				return b, true
			}
		} else {
			none = p.ended
		}
		p.mu.Unlock()
		switch {
		case none:
			return nil, false
		case wait < 0:
			<-p.signal
		default:
			select {
			case <-p.signal:
			case <-time.After(wait):
			}
		}
	}
}
