package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/server/client"
)

// contended is a row in which clients want one semaphore all the time.
type contended struct {
	clients, permits int
	hold             time.Duration
	replicas         int
	rate             float64       // bar: of the control's
	p99              time.Duration // bar: above the control's; 0: none
	p99Times         float64       // bar: of the control's; 0: none
	scripts          float64       // bar: a grant, all nodes together; 0: none
}

// acquirer takes a permit and returns how to give it back.
type acquirer func(context.Context) (release func(), err error)

// result is what a run came to.
type result struct {
	grants  int
	elapsed time.Duration
	waits   []time.Duration // sorted
	most    int64           // in flight at once, as the monitor counted
}

func (r result) rate() float64 { return float64(r.grants) / r.elapsed.Seconds() }

func (r result) wait(q float64) time.Duration {
	if len(r.waits) == 0 {
		return 0
	}
	return r.waits[min(len(r.waits)-1, int(q*float64(len(r.waits))))]
}

// drive lets the clients loop for length and counts, independently of any semaphore, how many are in flight.
func (c contended) drive(ctx context.Context, length time.Duration, acquirers []acquirer) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var (
		mu       sync.Mutex
		r        result
		failed   error
		inFlight atomic.Int64
		most     atomic.Int64
		clients  sync.WaitGroup
	)
	start := time.Now()
	for _, acquire := range acquirers {
		clients.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				release, err := acquire(ctx)
				if err != nil {
					if ctx.Err() == nil {
						mu.Lock()
						failed = err
						mu.Unlock()
						cancel()
					}
					return
				}
				n, waited := inFlight.Add(1), time.Since(asked)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(c.hold)
				inFlight.Add(-1)
				release()
				mu.Lock()
				r.grants++
				r.waits = append(r.waits, waited)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	r.elapsed, r.most = time.Since(start), most.Load()
	slices.Sort(r.waits)
	if failed != nil {
		return r, failed
	}
	if physical := float64(c.permits) / c.hold.Seconds(); r.rate() > physical*1.001 || r.most > int64(c.permits) {
		return r, fmt.Errorf("%w: %.1f grants a second where %.1f are possible, %d at once of %d", errPhysics,
			r.rate(), physical, r.most, c.permits)
	}
	return r, nil
}

func (c contended) run(ctx context.Context, s *stand, length time.Duration) error {
	control := &fair{free: c.permits}
	best, err := c.drive(ctx, length, slices.Repeat([]acquirer{control.acquire}, c.clients))
	if err != nil {
		return err
	}
	nodes := strings.Join(s.redis(3), ",")
	bareURL := startBare(s, nodes, c.permits)
	var clients []acquirer
	for range c.clients {
		clients = append(clients, overBare(s, bareURL))
	}
	floor, err := c.drive(ctx, length, clients)
	if err != nil {
		return err
	}
	binary := s.build()
	var servers []*server
	for range c.replicas {
		servers = append(servers, s.serve(binary, "--redis", nodes))
	}
	var acquirers []acquirer
	for i := range c.clients {
		acquirers = append(acquirers, overChannel(ctx, s, servers[i%len(servers)].url, c.permits))
	}
	before := calls(s, nodes)
	got, err := c.drive(ctx, length, acquirers)
	if err != nil {
		return err
	}
	scripts := float64(calls(s, nodes)-before) / float64(got.grants)
	ratio := got.rate() / best.rate()
	over := got.wait(0.99) - best.wait(0.99)
	value("control, grants a second", best.rate(), "/s")
	value("a bare server, grants a second", floor.rate(), "/s")
	value("a bare server / control", floor.rate()/best.rate(), "")
	value("permitd / a bare server", got.rate()/floor.rate(), "")
	value("a bare server, wait p99 - control's", ms(floor.wait(0.99)-best.wait(0.99)), "ms")
	value("permitd, grants a second", got.rate(), "/s")
	bar("permitd / control", ratio, "", ratio >= c.rate, fmt.Sprintf(">= %.2f", c.rate))
	value("control, wait p99", ms(best.wait(0.99)), "ms")
	value("permitd, wait p50", ms(got.wait(0.5)), "ms")
	if times := float64(got.wait(0.99)) / float64(best.wait(0.99)); c.p99Times > 0 {
		bar("permitd, wait p99 / control's", times, "", times <= c.p99Times, fmt.Sprintf("<= %v", c.p99Times))
	} else {
		bar("permitd, wait p99 - control's", ms(over), "ms", over <= c.p99, fmt.Sprintf("<= %v", c.p99))
	}
	value("permitd, longest wait", ms(got.wait(1)), "ms")
	if c.scripts > 0 {
		bar("scripts a grant, all nodes together", scripts, "", scripts <= c.scripts, fmt.Sprintf("<= %v", c.scripts))
	} else {
		value("scripts a grant, all nodes together", scripts, "")
	}
	bar("most in flight, counted apart", float64(got.most), "", got.most <= int64(c.permits), fmt.Sprintf("<= %d", c.permits))
	return nil
}

// overChannel is a client with a lease channel of its own.
func overChannel(ctx context.Context, s *stand, url string, limit int) acquirer {
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		s.Fatalf("%v", err)
	}
	channel, err := c.Dial(ctx)
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(func() { _ = channel.Close() })
	return func(ctx context.Context) (func(), error) {
		hold, err := channel.Acquire(ctx, "bench", client.Ask{Wait: time.Minute, Create: &client.Definition{Limit: limit}})
		if err != nil {
			return nil, err
		}
		// As the control's, a client's next request does not wait for its release to be acknowledged.
		return func() { _ = hold.Close() }, nil
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
