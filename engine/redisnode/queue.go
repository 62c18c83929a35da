package redisnode

import (
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

const (
	queueMax = 200_000 // calls that may wait for the lane
	batchMax = 64      // calls of one pipeline: the first waits for the answer to the last, and what is granted at once comes back at once
)

// waiting is a call in the queue.
type waiting struct {
	call *engine.Call
	sent time.Time
}

// queue is what waits for the lane. Safe for concurrent use.
type queue struct {
	ready chan struct{} // has room for one: there may be calls

	mu     sync.Mutex // guards what follows
	calls  []waiting
	taken  int // how many of calls are gone
	closed bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// add puts calls at the end, all or none. Errors: engine.ErrClosed, engine.ErrTooLarge.
func (q *queue) add(calls []*engine.Call) error {
	now := time.Now()
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return engine.ErrClosed
	case len(q.calls)-q.taken+len(calls) > queueMax:
		q.mu.Unlock()
		return engine.ErrTooLarge
	}
	for _, c := range calls {
		q.calls = append(q.calls, waiting{c, now})
	}
	q.mu.Unlock()
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take moves at most batchMax calls to batch. If more are left, ready is signalled.
func (q *queue) take(batch []waiting) []waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := q.calls[q.taken:]
	if len(rest) <= batchMax {
		batch = append(batch, rest...)
		clear(q.calls)
		q.calls, q.taken = q.calls[:0], 0
		return batch
	}
	batch = append(batch, rest[:batchMax]...)
	clear(rest[:batchMax])
	q.taken += batchMax
	if q.taken > len(q.calls)/2 { // what is gone must not pile up
		q.calls, q.taken = append(q.calls[:0], q.calls[q.taken:]...), 0
	}
	q.signal()
	return batch
}

// close lets nothing in any more and returns what is left.
func (q *queue) close() []waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	left := q.calls[q.taken:]
	q.calls, q.taken = nil, 0
	return left
}
