package policies

import (
	"context"
	"sync/atomic"
	"time"
)

// deadline is the end of one call after another in an instance. It ends for good once it passes: the instance it belongs to must be
// thrown away then, so a call costs neither a context nor a timer of its own, and the request's context, which ends when the client leaves,
// has no part in it.
type deadline struct {
	done  chan struct{}
	over  atomic.Bool
	timer *time.Timer
}

func newDeadline(after time.Duration) *deadline {
	d := &deadline{done: make(chan struct{})}
	d.timer = time.AfterFunc(after, func() {
		d.over.Store(true)
		close(d.done)
	})
	return d
}

// start sets the deadline of the next call. The last one must have been stopped in time.
func (d *deadline) start(after time.Duration) { d.timer.Reset(after) }

// stop ends a call, and tells whether that was in time. If not the deadline is over from now on, whether the timer has got to say so or not.
func (d *deadline) stop() bool {
	inTime := d.timer.Stop()
	if !inTime {
		d.over.Store(true)
	}
	return inTime
}

// Done is what the runtime waits for beside the module.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err tells whether the deadline has passed.
func (d *deadline) Err() error {
	if d.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// Deadline says that others can not know when it will be.
func (*deadline) Deadline() (time.Time, bool) { return time.Time{}, false }
