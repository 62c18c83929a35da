package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// open starts an engine on the nodes of a cluster, forming it if need be. It is closed with the test.
func open(t *testing.T, c *enginetest.Cluster, faults enginetest.Faults) *engine.Engine {
	t.Helper()
	return openOn(t, c, c.Replica(faults))
}

// openOn is open with ways to the nodes that the caller has in hand.
func openOn(t *testing.T, c *enginetest.Cluster, ways enginetest.Replica) *engine.Engine {
	t.Helper()
	e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOneHolderGetsItsSlotsAndGivesThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := enginetest.NewCluster(t, 3)
		e := open(t, c, enginetest.Faults{})
		ctx := t.Context()
		s, created, err := e.Put(ctx, "db", engine.Definition{Limit: 3}, engine.Condition{}, "me")
		if err != nil || !created || s.Definition.Limit != 3 {
			t.Fatal(s, created, err)
		}
		o, err := e.Acquire(ctx, "db", engine.Ask{Permits: 2})
		if err != nil || o.Refusal != nil {
			t.Fatal(o, err)
		}
		t.Logf("%+v", o.Lease)
		o2, err := e.Acquire(ctx, "db", engine.Ask{Permits: 2})
		if err != nil || o2.Refusal == nil {
			t.Fatal(o2, err)
		}
		t.Logf("%+v", o2.Refusal)
		if s, err = e.Semaphore(ctx, "db"); err != nil || s.Status.InUse != 2 {
			t.Fatal(s, err)
		}
		go func() {
			time.Sleep(time.Second)
			if _, err := e.Release(ctx, "db", o.Lease.Capability, 0); err != nil {
				t.Error(err)
			}
		}()
		t0 := time.Now()
		o3, err := e.Acquire(ctx, "db", engine.Ask{Permits: 2, Wait: 10 * time.Second})
		if err != nil || o3.Refusal != nil {
			t.Fatal(o3, err)
		}
		t.Logf("%v %+v", time.Since(t0), o3.Lease)
		time.Sleep(20 * time.Second)
		if l, err := e.Renew(ctx, "db", o3.Lease.Capability, 0); err != nil {
			t.Fatal(l, err)
		}
		time.Sleep(20 * time.Second)
		if s, err = e.Semaphore(ctx, "db"); err != nil || s.Status.InUse != 2 {
			t.Fatal(s, err)
		}
		time.Sleep(20 * time.Second)
		if s, err = e.Semaphore(ctx, "db"); err != nil || s.Status.InUse != 0 {
			t.Fatal(s, err)
		}
		if _, err := e.Release(ctx, "db", o3.Lease.Capability, 0); err != engine.ErrLeaseExpired {
			t.Fatal(err)
		}
	})
}
