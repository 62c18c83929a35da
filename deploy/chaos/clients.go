package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/permitd/permitd/server/client"
)

// How clients behave.
const (
	waitMax    = 2 * time.Second
	answerMax  = 4 * time.Second // a request that takes longer is given up
	holdMax    = 50 * time.Millisecond
	holdLong   = 4 * time.Second // some hold for so long, which needs renewals
	retries    = 3
	abandons   = 0.1 // of the leases over REST are left to lapse
	pauseError = 50 * time.Millisecond
)

// semaphore is one that clients use.
type semaphore struct {
	name   string
	limit  int
	weight int // of a request, at most
}

// crowd is the clients.
type crowd struct {
	replicas   []*replica
	semaphores []semaphore
	history    *history
	now        func() time.Duration // since the start of the run
}

// run lets n clients work until ctx ends, and waits for them.
func (c *crowd) run(ctx context.Context, seed uint64, n int) {
	var all sync.WaitGroup
	for i := range n {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			w := &worker{crowd: c, id: i, dice: dice}
			for ctx.Err() == nil {
				if err := w.turn(); err != nil {
					c.history.count(kindOf(err))
					time.Sleep(pauseError)
				}
			}
		})
	}
	all.Wait()
}

// worker is one client.
type worker struct {
	*crowd
	id, requests int
	dice         *rand.Rand
}

// turn takes permits once and gives them back, over the channel or over REST.
func (w *worker) turn() error {
	s := w.semaphores[w.dice.IntN(len(w.semaphores))]
	ask := client.Ask{
		Permits: 1 + w.dice.IntN(s.weight), Wait: time.Duration(w.dice.Int64N(int64(waitMax))), TTL: time.Second + w.within(2*time.Second),
		Create: &client.Definition{Limit: s.limit}, Holder: fmt.Sprintf("client-%d", w.id),
	}
	if w.dice.IntN(2) == 0 {
		return w.overChannel(s.name, ask)
	}
	return w.overREST(s.name, ask)
}

func (w *worker) within(d time.Duration) time.Duration {
	return time.Duration(w.dice.Int64N(int64(d) + 1))
}

func (w *worker) anyone() *client.Client { return w.replicas[w.dice.IntN(len(w.replicas))].client }

// length is for how long to hold this time.
func (w *worker) length() time.Duration {
	if w.dice.IntN(10) == 0 {
		return w.within(holdLong)
	}
	return w.within(holdMax)
}

// overChannel takes permits that the server renews.
func (w *worker) overChannel(name string, ask client.Ask) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerMax)
	defer cancel()
	ch, err := w.anyone().Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ch.Close()) }()
	asked := w.now()
	h, err := ch.Acquire(ctx, name, ask)
	if err != nil {
		return err
	}
	x := w.told(h.Lease, asked)
	x.over = x.granted + h.Valid()
	end := time.After(w.length())
	for held := true; held; {
		select {
		case <-h.Lost():
			w.history.count("lost: " + h.Reason())
			x.over = min(x.over, w.now())
			w.lapses(x)
			return nil
		case <-end:
			held = false
		case <-time.After(20 * time.Millisecond):
			if valid := h.Valid(); valid > 0 {
				x.over = max(x.over, w.now()+valid)
			}
		}
	}
	return w.release(x, func(ctx context.Context) error { return h.Release(ctx) })
}

// overREST takes permits that this client renews; with a key, so that it may ask again elsewhere.
func (w *worker) overREST(name string, ask client.Ask) error {
	asked := w.now()
	if w.requests++; w.dice.IntN(2) == 0 {
		ask.Key = fmt.Sprintf("chaos-%d-%d", w.id, w.requests)
	}
	l, err := w.acquire(name, ask)
	if err != nil {
		return err
	}
	x := w.told(l, asked)
	x.over = x.granted + l.Validity
	end := w.now() + w.length()
	for w.now() < end && w.now() < x.over {
		time.Sleep(min(end-w.now(), l.RenewAfter, x.over-w.now()))
		if w.now() >= end {
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerMax)
		renewed, err := w.anyone().Renew(ctx, name, l.Capability, 0)
		cancel()
		if now := w.now(); err == nil && now < x.over {
			x.over = max(x.over, now+renewed.Validity)
		}
	}
	if w.dice.Float64() < abandons || w.now() >= x.over {
		w.lapses(x)
		return nil
	}
	return w.release(x, func(ctx context.Context) error {
		_, err := w.anyone().Release(ctx, name, l.Capability, 0)
		return err
	})
}

// acquire asks; with a key again, at any replica, when there was no answer.
func (w *worker) acquire(name string, ask client.Ask) (l client.Lease, err error) {
	for range retries {
		ctx, cancel := context.WithTimeout(context.Background(), answerMax)
		l, err = w.anyone().Acquire(ctx, name, ask)
		cancel()
		var p *client.Problem
		if err == nil || ask.Key == "" || errors.As(err, &p) && p.Kind == client.NoPermit {
			return l, err
		}
		time.Sleep(pauseError)
	}
	return l, err
}

func (w *worker) told(l client.Lease, asked time.Duration) hold {
	w.history.count("granted")
	return hold{
		client: w.id, semaphore: l.Semaphore, lease: l.ID, slots: slotsOf(l.Slots), fence: l.Fence, asked: asked, granted: w.now(), released: never,
	}
}

// lapses notes a lease that ends by itself.
func (w *worker) lapses(x hold) {
	x.over -= slack
	w.history.add(x)
}

// release gives a lease back; as often as it takes, but not for ever.
func (w *worker) release(x hold, give func(context.Context) error) error {
	now := w.now()
	if now >= x.over {
		w.lapses(x)
		return nil
	}
	x.over = min(now, x.over-slack)
	var err error
	for range retries {
		ctx, cancel := context.WithTimeout(context.Background(), answerMax)
		err = give(ctx)
		cancel()
		if err == nil {
			x.released = w.now()
			break
		}
	}
	w.history.add(x)
	return err
}

// slotsOf reads "0-3,7".
func slotsOf(text string) (slots []int) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, many := strings.Cut(part, "-")
		if !many {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil {
			return []int{-1} // no such slot: the check finds it
		}
		for s := a; s <= b; s++ {
			slots = append(slots, s)
		}
	}
	return slots
}

// kindOf is what an error is counted as.
func kindOf(err error) string {
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		return p.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "connection failed"
}
