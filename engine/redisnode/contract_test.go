package redisnode_test

import (
	"testing"

	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

func newNode(t *testing.T, cfg redisnode.Config) *redisnode.Node {
	t.Helper()
	node, err := redisnode.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestItKeepsTheContractOnMiniredis(t *testing.T) {
	t.Parallel()
	enginetest.Contract(t, func(t *testing.T) enginetest.Subject {
		mini := redistest.NewMini()
		t.Cleanup(mini.Close)
		return enginetest.Subject{Node: newNode(t, redisnode.Config{Addr: "127.0.0.1", Dialer: mini.Dialer, NodeTimeout: within})}
	})
}

func TestItKeepsTheContractOnRedis(t *testing.T) {
	t.Parallel()
	enginetest.Contract(t, func(t *testing.T) enginetest.Subject {
		return enginetest.Subject{Node: newNode(t, redisnode.Config{Addr: redistest.Start(t).Addr(), NodeTimeout: within})}
	})
}
