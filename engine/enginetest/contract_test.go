package enginetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/permitd/permitd/engine/localnode"
)

// openState opens the rules of localnode behind a Node of this package.
func openState(t *testing.T) Subject {
	server := NewServer(t, "state")
	return Subject{Node: NewNode(t, server, Faults{Timeout: -1}), Advance: server.Shift}
}

func TestStateKeepsTheContract(t *testing.T) {
	t.Parallel()
	Contract(t, openState)
	ContractOfTime(t, openState)
	ContractOfBulk(t, openState)
}

// openMemory opens a localnode that keeps nothing on disk. (The durable one has its test beside it.)
func openMemory(t *testing.T) Subject {
	var ahead atomic.Int64
	start := time.Now()
	node, err := localnode.Open(localnode.Config{
		Dir: localnode.Memory,
		Now: func() time.Duration { return time.Hour + time.Since(start) + time.Duration(ahead.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return Subject{Node: node, Advance: func(d time.Duration) { ahead.Add(int64(d)) }}
}

func TestANodeInMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	Contract(t, openMemory)
	ContractOfTime(t, openMemory)
	ContractOfBulk(t, openMemory)
}
