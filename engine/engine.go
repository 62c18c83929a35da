package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// nodeTimeoutUsual is the default of Config.NodeTimeout.
const nodeTimeoutUsual = 500 * time.Millisecond

// nodesMax bounds the number of nodes; a waiter's wakes are counted in the bits of a word.
const nodesMax = 63

// Config is what an Engine needs. Zero fields take the default their comment names.
type Config struct {
	Nodes         []Node               // required, an odd number; the engine starts and closes them
	NodeTimeout   time.Duration        // fewer than a quorum of answers by then: ErrQuorumUnavailable; 500 ms
	Now           func() time.Duration // a clock that counts through suspends; CLOCK_BOOTTIME
	Log           *slog.Logger         // discarded
	Meter         Meter                // none
	DurableNodes  bool                 // the nodes keep what they acknowledged whatever befalls them: a cold start need not wait
	MaxSemaphores int                  // that may be created on use, as counted once a minute and since; SemaphoresUsual
}

// Engine leases permits of semaphores that live on the nodes. Safe for concurrent use.
type Engine struct {
	cfg     Config
	replica string
	quorum  int
	peers   []*peer
	steer   steering
	keeper  *keeper
	seq     atomic.Int64 // of orders
	healing atomic.Bool  // nodes are being readmitted
	created atomic.Int64 // semaphores created on use, as last counted, and since

	coldStarts atomic.Int64 // by this replica
	failures   int          // to readmit nodes, in a row; of the goroutine that does it
	longest    longest

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	work     sync.WaitGroup // the engine's goroutines
	draining atomic.Bool

	semMu sync.Mutex // guards sems; taken after no semaphore's mu but a semaphore's that is being forgotten
	sems  map[string]*semaphore

	secretNow atomic.Pointer[secret] // as secret below

	mu         sync.Mutex // guards what follows
	cluster    string
	eras       []int64 // the largest era heard of every node; replaced, never changed
	secret     []byte
	fatal      error
	secretLost bool          // the nodes have forgotten it: it is written again
	blankSince time.Duration // since when all nodes are known to have forgotten everything; 0: they have not
	blankAt    time.Time     // the same for people
	notedAt    time.Duration // when nodes were last told of each other
	recovering map[int]bool  // positions of nodes that an operator has given up; nil: none
	allHeard   bool
	changed    chan struct{} // closed and replaced when one of these changes

	valueChanged chan struct{} // closed and replaced when a value is heard to have changed

	unwanted unwanted
}

