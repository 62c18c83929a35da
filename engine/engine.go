package engine

import (
	"context"
	"log/slog"
	"time"
)

// Config is what an Engine needs. Zero fields take the default their comment names.
type Config struct {
	Nodes         []Node               // required, an odd number; the engine starts and closes them
	NodeTimeout   time.Duration        // fewer than a quorum of answers by then: ErrQuorumUnavailable; 500 ms
	Now           func() time.Duration // a clock that counts through suspends; CLOCK_BOOTTIME
	Log           *slog.Logger         // discarded
	MaxSemaphores int                  // that may be created on use; SemaphoresUsual
}

// Engine leases permits of semaphores that live on the nodes. Safe for concurrent use.
type Engine struct{}

// Open starts the nodes and an engine on them. It returns at once, while connections are still being made;
// Ready tells when it can serve. It fails on a configuration that can not work: an even number of nodes.
func Open(cfg Config) (*Engine, error) { panic("not yet") }

// Close stops serving: waiters fail with ErrDraining, kept leases are renewed once and left to their TTL.
func (e *Engine) Close() { panic("not yet") }

// Replica names this engine on the nodes; new at each start.
func (e *Engine) Replica() string { panic("not yet") }

// Ready waits until a quorum of the nodes votes or ctx ends. Fatal (a mistake in the configuration that waiting does
// not mend: nodes of two clusters, the same server listed twice, …) and what is missing are told by the error.
func (e *Engine) Ready(ctx context.Context) error { panic("not yet") }

// Nodes tells the state of every node, and the quorum.
func (e *Engine) Nodes() (quorum int, nodes []NodeStatus) { panic("not yet") }

// Put declares a semaphore, or changes it to exactly def; by is for people. created tells whether there was none.
// Errors: *InvalidError, ErrRevMismatch, ErrQuorumUnavailable.
func (e *Engine) Put(ctx context.Context, name string, def Definition, cond Condition, by string) (s Semaphore, created bool, err error) {
	panic("not yet")
}

// Semaphore reads a semaphore with its status from a quorum. Errors: ErrUnknownSemaphore, ErrQuorumUnavailable.
func (e *Engine) Semaphore(ctx context.Context, name string) (Semaphore, error) { panic("not yet") }

// Semaphores lists at most count semaphores with the prefix whose names are greater than after, in byte order, and
// the after of the next page ("" at the end).
func (e *Engine) Semaphores(ctx context.Context, prefix, after string, count int) (list []Semaphore, next string, err error) {
	panic("not yet")
}

// Delete removes a semaphore; its waiters get ErrUnknownSemaphore. Errors: ErrUnknownSemaphore, ErrRevMismatch,
// ErrSemaphoreInUse, ErrQuorumUnavailable.
func (e *Engine) Delete(ctx context.Context, name string, cond Condition, by string) error {
	panic("not yet")
}

// Leases lists the leases of a semaphore, oldest first. Errors as Semaphore.
func (e *Engine) Leases(ctx context.Context, name string) ([]LeaseInfo, error) { panic("not yet") }

// Request is one Ask under way, and the lease that comes of it. Safe for concurrent use.
type Request struct{}

// Ask puts a request in line and returns at once; events hears what becomes of it. It needs no goroutine while it waits.
func (e *Engine) Ask(name string, ask Ask, events Events) *Request { panic("not yet") }

// Cancel ends the request, wherever it is: a waiter leaves the line, a grant (also one that is just
// under way or was told meanwhile) is given back. It returns at once; no event is told afterwards. The nodes are
// told on contexts of the engine's own, until they have heard it.
func (r *Request) Cancel() { panic("not yet") }

// Acquire is Ask for a caller that waits. When ctx ends first, nothing is held and the error is the context's.
// Errors: *InvalidError, *WeightError, *DefinitionConflict, ErrUnknownSemaphore, ErrTooManyWaiters, ErrTooManySemaphores,
// ErrQuorumUnavailable, ErrDraining.
func (e *Engine) Acquire(ctx context.Context, name string, ask Ask) (Outcome, error) {
	panic("not yet")
}

// Release gives a lease back by its capability, whoever acquired it; keep > 0 is the weight that stays held. It may be repeated.
// Errors: ErrUnknownLease, ErrLeaseExpired, ErrLeaseBroken, *InvalidError (keep), ErrNotConfirmed, ErrQuorumUnavailable.
func (e *Engine) Release(ctx context.Context, name, capability string, keep int) (Released, error) {
	panic("not yet")
}

// Renew lengthens a lease to ttl from now on (0: as before) by its capability. It never shortens, and never acquires again.
// Errors: ErrUnknownLease, ErrLeaseExpired, ErrLeaseReleased, ErrLeaseBroken, *InvalidError (ttl),
// ErrInProgress, ErrQuorumUnavailable.
func (e *Engine) Renew(ctx context.Context, name, capability string, ttl time.Duration) (Lease, error) {
	panic("not yet")
}
