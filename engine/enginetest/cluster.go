package enginetest

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// clusterID is the cluster id of every Cluster.
const clusterID = "enginetest-cluster"

// Cluster is some servers and the ways of replicas to them.
type Cluster struct {
	t       testing.TB
	Servers []*Server
	// Now is a coordinator's clock for all replicas: it counts the bubble's time.
	Now func() time.Duration
}

// NewCluster returns n blank servers named A, B, C, …: the first engine that is opened on all of them forms the cluster.
func NewCluster(t testing.TB, n int) *Cluster {
	c := &Cluster{t: t, Now: Now()}
	script := newTranscript(t)
	for i := range n {
		c.Servers = append(c.Servers, newServer(script, string(rune('A'+i))))
	}
	return c
}

// Form makes the servers a cluster, in their order, without an engine.
func (c *Cluster) Form() {
	c.t.Helper()
	known := make([]int64, len(c.Servers))
	for i := range known {
		known[i] = 1
	}
	token := engine.Ballot{Counter: 1, Replica: "enginetest"}
	for i, s := range c.Servers {
		runID := s.RunID()
		for _, op := range []engine.Op{
			&engine.Freeze{Token: token, RunID: runID},
			&engine.Load{Token: token, RunID: runID, Cluster: clusterID, N: len(c.Servers), Index: i, Known: known},
			&engine.Commit{Token: token, RunID: runID},
		} {
			if a := s.Execute(&engine.Header{}, 0, engine.Placement{}, op); a.Says != engine.SaysDone {
				c.t.Fatalf("enginetest: %s says %s to %s", s.name, a.Says, engine.OpName(op))
			}
		}
	}
}

// Replica returns new ways to all servers, in their order, for one more replica. Each has a seed of its own, made from that
// of faults.
func (c *Cluster) Replica(faults Faults) Replica { return c.ReplicaOf(faults, c.Servers) }

// ReplicaOf is Replica with another list of servers.
func (c *Cluster) ReplicaOf(faults Faults, servers []*Server) Replica {
	r := make(Replica, len(servers))
	for i, s := range servers {
		faults.Seed = faults.Seed*31 + uint64(i) + 1
		r[i] = NewNode(c.t, s, faults)
	}
	return r
}

// Replica is the ways of one replica to the servers of a cluster.
type Replica []*Node

// Nodes returns them as an engine takes them.
func (r Replica) Nodes() []engine.Node {
	nodes := make([]engine.Node, len(r))
	for i, n := range r {
		nodes[i] = n
	}
	return nodes
}

// Hold is Node.Hold on every way.
func (r Replica) Hold(op string, words ...string) {
	for _, n := range r {
		n.Hold(op, words...)
	}
}

// Pass is Node.Pass on every way.
func (r Replica) Pass(op string, words ...string) {
	for _, n := range r {
		n.Pass(op, words...)
	}
}
