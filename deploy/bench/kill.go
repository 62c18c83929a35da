package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/permitd/permitd/server/client"
)

const (
	killTimes   = 50
	killClients = 20
	killAfter   = 400 * time.Millisecond // at most, after the server is ready
)

// ledger is what a client was told, which must hold after a crash.
type ledger struct {
	mu    sync.Mutex
	held  map[string]client.Lease // acknowledged grants, not released
	over  map[string]bool         // acknowledged releases, by lease
	acts  int
	wrong []string
}

// kills ends the server at random moments under load, again and again, and looks whether every grant and every release it
// has acknowledged is there afterwards.
func kills(ctx context.Context, s *stand, _ time.Duration) error {
	binary, dir := s.build(), s.TempDir()
	l := &ledger{held: map[string]client.Lease{}, over: map[string]bool{}}
	for round := range killTimes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sv := s.serve(binary, "--data", dir)
		if err := l.check(ctx, sv.url, round); err != nil {
			return err
		}
		l.load(ctx, sv)
	}
	sv := s.serve(binary, "--data", dir)
	if err := l.check(ctx, sv.url, killTimes); err != nil {
		return err
	}
	value("acknowledged grants and releases", float64(l.acts), "")
	bar("of them lost", float64(len(l.wrong)), "", len(l.wrong) == 0, fmt.Sprintf("0 in %d kills", killTimes))
	if len(l.wrong) > 0 {
		return fmt.Errorf("lost: %v", l.wrong[:min(5, len(l.wrong))])
	}
	return nil
}

// load acquires and releases until the server is killed.
func (l *ledger) load(ctx context.Context, sv *server) {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range killClients {
		clients.Go(func() { l.client(ctx, sv.url, fmt.Sprintf("kill-%d", i)) })
	}
	time.Sleep(50*time.Millisecond + rand.N(killAfter))
	sv.kill()
	cancel()
	clients.Wait()
}

// client takes permits and gives most of them back; what an error left unknown is not counted.
func (l *ledger) client(ctx context.Context, url, semaphore string) {
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return
	}
	defer c.Close()
	for ctx.Err() == nil {
		lease, err := c.Acquire(ctx, semaphore, client.Ask{
			Wait: client.NoWait, TTL: time.Hour, Create: &client.Definition{Limit: 1_000_000},
		})
		if err != nil {
			return
		}
		l.note(func() { l.held[lease.ID] = lease })
		if rand.IntN(10) == 0 {
			continue // keeps it
		}
		l.mu.Lock()
		delete(l.held, lease.ID) // until it is known what became of it
		l.mu.Unlock()
		if _, err := c.Release(ctx, semaphore, lease.Capability, 0); err != nil {
			return
		}
		l.note(func() { l.over[lease.ID] = true })
	}
}

func (l *ledger) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	l.acts++
}

// check compares what the server says with what it has acknowledged.
func (l *ledger) check(ctx context.Context, url string, round int) error {
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return err
	}
	defer c.Close()
	there := map[string]client.LeaseInfo{}
	for i := range killClients {
		list, err := c.Leases(ctx, fmt.Sprintf("kill-%d", i))
		if err != nil && round > 0 {
			return err
		}
		for _, info := range list {
			there[info.ID] = info
		}
	}
	for id, lease := range l.held {
		if info, ok := there[id]; !ok || info.Fence != lease.Fence || info.Slots != lease.Slots {
			l.wrong = append(l.wrong, fmt.Sprintf("round %d: grant %s of %s is %+v", round, id, lease.Semaphore, info))
		}
	}
	for id := range l.over {
		if _, ok := there[id]; ok {
			l.wrong = append(l.wrong, fmt.Sprintf("round %d: %s was released and is back", round, id))
		}
	}
	return nil
}
