package redisnode

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

// Node is an engine.Node on a Redis server. Safe for concurrent use.
type Node struct {
	cfg    Config
	server server
	queue  *queue
	lane   socket // of the lane
	ear    socket // of the listener

	replica string
	now     func() time.Duration
	events  engine.NodeEvents
	telling sync.Mutex // held while events are called: one at a time

	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

var _ engine.Node = (*Node)(nil)

// New returns a node that is not started. Its error tells all that is wrong with the configuration, but never a password.
func New(cfg Config) (*Node, error) {
	cfg, server, err := cfg.validated()
	if err != nil {
		return nil, fmt.Errorf("redisnode: %w", err)
	}
	n := &Node{cfg: cfg, server: server, queue: newQueue()}
	n.cfg.Log = cfg.Log.With("node", n.Name())
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Name is the address of the server: host:port, and the number of the database if it is not 0.
func (n *Node) Name() string { return n.server.name() }

// Start connects in the background; see engine.Node.
func (n *Node) Start(replica string, now func() time.Duration, events engine.NodeEvents) {
	n.replica, n.now, n.events = replica, now, events
	n.running.Go(n.serve)
	n.running.Go(n.listen)
}

// Send puts calls into the lane; see engine.Node.
func (n *Node) Send(calls ...*engine.Call) {
	if err := n.queue.add(calls); err != nil {
		refused := slices.Clone(calls) // the slice is the caller's
		go func() {                    // not from within Send: the caller may hold locks that Done takes
			for _, c := range refused {
				c.Done(&engine.Answer{Err: err})
			}
		}()
	}
}

// Close gives up what is under way; see engine.Node.
func (n *Node) Close() {
	n.cancel()
	n.lane.close()
	n.ear.close()
	n.running.Wait()
	for _, w := range n.queue.close() { // of a node that was never started
		go w.call.Done(&engine.Answer{Err: engine.ErrClosed})
	}
}

// tell calls one of the engine's methods.
func (n *Node) tell(what func(engine.NodeEvents)) {
	n.telling.Lock()
	defer n.telling.Unlock()
	what(n.events)
}
