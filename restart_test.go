//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/server/client"
)

// restartHolders is how many hold a permit over a connection of their own. Half as many hold at each of two replicas.
const restartHolders = 500

// fleet is two replicas on the same nodes, one of which may be away.
type fleet struct {
	t      *testing.T
	binary string
	nodes  string

	mu   sync.Mutex // guards what follows
	cmds [2]*exec.Cmd
	urls [2]string
}

func (f *fleet) start(i int) {
	f.t.Helper()
	cmd, url := process(f.t, f.binary, "--redis", f.nodes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cmds[i], f.urls[i] = cmd, url
}

// client asks replica i as it is now.
func (f *fleet) client(i int) *client.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := client.New(client.Config{URL: f.urls[i]})
	if err != nil {
		f.t.Error(err)
	}
	return c
}

func (f *fleet) signal(i int, signal syscall.Signal) {
	f.t.Helper()
	f.mu.Lock()
	cmd := f.cmds[i]
	f.mu.Unlock()
	if err := cmd.Process.Signal(signal); err != nil {
		f.t.Error(err)
	}
	if err := cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		f.t.Error(err)
	}
}

// holder holds one permit over a channel, and attaches its lease elsewhere when the channel ends.
type holder struct {
	f       *fleet
	lease   client.Lease
	at      atomic.Int64 // the replica where it holds
	planned atomic.Int64 // how often it was told of a restart, by close code 1012
}

// hold holds until ctx ends; at is the replica where it begins.
func (h *holder) hold(ctx context.Context, at int, begun *sync.WaitGroup) error {
	h.at.Store(int64(at))
	c := h.f.client(at)
	defer c.Close()
	channel, err := c.Dial(ctx)
	var hold *client.Hold
	for again := err == nil; again; { // 500 at once may be too much for a moment
		hold, err = channel.Acquire(ctx, "db", client.Ask{TTL: 25 * time.Second})
		p, ok := errors.AsType[*client.Problem](err)
		again = ok && p.Status == 503
	}
	begun.Done()
	if err != nil {
		return err
	}
	h.lease = hold.Lease
	for {
		select {
		case <-ctx.Done():
			return channel.Close()
		case <-channel.Done():
		}
		if e, ok := errors.AsType[*websocket.CloseError](channel.Err()); ok && e.Code == websocket.CloseServiceRestart {
			h.planned.Add(1)
		}
		_ = channel.Close() // it is broken
		if channel, hold, at, err = h.attach(ctx, 1-at); err != nil {
			return err
		}
		if hold.ID != h.lease.ID || hold.Fence != h.lease.Fence || hold.Slots != h.lease.Slots || hold.Valid() <= 0 {
			return fmt.Errorf("attached %+v, had %+v", hold.Lease, h.lease)
		}
		h.at.Store(int64(at))
	}
}

// attach tries the replicas in turn until one has the lease.
func (h *holder) attach(ctx context.Context, at int) (*client.Channel, *client.Hold, int, error) {
	for {
		c := h.f.client(at)
		channel, err := c.Dial(ctx)
		if err == nil {
			var hold *client.Hold
			if hold, err = channel.Attach(ctx, "db", h.lease.Capability, 0); err == nil {
				return channel, hold, at, nil
			}
			_ = channel.Close() // it may be broken
		}
		c.Close()
		if p, ok := errors.AsType[*client.Problem](err); ok && p.Status != 503 {
			return nil, nil, at, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, at, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		at = 1 - at
	}
}

// Each replica is restarted in turn under load, and then killed: every holder attaches its lease elsewhere, and nothing is granted twice.
func TestEveryHolderKeepsItsLeaseWhileReplicasAreRestartedAndKilled(t *testing.T) {
	// Not parallel: it is 500 connections and five processes, which others would have to wait for.
	_, nodes := redisNodes(t, 3)
	f := &fleet{t: t, binary: build(t), nodes: nodes}
	f.start(0)
	f.start(1)
	first := f.client(0)
	defer first.Close()
	eventually(t, "it is ready", func() bool { return first.Ready(t.Context()) == nil })
	if _, err := first.Put(t.Context(), "db", client.Definition{Limit: restartHolders}, 0); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	holders := make([]*holder, restartHolders)
	var begun, all sync.WaitGroup
	for i := range holders {
		h := &holder{f: f}
		holders[i] = h
		begun.Add(1)
		all.Go(func() {
			if err := h.hold(ctx, i%2, &begun); err != nil && ctx.Err() == nil {
				t.Errorf("holder %d: %v", i, err)
			}
		})
	}
	begun.Wait()
	load, grants := f.load(ctx)

	allAt := func(i int, what string) {
		t.Helper()
		eventually(t, what, func() bool {
			return !slices.ContainsFunc(holders, func(h *holder) bool { return h.at.Load() != int64(i) })
		})
	}
	for i := range 2 {
		f.signal(i, syscall.SIGTERM)
		allAt(1-i, "all have attached elsewhere when a replica stops")
		f.start(i)
	}
	f.signal(0, syscall.SIGKILL)
	allAt(1, "all have attached elsewhere when a replica is killed")

	seen, planned := map[string]bool{}, int64(0)
	for _, h := range holders {
		planned += h.planned.Load()
		if seen[h.lease.Slots] {
			t.Errorf("slot %s is held twice", h.lease.Slots)
		}
		seen[h.lease.Slots] = true
	}
	if want := int64(restartHolders/2 + restartHolders); planned != want {
		t.Errorf("%d were told of a restart, not %d", planned, want)
	}
	second := f.client(1)
	defer second.Close()
	if sem, err := second.Semaphore(t.Context(), "db"); err != nil || sem.Status.InUse != restartHolders {
		t.Errorf("%+v, %v", sem.Status, err)
	}
	if grants.Load() == 0 {
		t.Error("there was no load")
	}
	stop()
	all.Wait()
	load.Wait()
	eventually(t, "nothing is held", func() bool {
		sem, err := second.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.InUse == 0
	})
}

// load has four clients take and release two permits over REST, at whichever replica is there, until ctx ends. It counts how many are
// held at once.
func (f *fleet) load(ctx context.Context) (all *sync.WaitGroup, grants *atomic.Int64) {
	const permits = 2
	var inFlight atomic.Int64
	all, grants = &sync.WaitGroup{}, &atomic.Int64{}
	for at := range 4 {
		all.Go(func() {
			for ; ctx.Err() == nil; at++ {
				c := f.client(at % 2)
				lease, err := c.Acquire(ctx, "load", client.Ask{Wait: time.Second, Create: &client.Definition{Limit: permits}})
				c.Close()
				if err != nil {
					time.Sleep(5 * time.Millisecond) // it is being restarted
					continue
				}
				grants.Add(1)
				if n := inFlight.Add(1); n > permits {
					f.t.Errorf("%d of %d permits are held", n, permits)
				}
				time.Sleep(2 * time.Millisecond)
				inFlight.Add(-1)
				for released := false; !released && ctx.Err() == nil; at++ {
					c := f.client(at % 2)
					_, err := c.Release(ctx, "load", lease.Capability, 0)
					c.Close()
					p, told := errors.AsType[*client.Problem](err)
					released = err == nil || told && p.Status == 410
				}
			}
		})
	}
	return all, grants
}
