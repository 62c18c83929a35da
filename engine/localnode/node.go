package localnode

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/engine"
)

// Memory is the Config.Dir of a node that keeps nothing.
const Memory = ":memory:"

// Config is what a Node needs. Zero fields take the default their comment names.
type Config struct {
	Dir string               // where the node keeps what it remembers; it is made if it is not there. Memory: nowhere
	Now func() time.Duration // the node's clock; the machine's since it was started, suspends included
	Log *slog.Logger         // discarded

	bootID string // tests: the machine's, if not empty
	turn   int64  // tests: turnUsual, if not 0
}

// Node is an engine.Node in this process. Safe for concurrent use.
//
// One goroutine drains the lane: it executes all calls that are waiting, makes what they changed durable in one transaction,
// and only then answers them. Another looks at the node each second. Both are started by Start and end with Close.
type Node struct {
	dir   string // "": none
	clock func() time.Duration
	log   *slog.Logger
	lane  *lane
	state *State // the lane's goroutine's, from Start on
	store *store // likewise; nil: nothing is kept

	replica string // these three are set by Start
	now     func() time.Duration
	events  engine.NodeEvents

	telling sync.Mutex // held while events are told
	record  atomic.Pointer[engine.NodeRecord]
	broken  atomic.Pointer[error] // why nothing can be made durable; nil: it can
	closed  chan struct{}         // closed by Close
	closing sync.Once
	ended   sync.WaitGroup // all goroutines
}

// Open opens the directory, or makes it. Nothing is answered before Start. Errors: ErrInUse, ErrDamaged (the first file; a second
// that is damaged is set aside, told in the log, and its leases are waited out), those of the file system.
func Open(cfg Config) (*Node, error) {
	n := &Node{clock: cfg.Now, log: cfg.Log, lane: newLane(), closed: make(chan struct{})}
	if n.clock == nil {
		n.clock = machineClock
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dir == "" || cfg.Dir == Memory {
		n.state = NewState()
		n.state.RunID = rand.Text()
		n.state.FenceStart = min(max(time.Now().UnixMicro(), 1), fenceMax)
	} else {
		o := opening{
			dir: cfg.Dir, bootID: cmp.Or(cfg.bootID, bootID()), now: n.clock().Microseconds(), wall: time.Now().UnixMicro(), log: n.log,
			turn: cmp.Or(cfg.turn, turnUsual),
		}
		state, err := o.openDirectory()
		if err != nil {
			return nil, err
		}
		n.dir, n.state, n.store = cfg.Dir, state, o.store
	}
	n.record.Store(n.state.Record())
	return n, nil
}

// Name is the directory, or Memory.
func (n *Node) Name() string { return cmp.Or(n.dir, Memory) }

// Start begins to serve.
func (n *Node) Start(replica string, now func() time.Duration, events engine.NodeEvents) {
	n.replica, n.now, n.events = replica, now, events
	n.ended.Go(n.serve)
}

// Send puts the calls at the end of the lane.
func (n *Node) Send(calls ...*engine.Call) {
	if err := n.lane.add(calls); err != nil {
		go turnAway(slices.Clone(calls), err) // not here: the sender may hold locks that Done takes
	}
}

// turnAway answers calls that are not executed.
func turnAway(calls []*engine.Call, why error) {
	for _, c := range calls {
		c.Done(&engine.Answer{Err: why})
	}
}

// Close ends the node: calls that were not executed are answered with engine.ErrClosed.
func (n *Node) Close() {
	n.closing.Do(func() {
		close(n.closed)
		left := n.lane.close()
		n.ended.Go(func() { turnAway(left, engine.ErrClosed) })
		n.ended.Wait()
		if n.store == nil {
			return
		}
		if err := n.store.close(); err != nil {
			n.log.Error("the node could not be closed", "node", n.Name(), "error", err)
		}
	})
}

// serve drains the lane until it is closed.
func (n *Node) serve() {
	n.probe(true)
	n.ended.Go(n.look)
	var calls []*engine.Call
	for {
		// Whoever is about to send gets to do so: a batch of 30 costs twice one of 1. Where nobody is, this costs nothing.
		runtime.Gosched()
		if calls = n.lane.take(calls); len(calls) == 0 {
			return
		}
		n.batch(calls)
		clear(calls)
	}
}

// batch executes calls, keeps what they changed, and answers them.
func (n *Node) batch(calls []*engine.Call) {
	sent, clock, was := n.now(), n.clock().Microseconds(), n.state.Record()
	answers := make([]*engine.Answer, len(calls))
	var wakes []engine.Wake
	for i, c := range calls {
		var woken []engine.Wake
		answers[i], woken = n.execute(c, clock)
		wakes = append(wakes, woken...)
	}
	err := n.keep(clock)
	received := n.now()
	for i, c := range calls {
		a := answers[i]
		if err != nil && a.Err == nil {
			a = &engine.Answer{Err: fmt.Errorf("%w: %w", engine.ErrBroken, err)}
		}
		a.Sent, a.Received = sent, received
		c.Done(a)
	}
	if err == nil {
		n.wake(wakes)
	}
	if record := n.state.Record(); record != was {
		n.record.Store(record)
		n.probe(false)
	}
}

// execute runs one call.
func (n *Node) execute(c *engine.Call, clock int64) (*engine.Answer, []engine.Wake) {
	if err := refusal(n.state.Record()); err != nil && !engine.ForNodesOut(c.Op) {
		return &engine.Answer{Err: fmt.Errorf("%w: %w", engine.ErrOut, err)}, nil
	}
	var p engine.Placement
	if c.Fill != nil {
		p = c.Fill()
	}
	return n.state.Apply(clock, c.Header, c.At, p, c.Op)
}

// keep makes durable what the calls changed.
func (n *Node) keep(clock int64) error {
	if n.store == nil {
		return nil
	}
	err := n.store.write(n.state.changes, time.Now().UnixMicro()-clock)
	if was := n.broken.Load(); err == nil && was != nil {
		n.broken.Store(nil)
		n.log.Info("the node can write again", "node", n.Name())
	} else if err != nil && was == nil {
		n.broken.Store(&err)
		n.log.Error("the node can not write", "node", n.Name(), "error", err)
	}
	return err
}

// wake hands the messages that are for this replica to it.
func (n *Node) wake(wakes []engine.Wake) {
	if len(wakes) == 0 {
		return
	}
	n.telling.Lock()
	defer n.telling.Unlock()
	for _, w := range wakes {
		if w.Order.Replica == n.replica || w.Order.Replica == engine.EveryReplica {
			n.events.Woken(w)
		}
	}
}
