package enginetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
)

const (
	answerWithin = 20 * time.Second // what a node may take to answer in a test; real time
	wakeWithin   = 10 * time.Second // likewise, for a wake

	leaseTTL = time.Minute            // of the leases of most rules: none ends while a slow node is tried
	passOver = 100 * time.Millisecond // after a wake, a place not stated again is passed over

	me    = "AAAAAAAAAAAAAAAA" // the replica that the contract's node was started for
	other = "ZZZZZZZZZZZZZZZZ" // another one
	sem   = "db"               // the semaphore that rules are about
)

// contract is one subject under test: formed or not, and what is known of it.
type contract struct {
	testing.TB
	Subject
	header  *engine.Header
	start   time.Time
	ballots int64            // the last ballot that was used
	order   int64            // the last arrival that was used
	woken   chan engine.Wake // of places
	changes chan engine.Wake // of every replica

	mu       sync.Mutex // guards what follows
	probe    *engine.Probe
	probed   chan struct{} // closed with the first probe
	timeSeen int64         // the node's clock as last told, µs
}

// newContract starts the subject and waits until it was seen.
func newContract(t *testing.T, s Subject) *contract {
	c := &contract{
		TB: t, Subject: s, start: time.Now(), order: 1000,
		woken: make(chan engine.Wake, 100_000), changes: make(chan engine.Wake, 100_000), probed: make(chan struct{}),
		header: &engine.Header{Cluster: clusterID, Known: []int64{7, 7, 7}, Index: 1},
	}
	t.Cleanup(s.Node.Close)
	s.Node.Start(me, func() time.Duration { return time.Since(c.start) }, c)
	select {
	case <-c.probed:
	case <-time.After(answerWithin):
		t.Fatal("the node was not seen in time")
	}
	return c
}

// formed starts the subject, forms a cluster of three of which it is the second, and defines the semaphore.
func (c *contract) formed(value engine.Value) *contract {
	c.Helper()
	c.form()
	c.define(value)
	return c
}

func (c *contract) form() {
	c.Helper()
	token := engine.Ballot{Counter: 1, Replica: me}
	c.expect(engine.SaysDone, &engine.Freeze{Token: token, RunID: c.runID()})
	c.expect(engine.SaysDone, &engine.Load{Token: token, RunID: c.runID(), Cluster: clusterID, N: 3, Index: 1, Known: []int64{7, 7, 7}})
	c.expect(engine.SaysDone, &engine.Commit{Token: token, RunID: c.runID()})
	c.serving()
}

// serving returns when the node is asked again: until its next probe it may refuse calls by what it saw last.
func (c *contract) serving() {
	c.Helper()
	for end := time.Now().Add(answerWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a := c.do(&engine.Names{Count: 1}); a.Err == nil && a.Says == engine.SaysDone {
			return
		}
	}
	c.Fatal("the node did not serve in time")
}

// awaitProbe waits until the node has been seen as wanted.
func (c *contract) awaitProbe(wanted func(engine.Probe) bool) engine.Probe {
	c.Helper()
	for end := time.Now().Add(answerWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		p := *c.probe
		c.mu.Unlock()
		if wanted(p) {
			return p
		}
	}
	c.Fatal("the node was not seen as wanted in time")
	return engine.Probe{}
}

func (c *contract) runID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probe.RunID
}

// define writes the definition of the semaphore as a register does, and returns its ballot.
func (c *contract) define(value engine.Value) engine.Ballot {
	c.Helper()
	return c.write(engine.RegisterSemaphore, sem, value)
}

func (c *contract) write(kind, name string, value engine.Value) engine.Ballot {
	c.Helper()
	ballot := c.ballot()
	c.expect(engine.SaysPromised, &engine.Prepare{Kind: kind, Name: name, Ballot: ballot})
	c.expect(engine.SaysAccepted, &engine.Accept{Kind: kind, Name: name, Ballot: ballot, Value: value})
	return ballot
}

// ballot returns one larger than all before.
func (c *contract) ballot() engine.Ballot {
	c.ballots++
	return engine.Ballot{Counter: c.ballots, Replica: me}
}

// pass lets d go by on the node.
func (c *contract) pass(d time.Duration) {
	before := c.now() // probes tell the time too, also while it passes
	if c.Advance == nil {
		time.Sleep(d)
	} else {
		c.Advance(d)
	}
	c.sawTime(before + d.Microseconds())
}

// hurried repeats what must be done before the place of a replica that was woken is passed over, until that was quick enough.
func (c *contract) hurried(do func(try int) *engine.Answer) *engine.Answer {
	c.Helper()
	for try := range 20 {
		start := time.Now()
		if a := do(try); time.Since(start) < passOver-20*time.Millisecond {
			return a
		}
	}
	c.Fatalf("the node is too slow: what must be done within %s took longer each time", passOver)
	return nil
}

// now estimates the node's clock, never ahead of it.
func (c *contract) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeSeen
}

func (c *contract) sawTime(micros int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeSeen = max(c.timeSeen, micros)
}

// do sends an operation that states nothing about the line.
func (c *contract) do(op engine.Op) *engine.Answer {
	c.Helper()
	return c.state(engine.Placement{}, op)
}

// state sends an operation with what it states about its replica's place.
func (c *contract) state(placement engine.Placement, op engine.Op) *engine.Answer {
	c.Helper()
	return c.send(c.header, c.now(), placement, op)
}

func (c *contract) send(header *engine.Header, at int64, placement engine.Placement, op engine.Op) *engine.Answer {
	c.Helper()
	answered := make(chan *engine.Answer, 1)
	c.Node.Send(&engine.Call{
		Header: header, At: at, Op: op,
		Fill: func() engine.Placement { return placement },
		Done: func(a *engine.Answer) { answered <- a },
	})
	select {
	case a := <-answered:
		if a.Err == nil {
			c.sawTime(a.Time)
		}
		return a
	case <-time.After(answerWithin):
		c.Fatalf("%s was not answered in time", engine.OpName(op))
		return nil
	}
}

// expect sends an operation and fails the test unless the node says what is wanted.
func (c *contract) expect(says engine.Says, op engine.Op) *engine.Answer {
	c.Helper()
	return c.want(says, c.do(op))
}

func (c *contract) want(says engine.Says, a *engine.Answer) *engine.Answer {
	c.Helper()
	if a.Err != nil {
		c.Fatalf("no answer: %v; want %q", a.Err, says)
	}
	if a.Says != says {
		c.Fatalf("the node says %q (%s); want %q", a.Says, summary(a), says)
	}
	return a
}

// equal fails the test unless got is wanted.
func (c *contract) equal(what string, got, want any) {
	c.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// about fails the test unless got is want, or less by no more than the test may have taken.
func (c *contract) about(what string, got, want time.Duration) {
	c.Helper()
	slack := time.Since(c.start)
	if got > want || got < want-slack {
		c.Errorf("%s: %s; want %s, or less by at most %s", what, got, want, slack)
	}
}

// Probed, Down and Woken make the contract the NodeEvents of its node.

func (c *contract) Probed(p engine.Probe, _ bool) {
	c.sawTime(p.Time)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe == nil {
		close(c.probed)
	}
	c.probe = &p
}

// Down is told when a node is not there; a test that needs it notices by its answers.
func (c *contract) Down(error) {}

// Woken keeps the wake for the test.
func (c *contract) Woken(w engine.Wake) {
	if w.Order.Replica == engine.EveryReplica {
		c.changes <- w
		return
	}
	c.woken <- w
}
