package redisnode_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/redisnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	within  = 20 * time.Second // what anything may take in a test
	me      = "aaaaaaaaaaaaaaaa"
	other   = "zzzzzzzzzzzzzzzz"
	db      = "db" // the semaphore of most tests
	cluster = "thecluster"
)

// subject is a node under test and what it told.
type subject struct {
	testing.TB
	node    *redisnode.Node
	header  *engine.Header
	ballots int64
	orders  int64
	woken   chan engine.Wake

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	probes  []engine.Probe
	downs   []error
}

// open starts a node.
func open(t testing.TB, cfg redisnode.Config) *subject {
	t.Helper()
	node, err := redisnode.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{
		TB: t, node: node, woken: make(chan engine.Wake, 1000), changed: make(chan struct{}),
		header: &engine.Header{Cluster: cluster, Known: []int64{1, 1, 1}, Index: 1},
	}
	t.Cleanup(node.Close)
	start := time.Now()
	node.Start(me, func() time.Duration { return time.Since(start) }, s)
	return s
}

func (s *subject) Probed(p engine.Probe, _ bool) { s.change(func() { s.probes = append(s.probes, p) }) }

func (s *subject) Down(err error)      { s.change(func() { s.downs = append(s.downs, err) }) }
func (s *subject) Woken(w engine.Wake) { s.woken <- w }

func (s *subject) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until what was told is as wanted; it looks whenever something was told.
func (s *subject) await(what string, wanted func() bool) {
	s.Helper()
	deadline := time.After(within)
	for {
		s.mu.Lock()
		done, changed := wanted(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Fatalf("%s: not in time; probes %+v; down %v", what, s.probes, s.downs)
		}
	}
}

// awaitProbe waits for a probe as wanted, from now on, and returns it.
func (s *subject) awaitProbe(what string, wanted func(engine.Probe) bool) engine.Probe {
	s.Helper()
	s.mu.Lock()
	seen := len(s.probes)
	s.mu.Unlock()
	var found engine.Probe
	s.await(what, func() bool {
		for _, p := range s.probes[max(0, min(seen, len(s.probes))-1):] {
			if wanted(p) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// awaitDown waits until the node told that it is down, and returns why.
func (s *subject) awaitDown() error {
	s.Helper()
	var err error
	s.await("down", func() bool {
		if len(s.downs) > 0 {
			err = s.downs[len(s.downs)-1]
		}
		return err != nil
	})
	return err
}

// formed makes the node the second of a cluster of three, and waits until it counts.
func (s *subject) formed() *subject {
	s.Helper()
	p := s.awaitProbe("a probe", func(engine.Probe) bool { return true })
	token := engine.Ballot{Counter: 1, Replica: me}
	was := engine.Ballot{}
	if p.Record != nil {
		was = p.Record.Token
		token.Counter = was.Counter + 1
	}
	s.want(engine.SaysDone, s.do(&engine.Freeze{Token: token, Was: was, Cluster: cluster, RunID: p.RunID}))
	s.want(engine.SaysDone, s.do(&engine.Load{Token: token, RunID: p.RunID, Cluster: cluster, N: 3, Index: 1, Known: []int64{1, 1, 1}}))
	s.want(engine.SaysDone, s.do(&engine.Commit{Token: token, RunID: p.RunID}))
	s.awaitProbe("ok", func(p engine.Probe) bool { return p.Record != nil && p.Record.State == engine.StateOK })
	return s
}

// define writes the definition of a semaphore.
func (s *subject) define(name string, value engine.Value) engine.Ballot {
	s.Helper()
	s.ballots++
	ballot := engine.Ballot{Counter: s.ballots, Replica: me}
	s.want(engine.SaysPromised, s.do(&engine.Prepare{Kind: engine.RegisterSemaphore, Name: name, Ballot: ballot}))
	s.want(engine.SaysAccepted, s.do(&engine.Accept{Kind: engine.RegisterSemaphore, Name: name, Ballot: ballot, Value: value}))
	return ballot
}

// do sends a call that states nothing about the line, and returns the answer.
func (s *subject) do(op engine.Op) *engine.Answer { return s.state(engine.Placement{}, op) }

func (s *subject) state(p engine.Placement, op engine.Op) *engine.Answer {
	s.Helper()
	answered := make(chan *engine.Answer, 1)
	s.node.Send(&engine.Call{
		Header: s.header, Op: op, Fill: func() engine.Placement { return p }, Done: func(a *engine.Answer) { answered <- a },
	})
	select {
	case a := <-answered:
		return a
	case <-time.After(within):
		s.Fatalf("%s was not answered", engine.OpName(op))
		return nil
	}
}

func (s *subject) want(says engine.Says, a *engine.Answer) *engine.Answer {
	s.Helper()
	if a.Err != nil || a.Says != says {
		s.Fatalf("%q %v (%s); want %q", a.Says, a.Err, a.Reason, says)
	}
	return a
}

// claim returns a claim of one slot, later in line than all before.
func (s *subject) claim(semaphore, lease string) *engine.Claim {
	s.orders++
	return &engine.Claim{
		Semaphore: semaphore, Lease: lease, By: lease + "by", Owner: engine.Owner{Nonce: "owner"}, Info: "info of " + lease,
		Weight: 1, TTL: 30 * time.Second, Order: engine.Order{Arrival: s.orders, Replica: me, Seq: s.orders},
	}
}

// release returns the release of all that such a claim got.
func (s *subject) release(semaphore, lease string) *engine.Release {
	return &engine.Release{
		Semaphore: semaphore, Lease: lease, By: lease + "by", Owner: engine.Owner{Nonce: "owner"}, Why: engine.WhyReleased, Replica: me,
	}
}

func id(i int) string { return fmt.Sprintf("lease%011d", i) }
