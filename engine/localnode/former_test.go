package localnode

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// former is a coordinator with one node, which it has formed.
type former struct {
	node   *Node
	header *engine.Header
	start  time.Time
	probes chan engine.Probe
	wakes  chan engine.Wake
}

const me = "replica"

// openAs opens a node, starts it, forms it where it is blank, and defines the semaphore where it is not.
func openAs(t testing.TB, cfg Config, value engine.Value) *former {
	t.Helper()
	node, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	f := startOf(node)
	if err := f.form(value); err != nil {
		t.Fatal(err)
	}
	return f
}

func startOf(node *Node) *former {
	f := &former{
		node: node, header: &engine.Header{Cluster: "c", Known: []int64{1}}, start: time.Now(),
		probes: make(chan engine.Probe, 1000), wakes: make(chan engine.Wake, 1000),
	}
	node.Start(me, func() time.Duration { return time.Since(f.start) }, f)
	return f
}

func (f *former) form(value engine.Value) error {
	first := <-f.probes
	if first.Record == nil {
		token := engine.Ballot{Counter: 1, Replica: me}
		for _, op := range []engine.Op{
			&engine.Freeze{Token: token, RunID: first.RunID},
			&engine.Load{Token: token, RunID: first.RunID, Cluster: "c", N: 1, Known: []int64{1}},
			&engine.Commit{Token: token, RunID: first.RunID},
		} {
			if a := f.do(op); a.Err != nil {
				return a.Err
			}
		}
	}
	if f.do(&engine.Peek{Kind: engine.RegisterSemaphore, Name: db}).Definition == (engine.Ballot{}) {
		return f.define(db, 1, value).Err
	}
	return nil
}

func (f *former) define(name string, counter int64, value engine.Value) *engine.Answer {
	return f.do(&engine.Accept{Kind: engine.RegisterSemaphore, Name: name, Ballot: engine.Ballot{Counter: counter}, Value: value})
}

// do sends an operation and waits for its answer.
func (f *former) do(op engine.Op) *engine.Answer {
	answered := make(chan *engine.Answer, 1)
	f.node.Send(&engine.Call{Header: f.header, Op: op, Done: func(a *engine.Answer) { answered <- a }})
	return <-answered
}

// says sends an operation and fails the test unless it is answered so.
func (f *former) says(t testing.TB, op engine.Op, want engine.Says) *engine.Answer {
	t.Helper()
	a := f.do(op)
	if a.Err != nil || a.Says != want {
		t.Fatalf("%s %+v: says %q, error %v; want %q", engine.OpName(op), op, a.Says, a.Err, want)
	}
	return a
}

// record reads a lease; nil: there is none.
func (f *former) record(lease string) *engine.Record {
	return f.do(&engine.Find{Semaphore: db, Lease: lease}).Record
}

func (f *former) Probed(p engine.Probe, _ bool) {
	select {
	case f.probes <- p:
	default: // nobody looks
	}
}

func (f *former) Down(error) {}

func (f *former) Woken(w engine.Wake) { f.wakes <- w }

// endlessOf makes a lease last until it is released.
func (f *former) endlessOf(t testing.TB, lease string) {
	t.Helper()
	f.renew(t, lease, engine.Never)
}

func (f *former) renew(t testing.TB, lease string, ttl time.Duration) {
	t.Helper()
	r := f.record(lease)
	if r == nil {
		t.Fatalf("there is no lease %s", lease)
	}
	f.says(t, &engine.Renew{
		Semaphore: db, Lease: lease, By: r.By, Owner: r.Owner, Ver: r.Ver, Slots: r.Slots, Fence: r.Fence, Ballot: r.Ballot,
		Until: 1 << 60, TTL: ttl,
	}, engine.SaysRenewed)
}

// logged is what a node wrote into its log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// handClock is a clock that the test moves.
type handClock struct {
	mu  sync.Mutex
	now time.Duration
}

func newHandClock(now time.Duration) *handClock { return &handClock{now: now} }

func (c *handClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}