// Open starts the nodes and an engine on them. It returns at once, while connections are still being made; Ready tells
// when it can serve. It fails on a configuration that can not work: an even number of nodes, or none.
func Open(cfg Config) (*Engine, error) {
	n := len(cfg.Nodes)
	if n%2 == 0 || n > nodesMax {
		return nil, fmt.Errorf("%w: %d nodes are listed; it must be an odd number up to %d, as an even one survives no more "+
			"losses than the odd one below it", ErrConfiguration, n, nodesMax)
	}
	if cfg.NodeTimeout == 0 {
		cfg.NodeTimeout = nodeTimeoutUsual
	}
	if cfg.MaxSemaphores == 0 {
		cfg.MaxSemaphores = SemaphoresUsual
	}
	if cfg.Now == nil {
		cfg.Now = machineTime
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg: cfg, replica: newID(), quorum: quorum.Size(n), steer: steering{wake: make(chan struct{}, 1)},
		keeper: &keeper{now: cfg.Now, wake: make(chan struct{}, 1)}, sems: map[string]*semaphore{},
		eras: make([]int64, n), changed: make(chan struct{}), valueChanged: make(chan struct{}),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	for i, node := range cfg.Nodes {
		p := &peer{e: e, pos: i, node: node, status: NodeStatus{
			Name: node.Name(), Index: -1, State: "down", Reason: "not connected yet", Since: time.Now(),
		}}
		e.peers = append(e.peers, p)
	}
	e.work.Go(e.steerLoop)
	e.work.Go(func() { e.keeper.run(e.ctx.Done()) })
	e.work.Go(e.tickLoop)
	e.work.Go(e.sweepLoop)
	e.work.Go(e.cleanLoop)
	for _, p := range e.peers {
		p.node.Start(e.replica, cfg.Now, p)
	}
	return e, nil
}

// owedEvery is how often releases that a node could not be told are tried again.
const owedEvery = 100 * time.Millisecond

// tickLoop pays what nodes are owed and forgets what is idle, until the engine is closed.
func (e *Engine) tickLoop() {
	tick := time.NewTicker(owedEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		now := e.cfg.Now()
		for _, p := range e.peers {
			p.pay(now)
		}
		if n%int(time.Second/owedEvery) == 0 {
			e.eachSecond(now)
		}
	}
}

// eachSecond tells waiters their place and forgets places kept long enough and idle semaphores.
func (e *Engine) eachSecond(now time.Duration) {
	for _, s := range e.semaphores() {
		s.locked(func() {
			s.tellWaiters(now)
			s.forgetAway(now)
			s.dropOverdue(now)
		})
	}
	e.forgetIdle(now)
}

// semaphores returns all that this replica knows.
func (e *Engine) semaphores() []*semaphore {
	e.semMu.Lock()
	defer e.semMu.Unlock()
	all := make([]*semaphore, 0, len(e.sems))
	for _, s := range e.sems {
		all = append(all, s)
	}
	return all
}

// Drain stops granting: whoever waits, and whoever comes, fails with ErrDraining, and every kept lease is renewed once,
// so that it lives for its whole TTL, within which its holder may attach it elsewhere. It returns when that is done or ctx
// ends. Leases can still be renewed and released.
func (e *Engine) Drain(ctx context.Context) {
	e.draining.Store(true)
	var renewals sync.WaitGroup
	for _, s := range e.semaphores() {
		s.locked(func() {
			s.drainWaiters()
			s.failWaiters(ErrDraining)
			for _, l := range s.leases {
				if l.r != nil && l.r.ask.Kept && l.r.phase == holding && l.usual != Never {
					renewals.Add(1)
					l.renew(l.usual, func(error) { renewals.Done() })
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		renewals.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// drainWaiters ends all who stand in line, each with a ticket for another replica. mu is held.
func (s *semaphore) drainWaiters() {
	now := s.e.cfg.Now()
	for _, r := range s.line.all() {
		s.line.leave(r)
		r.fail(&DrainingError{Ticket: r.ticket(now)})
	}
}

// failWaiters ends all who wait. mu is held.
func (s *semaphore) failWaiters(err error) {
	for _, r := range s.line.all() {
		s.line.leave(r)
		r.fail(err)
	}
	for _, r := range s.arrivals {
		if r.phase == arriving {
			r.fail(err)
		}
	}
	for _, r := range s.named {
		if r.phase == seeking {
			r.fail(err)
		}
	}
	s.settled()
}

// Close drains for at most the node time-out, gives the nodes that long to hear what they are owed, and ends. Leases
// are left to their TTL.
func (e *Engine) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.NodeTimeout)
	defer cancel()
	e.Drain(ctx)
	e.settleDebts(ctx)
	e.stop()
	for _, p := range e.peers {
		p.node.Close()
	}
	for _, s := range e.semaphores() {
		s.mu.Lock()
		s.gone = true
		if s.recheck != nil {
			s.recheck.Stop()
		}
		s.mu.Unlock()
	}
	e.work.Wait()
}

// settleDebts asks every node something small, behind what is still in its lane.
func (e *Engine) settleDebts(ctx context.Context) {
	e.gather(ctx, func(*peer) Op { return &Peek{Kind: RegisterCluster, Name: "secret"} }, nil)
}

func (e *Engine) closed() bool { return e.ctx.Err() != nil }

// Replica names this engine on the nodes; new at each start.
func (e *Engine) Replica() string { return e.replica }

func (e *Engine) hasSecret() bool { return e.secretNow.Load() != nil }

// secretKey is the cluster secret; nil before it is known.
func (e *Engine) secretKey() []byte {
	if s := e.secretNow.Load(); s != nil {
		return s.key
	}
	return nil
}

// latestTime is the largest time that the clock of a node may show, in µs, also of one that is away.
func (e *Engine) latestTime(now time.Duration) int64 {
	latest := int64(0)
	for _, p := range e.peers {
		if c := p.clockAt(now); c.Known {
			latest = max(latest, int64((now+c.Hi)/time.Microsecond))
		}
	}
	return latest
}

// arrival is the time at which a request arrives: the median of the estimated node clocks, in µs, so that replicas whose own
// clocks differ agree.
func (e *Engine) arrival() int64 {
	now := e.cfg.Now()
	times := make([]int64, 0, 9) // on the stack, where there are no more nodes
	for _, p := range e.peers {
		if p.voting.Load() {
			c := p.clockAt(now)
			times = append(times, int64((now+c.Lo+c.Width()/2)/time.Microsecond))
		}
	}
	if len(times) == 0 {
		return 1
	}
	slices.Sort(times)
	return times[len(times)/2]
}
