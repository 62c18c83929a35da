package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/server/client"
)

const (
	failClients  = 20
	failTimeout  = 500 * time.Millisecond // --node-timeout
	failTimes    = 3.0                    // p99 with a node that is away, of the normal one
	backMax      = 3.0                    // s until a node that was emptied votes again, and until all grant again that were restarted
	coldLeases   = 100
	coldPatience = 2 * time.Minute
)

// durable starts three nodes that keep what they acknowledge, and permitd on them.
func durable(s *stand) ([]*redistest.Server, *client.Client) {
	var servers []*redistest.Server
	var addrs []string
	for range 3 {
		r := redistest.Start(s, redistest.AOF)
		servers, addrs = append(servers, r), append(addrs, r.Addr())
	}
	sv := s.serve(s.build(), "--redis", strings.Join(addrs, ","), "--node-timeout", failTimeout.String(), "--durable-nodes")
	c, err := client.New(client.Config{URL: sv.url})
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(c.Close)
	return servers, c
}

// paces is how long acquires take, as clients see it who each have a semaphore.
type paces struct {
	mu   sync.Mutex // guards what follows
	took []time.Duration
	fail int // requests
}

// load lets clients acquire and release until ctx ends.
func (p *paces) load(ctx context.Context, c *client.Client) (wait func()) {
	var clients sync.WaitGroup
	for i := range failClients {
		clients.Go(func() {
			for ctx.Err() == nil {
				name, begin := fmt.Sprintf("fail-%d", i), time.Now()
				l, err := c.Acquire(context.WithoutCancel(ctx), name, client.Ask{Create: &client.Definition{Limit: 1}})
				took := time.Since(begin)
				if err == nil {
					_, err = c.Release(context.WithoutCancel(ctx), name, l.Capability, 0)
				}
				p.mu.Lock()
				p.took = append(p.took, took)
				if err != nil {
					p.fail++
				}
				p.mu.Unlock()
			}
		})
	}
	return clients.Wait
}

// p99 forgets what was, lets d pass, and returns what it then has seen.
func (p *paces) p99(d time.Duration) float64 {
	p.mu.Lock()
	p.took = nil
	p.mu.Unlock()
	time.Sleep(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.took)
	if len(p.took) == 0 {
		return d.Seconds() * 1000
	}
	return p.took[len(p.took)*99/100].Seconds() * 1000
}

// nodeFail measures what a node that hangs, and one that is dead, costs those who acquire.
func nodeFail(ctx context.Context, s *stand, length time.Duration) error {
	servers, c := durable(s)
	ctx, stop := context.WithCancel(ctx)
	p := &paces{}
	wait := p.load(ctx, c)
	p.p99(time.Second) // it warms up
	normal := p.p99(length / 3)
	servers[0].Pause()
	time.Sleep(2 * failTimeout)
	hangs := p.p99(length / 3)
	servers[0].Resume()
	awaitVotes(ctx, s, c)
	servers[1].Kill()
	time.Sleep(2 * failTimeout)
	dead := p.p99(length / 3)
	stop()
	wait()
	value("acquire p99, all nodes", normal, "ms")
	bar("acquire p99, a node hangs", hangs, "ms", hangs <= failTimes*normal, fmt.Sprintf("<= %.0f x normal", failTimes))
	bar("acquire p99, a node is dead", dead, "ms", dead <= failTimes*normal, fmt.Sprintf("<= %.0f x normal", failTimes))
	value("requests that failed", float64(p.fail), "")
	return nil
}

// reseed measures how soon a node that was emptied votes again under load.
func reseed(ctx context.Context, s *stand, _ time.Duration) error {
	servers, c := durable(s)
	ctx, stop := context.WithCancel(ctx)
	p := &paces{}
	wait := p.load(ctx, c)
	p.p99(time.Second)
	worst := 0.0
	for _, r := range servers {
		r.Kill()
		r.Forget()
		r.Restart()
		worst = max(worst, awaitVotes(ctx, s, c).Seconds())
	}
	stop()
	wait()
	bar("a node that was emptied votes again, worst of 3", worst, "s", worst <= backMax, fmt.Sprintf("<= %.0f s", backMax))
	value("requests that failed", float64(p.fail), "")
	return nil
}

// awaitVotes waits until all nodes vote, and returns how long that took.
func awaitVotes(ctx context.Context, s *stand, c *client.Client) time.Duration {
	begin := time.Now()
	for {
		nodes, err := c.Nodes(ctx)
		if err == nil && !slices.ContainsFunc(nodes.Items, func(n client.Node) bool { return n.State != "up" }) {
			return time.Since(begin)
		}
		if time.Since(begin) > coldPatience {
			s.Fatalf("not all nodes vote: %+v, %v", nodes, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// coldRestart measures how soon permits are granted after all nodes were killed at once, and that no lease is lost.
func coldRestart(ctx context.Context, s *stand, _ time.Duration) error {
	servers, c := durable(s)
	held := map[string]client.Lease{}
	for range coldLeases {
		l, err := c.Acquire(ctx, "cold", client.Ask{TTL: 10 * time.Minute, Create: &client.Definition{Limit: coldLeases + 1}})
		if err != nil {
			return err
		}
		held[l.ID] = l
	}
	for _, r := range servers {
		r.Kill()
	}
	for _, r := range servers {
		r.Restart()
	}
	begin := time.Now()
	for {
		_, err := c.Acquire(ctx, "cold", client.Ask{Wait: client.NoWait})
		if err == nil {
			break
		}
		if time.Since(begin) > coldPatience {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begin).Seconds()
	lost := 0
	for _, l := range held {
		if again, err := c.Renew(ctx, "cold", l.Capability, 0); err != nil || again.Slots != l.Slots || again.Fence != l.Fence {
			lost++
		}
	}
	bar("grants again after all nodes were restarted", took, "s", took <= backMax, fmt.Sprintf("<= %.0f s", backMax))
	bar("leases lost by that", float64(lost), "", lost == 0, fmt.Sprintf("0 of %d", coldLeases))
	return nil
}
