package localnode

import (
	"sync"

	"github.com/permitd/permitd/engine"
)

const (
	laneMax  = 200_000 // calls that may wait in a lane
	batchMax = 1000    // calls that are executed before the first of them is answered
)

// lane is the queue of a node's calls, in the order in which they were sent. Safe for concurrent use.
type lane struct {
	mu     sync.Mutex // guards what follows
	more   sync.Cond  // a call was added, or the lane closed
	queue  []*engine.Call
	closed bool
}

func newLane() *lane {
	l := &lane{}
	l.more.L = &l.mu
	return l
}

// add puts calls at the end, all or none. Errors: engine.ErrClosed, engine.ErrTooLarge.
func (l *lane) add(calls []*engine.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return engine.ErrClosed
	case len(l.queue)+len(calls) > laneMax:
		return engine.ErrTooLarge
	}
	l.queue = append(l.queue, calls...)
	l.more.Signal()
	return nil
}

// take waits for calls and takes at most batchMax of them; none when the lane is closed. The slice that it returned before is used
// again.
func (l *lane) take(before []*engine.Call) []*engine.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.more.Wait()
	}
	calls := l.queue
	if len(calls) <= batchMax {
		l.queue = before[:0]
		return calls
	}
	l.queue = calls[batchMax:]
	return calls[:batchMax:batchMax]
}

// close lets nothing in any more and returns the calls that nobody will take.
func (l *lane) close() []*engine.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	left := l.queue
	l.queue = nil
	l.more.Broadcast()
	return left
}
