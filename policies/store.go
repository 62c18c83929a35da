package policies

import (
	"context"
	"errors"
)

// ErrNoBlob says that a store has no such module.
var ErrNoBlob = errors.New("there is no such module in the store")

// Store keeps modules and the index of policies where all replicas find them: on the engine's nodes, or in Memory. Its methods
// are safe for concurrent use.
type Store interface {
	// ReadIndex returns the index, and nil where there is none yet.
	ReadIndex(ctx context.Context) ([]byte, error)
	// ChangeIndex replaces the index by what next makes of it, as one step among all replicas. next may be called several times,
	// and its error ends the change. The index returned is the one written.
	ChangeIndex(ctx context.Context, next func(old []byte) ([]byte, error)) ([]byte, error)
	// ReadBlob returns a module by its SHA-256, or ErrNoBlob. Whoever reads checks the sum.
	ReadBlob(ctx context.Context, sum string) ([]byte, error)
	// WriteBlob keeps a module; again is no error.
	WriteBlob(ctx context.Context, sum string, data []byte) error
	// DropBlob forgets a module; one that is not there is no error.
	DropBlob(ctx context.Context, sum string) error
	// MendBlobs sees that the modules that are used are kept as safely as may be, and forgets others that nobody has used for a while.
	MendBlobs(ctx context.Context, used map[string]bool) error
}
