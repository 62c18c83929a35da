package enginetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

// coordinator is the least that a node needs on its near side: it sends what a test wants and keeps what it hears.
type coordinator struct {
	t      *testing.T
	node   *Node
	header *engine.Header
	order  int64

	mu     sync.Mutex // guards what follows
	probes []engine.Probe
	downs  []error
	wakes  []engine.Wake
	done   []string // the operations that were answered, in that order
}

func (c *coordinator) Probed(p engine.Probe, _ bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes = append(c.probes, p)
}

func (c *coordinator) Down(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.downs = append(c.downs, err)
}

func (c *coordinator) Woken(w engine.Wake) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakes = append(c.wakes, w)
}

// pending is a call that was sent.
type pending struct {
	*coordinator
	op     engine.Op
	answer *engine.Answer // nil: not yet; guarded by mu, as times
	times  int            // how often Done was called
}

// connect starts a node of a formed cluster of one, with a semaphore "db" of limit 2.
func connect(t *testing.T, faults Faults) (*coordinator, *Server) {
	cluster := NewCluster(t, 1)
	cluster.Form()
	server := cluster.Servers[0]
	c := &coordinator{t: t, node: cluster.Replica(faults)[0], header: &engine.Header{Cluster: clusterID, Known: []int64{1}}}
	ballot := engine.Ballot{Counter: 1, Replica: "R1"}
	server.Execute(c.header, 0, engine.Placement{}, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: "db", Ballot: ballot})
	server.Execute(c.header, 0, engine.Placement{}, &engine.Accept{
		Kind: engine.RegisterSemaphore, Name: "db", Ballot: ballot, Value: engine.Value{Limit: 2},
	})
	c.node.Start("R1", cluster.Now, c)
	time.Sleep(2 * faults.LatencyMax)
	synctest.Wait()
	return c, server
}

func (c *coordinator) send(op engine.Op) *pending {
	p := &pending{coordinator: c, op: op}
	c.node.Send(&engine.Call{Header: c.header, Op: op, Done: func(a *engine.Answer) {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.answer = a
		p.times++
		c.done = append(c.done, engine.OpName(op)+" "+leaseOf(op))
	}})
	return p
}

func (c *coordinator) claim(lease string) *pending {
	c.order++
	return c.send(&engine.Claim{
		Semaphore: "db", Lease: lease, By: lease + "/1", Weight: 1, TTL: 10 * time.Second,
		Order: engine.Order{Arrival: c.order, Replica: "R1", Seq: c.order},
	})
}

func (c *coordinator) release(lease string) *pending {
	return c.send(&engine.Release{Semaphore: "db", Lease: lease, By: lease + "/1", Why: engine.WhyReleased, Replica: "R1"})
}

// got returns the answer, nil if there is none yet, when the bubble has come to rest.
func (p *pending) got() (answer *engine.Answer, times int) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer, p.times
}

// says fails the test unless the call was answered once and as wanted.
func (p *pending) says(want engine.Says) {
	p.t.Helper()
	switch answer, times := p.got(); {
	case answer == nil:
		p.t.Errorf("%s was not answered; want %q", engine.OpName(p.op), want)
	case answer.Err != nil || answer.Says != want || times != 1:
		p.t.Errorf("%s: %s, answered %d times; want %q", engine.OpName(p.op), summary(answer), times, want)
	}
}

func (p *pending) fails(want error) {
	p.t.Helper()
	if answer, times := p.got(); answer == nil || !errors.Is(answer.Err, want) || times != 1 {
		p.t.Errorf("%s: %+v, answered %d times; want the error %q", engine.OpName(p.op), answer, times, want)
	}
}

func (p *pending) waits() {
	p.t.Helper()
	if answer, _ := p.got(); answer != nil {
		p.t.Errorf("%s was answered: %s", engine.OpName(p.op), summary(answer))
	}
}

// heard returns what the node told unasked, when the bubble has come to rest.
func (c *coordinator) heard() (probes []engine.Probe, downs []error, wakes []engine.Wake) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.probes), slices.Clone(c.downs), slices.Clone(c.wakes)
}

// answered returns the operations that were answered, in that order, when the bubble has come to rest.
func (c *coordinator) answered() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.done)
}
