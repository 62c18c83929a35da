package main

import (
	"context"
	"sync"
)

// fair is the control of every contended measurement: a FIFO semaphore in this process, the best that any can do under the
// same harness.
type fair struct {
	mu   sync.Mutex
	free int
	line []func()
}

// ask calls granted when it is its turn, maybe before it returns.
func (f *fair) ask(granted func()) {
	f.mu.Lock()
	if f.free == 0 {
		f.line = append(f.line, granted)
		f.mu.Unlock()
		return
	}
	f.free--
	f.mu.Unlock()
	granted()
}

func (f *fair) acquire(ctx context.Context) (release func(), err error) {
	turn := make(chan struct{})
	f.ask(func() { close(turn) })
	select {
	case <-turn:
		return f.release, nil
	case <-ctx.Done():
		return nil, ctx.Err() // the run is over
	}
}

func (f *fair) release() {
	f.mu.Lock()
	if len(f.line) == 0 {
		f.free++
		f.mu.Unlock()
		return
	}
	next := f.line[0]
	f.line = f.line[1:]
	f.mu.Unlock()
	next()
}
