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
	line []chan struct{}
}

func (f *fair) acquire(ctx context.Context) (release func(), err error) {
	f.mu.Lock()
	if f.free > 0 && len(f.line) == 0 {
		f.free--
		f.mu.Unlock()
		return f.release, nil
	}
	turn := make(chan struct{})
	f.line = append(f.line, turn)
	f.mu.Unlock()
	select {
	case <-turn:
		return f.release, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fair) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.line) == 0 {
		f.free++
		return
	}
	close(f.line[0])
	f.line = f.line[1:]
}
