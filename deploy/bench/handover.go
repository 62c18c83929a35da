package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	handoverP50  = 600 * time.Microsecond
	handoverP99  = 3 * time.Millisecond
	handoverRest = 5 * time.Millisecond // for the next to stand in line before each hand-over
)

// handover lets two clients, each with a lease channel, hand one permit to each other over three nodes, while nothing else goes on,
// and tells how long it takes from the release of one to the grant of the other. By turns two clients of a bare server do so.
func handover(ctx context.Context, s *stand, length time.Duration) error {
	nodes := strings.Join(s.redis(3), ",")
	permitd, bareURL := s.serve(s.build(), "--redis", nodes), startBare(s, nodes, 1)
	ours := relay{clients: [2]acquirer{overChannel(ctx, s, permitd.url, 1), overChannel(ctx, s, permitd.url, 1)}}
	bare := relay{clients: [2]acquirer{overBare(s, bareURL), overBare(s, bareURL)}}
	for end := time.Now().Add(length); time.Now().Before(end); {
		for _, r := range []*relay{&ours, &bare} {
			if err := r.next(ctx); err != nil {
				return err
			}
		}
	}
	p50, p99 := ours.took(0.5), ours.took(0.99)
	value("hand-overs", float64(len(ours.times)), "")
	value("a bare server, p50", ms(bare.took(0.5)), "ms")
	value("a bare server, p99", ms(bare.took(0.99)), "ms")
	bar("release to the next grant, p50", ms(p50), "ms", p50 <= handoverP50, fmt.Sprintf("<= %v", handoverP50))
	bar("release to the next grant, p99", ms(p99), "ms", p99 <= handoverP99, fmt.Sprintf("<= %v", handoverP99))
	value("release to the next grant, longest", ms(ours.took(1)), "ms")
	return nil
}

// relay is two clients that hand one permit to each other.
type relay struct {
	clients [2]acquirer
	turn    int
	release func() // of whoever holds it; nil: nobody does yet
	times   []time.Duration
}

// next lets the other client wait for the permit, and hands it over.
func (r *relay) next(ctx context.Context) (err error) {
	if r.release == nil {
		if r.release, err = r.clients[0](ctx); err != nil {
			return err
		}
	}
	r.turn = 1 - r.turn
	var granted time.Time
	var release func()
	heard := make(chan error, 1)
	go func() {
		var err error
		release, err = r.clients[r.turn](ctx)
		granted = time.Now()
		heard <- err
	}()
	time.Sleep(handoverRest)
	released := time.Now()
	r.release()
	if err := <-heard; err != nil {
		return err
	}
	r.times, r.release = append(r.times, granted.Sub(released)), release
	return nil
}

// took is the time that a part q of the hand-overs did not exceed.
func (r *relay) took(q float64) time.Duration {
	slices.Sort(r.times)
	return r.times[min(int(q*float64(len(r.times))), len(r.times)-1)]
}
