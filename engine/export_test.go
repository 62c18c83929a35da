package engine

import "context"

// Remembered is how many semaphores the replica knows something of.
func (e *Engine) Remembered() int { return len(e.semaphores()) }

// SweepNow looks through the nodes once.
func (e *Engine) SweepNow(ctx context.Context) { e.sweep(ctx) }
