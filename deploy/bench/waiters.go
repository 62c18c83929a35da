package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/redisnode"
)

const (
	waitersCount   = 100_000
	waitersPermits = 200
	waitersHold    = 50 * time.Millisecond
	waitersBar     = 1.02
)

// waiters lets a hundred thousand wait at once in one replica, each of whom holds once, and compares how long it takes until all
// have. It takes as long as that takes, 25 s and more.
func waiters(ctx context.Context, s *stand, _ time.Duration) error {
	control := &fair{free: waitersPermits}
	best, err := everybodyOnce(ctx, func(w *waiter) { control.ask(func() { w.granted(control.release) }) })
	if err != nil {
		return err
	}
	e, err := openEngine(ctx, s.redis(3))
	if err != nil {
		return err
	}
	defer e.Close()
	if _, _, err := e.Put(ctx, "bench", engine.Definition{Limit: waitersPermits, MaxWaiters: waitersCount}, engine.Condition{}, "bench"); err != nil {
		return err
	}
	var again atomic.Int64
	took, err := everybodyOnce(ctx, func(w *waiter) { (&asking{waiter: w, ctx: ctx, engine: e, again: &again}).ask() })
	if err != nil {
		return err
	}
	value("control, until all have held", best.Seconds(), "s")
	value("permitd, until all have held", took.Seconds(), "s")
	value("permitd, told quorum_unavailable and asked again", float64(again.Load()), "")
	bar("permitd / control", took.Seconds()/best.Seconds(), "", took.Seconds() <= waitersBar*best.Seconds(), fmt.Sprintf("<= %v", waitersBar))
	return nil
}

// openEngine opens an engine on Redis nodes and waits until it is ready.
func openEngine(ctx context.Context, addrs []string) (*engine.Engine, error) {
	var nodes []engine.Node
	for _, addr := range addrs {
		node, err := redisnode.New(redisnode.Config{Addr: addr, Prefix: "permitd"})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	e, err := engine.Open(engine.Config{Nodes: nodes})
	if err != nil {
		return nil, err
	}
	if err := e.Ready(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// crowd is everybody who is to hold once.
type crowd struct {
	left     sync.WaitGroup
	inFlight atomic.Int64
	most     atomic.Int64
	failed   atomic.Value
}

// waiter is one of them.
type waiter struct{ *crowd }

// granted holds for a while and gives back.
func (w *waiter) granted(release func()) {
	n := w.inFlight.Add(1)
	for m := w.most.Load(); n > m && !w.most.CompareAndSwap(m, n); m = w.most.Load() {
	}
	time.AfterFunc(waitersHold, func() {
		w.inFlight.Add(-1)
		release()
		w.left.Done()
	})
}

func (w *waiter) fail(err error) {
	w.failed.Store(err)
	w.left.Done()
}

// everybodyOnce lets all ask at the same time and returns how long it took until all have held.
func everybodyOnce(ctx context.Context, ask func(*waiter)) (time.Duration, error) {
	c := &crowd{}
	c.left.Add(waitersCount)
	start := time.Now()
	for range waitersCount {
		ask(&waiter{c})
	}
	c.left.Wait()
	took := time.Since(start)
	if err, failed := c.failed.Load().(error); failed {
		return 0, err
	}
	if physical := waitersHold * waitersCount / waitersPermits; took < physical || c.most.Load() > waitersPermits {
		return 0, fmt.Errorf("%w: it took %v where %v are needed, with %d at once", errPhysics, took, physical, c.most.Load())
	}
	return took, ctx.Err()
}

// asking is a request of the engine. Its events come with locks of the engine held.
type asking struct {
	*waiter

	ctx    context.Context
	engine *engine.Engine
	again  *atomic.Int64
}

func (a *asking) ask() { a.engine.Ask("bench", engine.Ask{Wait: engine.WaitMax}, a) }

// Granted, Refused, Failed and the others are engine.Events.
func (a *asking) Granted(l engine.Lease) {
	a.granted(func() { _, _ = a.engine.Release(a.ctx, "bench", l.Capability, 0) })
}

func (a *asking) Refused(r engine.Refusal) { a.fail(fmt.Errorf("refused: %+v", r)) }

// Failed asks again where a machine that is too busy kept a quorum from answering in time, as any client would.
func (a *asking) Failed(err error) {
	if !errors.Is(err, engine.ErrQuorumUnavailable) {
		a.fail(err)
		return
	}
	a.again.Add(1)
	time.AfterFunc(100*time.Millisecond, a.ask)
}

func (a *asking) Lost(reason string)           { a.failed.Store(errors.New("lost: " + reason)) }
func (*asking) Waiting(int)                    {}
func (*asking) Renewed(time.Duration)          {}
func (*asking) Expiring(time.Duration, string) {}
