package redisnode_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	within  = 20 * time.Second // what anything may take in a test that waits for a real server
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
	woken   chan engine.Wake // for waiters
	told    chan engine.Wake // for every replica
	log     *output

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	probes  []engine.Probe
	links   int // how many connections there were
	downs   []error
}

// output is what was logged. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) says(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.text.String(), text)
}

// open starts a node.
func open(t testing.TB, cfg redisnode.Config) *subject {
	t.Helper()
	s := &subject{
		TB: t, woken: make(chan engine.Wake, 1000), told: make(chan engine.Wake, 10_000), changed: make(chan struct{}), log: &output{},
		header: &engine.Header{Cluster: cluster, Known: []int64{1, 1, 1}, Index: 1},
	}
	cfg.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if s.node, err = redisnode.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.node.Close)
	start := time.Now()
	s.node.Start(me, func() time.Duration { return time.Since(start) }, s)
	return s
}

// openMini starts a node on a miniredis of its own.
func openMini(t testing.TB, cfg redisnode.Config) (*subject, *redistest.Mini) {
	t.Helper()
	mini := redistest.NewMini()
	t.Cleanup(mini.Close)
	cfg.Addr, cfg.Dialer = "127.0.0.1", mini.Dialer
	return open(t, cfg), mini
}

// admin is a client that does what no node does.
func admin(t testing.TB, server *redistest.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, PoolSize: 2})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Probed(p engine.Probe, connected bool) {
	s.change(func() {
		s.probes = append(s.probes, p)
		if connected {
			s.links++
		}
	})
}

func (s *subject) Down(err error) { s.change(func() { s.downs = append(s.downs, err) }) }

func (s *subject) Woken(w engine.Wake) {
	if w.Order.Replica == engine.EveryReplica {
		s.told <- w
		return
	}
	s.woken <- w
}

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

// seen returns how many probes there were yet.
func (s *subject) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.probes)
}

// awaitProbe waits for a probe as wanted after the first so many, and returns it.
func (s *subject) awaitProbe(after int, what string, wanted func(engine.Probe) bool) engine.Probe {
	s.Helper()
	var found engine.Probe
	s.await(what, func() bool {
		for _, p := range s.probes[min(after, len(s.probes)):] {
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

func anyProbe(engine.Probe) bool { return true }

func refused(p engine.Probe) bool { return p.Refusal != nil }

func isOK(p engine.Probe) bool {
	return p.Refusal == nil && p.Record != nil && p.Record.State == engine.StateOK
}

// formed makes the node the second of a cluster of three, and waits until it counts.
func (s *subject) formed() *subject {
	s.Helper()
	p := s.awaitProbe(0, "a probe", anyProbe)
	token := engine.Ballot{Counter: 1, Replica: me}
	s.want(engine.SaysDone, s.do(&engine.Freeze{Token: token, RunID: p.RunID}))
	s.want(engine.SaysDone, s.do(&engine.Load{Token: token, RunID: p.RunID, Cluster: cluster, N: 3, Index: 1, Known: []int64{1, 1, 1}}))
	s.want(engine.SaysDone, s.do(&engine.Commit{Token: token, RunID: p.RunID}))
	s.awaitProbe(0, "ok", isOK)
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

// state sends a call that states p, and returns the answer.
func (s *subject) state(p engine.Placement, op engine.Op) *engine.Answer {
	s.Helper()
	answered := make(chan *engine.Answer, 1)
	s.node.Send(&engine.Call{
		Header: s.header, Op: op, Fill: func() engine.Placement { return p }, Done: func(a *engine.Answer) { answered <- a },
	})
	return s.answer(answered)
}

func (s *subject) answer(answered <-chan *engine.Answer) *engine.Answer {
	s.Helper()
	select {
	case a := <-answered:
		return a
	case <-time.After(within):
		s.Fatal("a call was not answered")
		return nil
	}
}

// send sends calls side by side, and returns where their answers come, in the order in which they do.
func (s *subject) send(ops ...engine.Op) <-chan *engine.Answer {
	answered := make(chan *engine.Answer, len(ops))
	var calls []*engine.Call
	for _, op := range ops {
		calls = append(calls, &engine.Call{Header: s.header, Op: op, Done: func(a *engine.Answer) { answered <- a }})
	}
	s.node.Send(calls...)
	return answered
}

// retry does an operation until it is answered, and returns the answer.
func (s *subject) retry(op engine.Op) *engine.Answer {
	s.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		a := s.do(op)
		if a.Err == nil {
			return a
		}
		if time.Now().After(deadline) {
			s.Fatalf("not answered in time: %v", a.Err)
		}
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

// renew returns the renewal of what a claim was answered.
func (s *subject) renew(semaphore, lease string, a *engine.Answer) *engine.Renew {
	return &engine.Renew{
		Semaphore: semaphore, Lease: lease, By: lease + "by", Owner: engine.Owner{Nonce: "owner"}, Ver: a.Ver, Slots: a.Slots,
		Fence: a.Fence, Ballot: a.Definition, Until: a.Time + time.Minute.Microseconds(), TTL: 30 * time.Second,
	}
}

// find reads a lease.
func (s *subject) find(semaphore, lease string) *engine.Record {
	s.Helper()
	return s.want(engine.SaysDone, s.do(&engine.Find{Semaphore: semaphore, Lease: lease})).Record
}

func id(i int) string { return fmt.Sprintf("lease%011d", i) }
