package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/server/client"
)

const (
	handoverP50  = 600 * time.Microsecond
	handoverP99  = 3 * time.Millisecond
	handoverRest = 5 * time.Millisecond // for the next to stand in line before each hand-over
)

// handover lets two clients, each with a lease channel, hand one permit to each other over three nodes, while nothing else goes on,
// and tells how long it takes from the release of one to the grant of the other.
func handover(ctx context.Context, s *stand, length time.Duration) error {
	nodes := strings.Join(s.redis(3), ",")
	permitd := s.serve(s.build(), "--redis", nodes)
	var channels [2]*client.Channel
	for i := range channels {
		c, err := client.New(client.Config{URL: permitd.url})
		if err != nil {
			return err
		}
		if channels[i], err = c.Dial(ctx); err != nil {
			return err
		}
		s.Cleanup(func() { _ = channels[i].Close() })
	}
	ask := client.Ask{Wait: time.Minute, Create: &client.Definition{Limit: 1}}
	holds, err := channels[0].Acquire(ctx, "handover", ask)
	if err != nil {
		return err
	}
	var took []time.Duration
	for end := time.Now().Add(length); time.Now().Before(end); {
		next := make(chan error, 1)
		var granted time.Time
		var got *client.Hold
		other := channels[(len(took)+1)%2]
		go func() {
			var err error
			got, err = other.Acquire(ctx, "handover", ask)
			granted = time.Now()
			next <- err
		}()
		time.Sleep(handoverRest)
		released := time.Now()
		if err := errors.Join(holds.Close(), <-next); err != nil {
			return err
		}
		took, holds = append(took, granted.Sub(released)), got
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	value("hand-overs", float64(len(took)), "")
	bar("release to the next grant, p50", ms(p50), "ms", p50 <= handoverP50, fmt.Sprintf("<= %v", handoverP50))
	bar("release to the next grant, p99", ms(p99), "ms", p99 <= handoverP99, fmt.Sprintf("<= %v", handoverP99))
	value("release to the next grant, longest", ms(took[len(took)-1]), "ms")
	return nil
}
