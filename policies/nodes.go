package policies

import (
	"context"
	"errors"

	"github.com/permitd/permitd/engine"
)

// indexName is the value on the nodes that holds the index.
const indexName = "policies"

// Nodes is what OnNodes asks for: an *engine.Engine.
type Nodes interface {
	Value(ctx context.Context, name string) ([]byte, error)
	ChangeValue(ctx context.Context, name string, next func([]byte) ([]byte, error)) ([]byte, error)
	ReadBlob(ctx context.Context, sum string) ([]byte, error)
	WriteBlob(ctx context.Context, sum string, data []byte) error
	DropBlob(ctx context.Context, sum string) error
	MendBlobs(ctx context.Context, used map[string]bool) error
}

// OnNodes is the store of replicas that share the engine's nodes: the index is a register, and modules lie on a majority.
func OnNodes(n Nodes) Store { return nodeStore{n} }

type nodeStore struct{ Nodes }

// ReadIndex implements Store.
func (s nodeStore) ReadIndex(ctx context.Context) ([]byte, error) { return s.Value(ctx, indexName) }

// ChangeIndex implements Store.
func (s nodeStore) ChangeIndex(ctx context.Context, next func([]byte) ([]byte, error)) ([]byte, error) {
	return s.ChangeValue(ctx, indexName, next)
}

// ReadBlob implements Store.
func (s nodeStore) ReadBlob(ctx context.Context, sum string) ([]byte, error) {
	data, err := s.Nodes.ReadBlob(ctx, sum)
	if errors.Is(err, engine.ErrNoBlob) {
		return nil, ErrNoBlob
	}
	return data, err
}
