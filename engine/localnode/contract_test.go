package localnode_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/localnode"
)

// subject is a durable node whose clock the test moves.
func subject(t *testing.T) enginetest.Subject {
	var ahead atomic.Int64
	start := time.Now()
	node, err := localnode.Open(localnode.Config{
		Dir: t.TempDir(),
		Now: func() time.Duration { return time.Hour + time.Since(start) + time.Duration(ahead.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Subject{Node: node, Advance: func(d time.Duration) { ahead.Add(int64(d)) }}
}

func TestANodeKeepsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Contract(t, subject)
}

func TestANodeKeepsTheContractOfTime(t *testing.T) {
	t.Parallel()
	enginetest.ContractOfTime(t, subject)
}
