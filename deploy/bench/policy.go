package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/server/client"
)

const (
	policyModule = "policies/guests/c/gold.wasm"
	policyBar    = 15 * time.Microsecond // what a policy may add to the median
)

// policy compares a lone acquire over the channel without and with a policy, by turns, so that both see the same neighbours. The
// policy reads one attribute.
func policy(ctx context.Context, s *stand, length time.Duration) error {
	sv := s.serve(s.build(), "--redis", strings.Join(s.redis(3), ","))
	c, err := client.New(client.Config{URL: sv.url})
	if err != nil {
		return err
	}
	defer c.Close()
	module, err := os.Open(policyModule)
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	defer func() { _ = module.Close() }()
	if _, err := c.PutPolicy(ctx, "gold", module, 0, false); err != nil {
		return err
	}
	for name, binding := range map[string]*client.Binding{"plain": nil, "weighed": {Name: "gold", Timeout: "500ms"}} {
		if _, err := c.Put(ctx, name, client.Definition{Limit: 1000, Policy: binding}, 0); err != nil {
			return err
		}
	}
	channel, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }()
	took := map[string][]time.Duration{}
	for began := time.Now(); time.Since(began) < length && ctx.Err() == nil; {
		for _, name := range []string{"plain", "weighed"} {
			t, err := acquireOnce(ctx, channel, name)
			if err != nil {
				return err
			}
			took[name] = append(took[name], t)
		}
	}
	plain, weighed := median(took["plain"]), median(took["weighed"])
	value("a lone acquire, median", float64(plain)/float64(time.Microsecond), "µs")
	value("the same with a policy bound, median", float64(weighed)/float64(time.Microsecond), "µs")
	more := weighed - plain
	bar("what the policy adds", float64(more)/float64(time.Microsecond), "µs", more <= policyBar, fmt.Sprintf("<= %v", policyBar))
	return nil
}

// acquireOnce takes a permit and gives it back; it returns how long the taking took.
func acquireOnce(ctx context.Context, channel *client.Channel, semaphore string) (time.Duration, error) {
	began := time.Now()
	hold, err := channel.Acquire(ctx, semaphore, client.Ask{Attributes: map[string]string{"tier": "gold"}})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, hold.Release(ctx)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
