package policies

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Memory is a Store that this process forgets. Its zero value is empty.
type Memory struct {
	mu    sync.Mutex // guards what follows
	index []byte
	blobs map[string][]byte
}

// ReadIndex implements Store.
func (m *Memory) ReadIndex(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index, nil
}

// ChangeIndex implements Store.
func (m *Memory) ChangeIndex(_ context.Context, next func([]byte) ([]byte, error)) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	index, err := next(m.index)
	if err != nil {
		return nil, err
	}
	m.index = index
	return index, nil
}

// ReadBlob implements Store.
func (m *Memory) ReadBlob(_ context.Context, sum string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, there := m.blobs[sum]; there {
		return data, nil
	}
	return nil, ErrNoBlob
}

// WriteBlob implements Store.
func (m *Memory) WriteBlob(_ context.Context, sum string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = map[string][]byte{}
	}
	m.blobs[sum] = slices.Clone(data)
	return nil
}

// DropBlob implements Store.
func (m *Memory) DropBlob(_ context.Context, sum string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, sum)
	return nil
}

// Blobs are the sums of the modules it has.
func (m *Memory) Blobs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.blobs))
}

// MendBlobs implements Store: nothing is ever missing in memory.
func (m *Memory) MendBlobs(context.Context, map[string]bool) error { return nil }
