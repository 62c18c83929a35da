package enginetest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

// openRedis opens one node for each replica of the walk, all of one server.
func openRedis(t *testing.T, cfg redisnode.Config) map[string]engine.Node {
	nodes := map[string]engine.Node{}
	for _, replica := range append(slices.Clone(OtherReplicas), MeReplica) {
		node, err := redisnode.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		nodes[replica] = node
	}
	return nodes
}

// Time costs nothing on a miniredis, but each script costs some milliseconds.
func TestTheScriptsOnMiniredisDoWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	eachSeed(t, 2, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			mini := redistest.NewMini()
			t.Cleanup(mini.Close)
			Differ(t, seed, walkSteps/2, Virtual, openRedis(t, redisnode.Config{Addr: "127.0.0.1", Dialer: mini.Dialer}))
		})
	})
}

func TestTheScriptsOnRedisDoWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	eachSeed(t, 2, func(t *testing.T, seed uint64) {
		cfg := redisnode.Config{Addr: redistest.Start(t).Addr(), NodeTimeout: answerWithin}
		Differ(t, seed, walkSteps, Real, openRedis(t, cfg))
	})
}

// openMini opens a redisnode on a miniredis whose clock stands still from its first move on. (The rest of the contract has its
// test beside redisnode.)
func openMini(t *testing.T) Subject {
	mini := redistest.NewMini()
	t.Cleanup(mini.Close)
	node, err := redisnode.New(redisnode.Config{Addr: "127.0.0.1", Dialer: mini.Dialer, NodeTimeout: answerWithin})
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Duration(0)
	return Subject{Node: node, Advance: func(d time.Duration) {
		ahead += d
		mini.SetTime(time.Now().Add(ahead))
	}}
}

func TestTheScriptsKeepTheContractOfTime(t *testing.T) {
	t.Parallel()
	ContractOfTime(t, openMini)
}

func TestTheScriptsKeepTheContractOfBulk(t *testing.T) {
	t.Parallel()
	ContractOfBulk(t, func(t *testing.T) Subject {
		node, err := redisnode.New(redisnode.Config{Addr: redistest.Start(t).Addr(), NodeTimeout: answerWithin})
		if err != nil {
			t.Fatal(err)
		}
		return Subject{Node: node}
	})
}
