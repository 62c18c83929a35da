package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// simulate plays a plan to its end, or until something is broken.
func simulate(t *testing.T, p plan, changes ...func(*world)) *world {
	w := newWorld(t, p, changes)
	w.begin()
	w.storm()
	w.calm()
	w.settle()
	w.end()
	return w
}

// readyMax is how long the first start may take.
const readyMax = 20 * time.Second

// begin waits for the replicas and declares the semaphores that are not made by their first use.
func (w *world) begin() {
	ctx, cancel := context.WithTimeout(w.t.Context(), readyMax)
	defer cancel()
	for _, r := range w.replicas {
		if err := r.current.Load().Ready(ctx); err != nil {
			w.check(fmt.Errorf("%s is not ready: %w", r.name, err))
			return
		}
	}
	for _, s := range w.plan.semaphores {
		if s.create {
			continue
		}
		_, _, err := w.replicas[0].current.Load().Put(ctx, s.name, s.def, engine.Condition{}, "simulation")
		if err != nil && !(w.plan.roughStart && errors.Is(err, engine.ErrQuorumUnavailable)) {
			w.check(fmt.Errorf("%s cannot be declared: %w", s.name, err))
			return
		}
	}
}

// storm lets clients loose on a network that is spoiled.
func (w *world) storm() {
	w.spoil(w.plan.faults)
	for i := range w.plan.clients {
		c := &client{w: w, dice: newDice(w.plan.seed, fmt.Sprint("client ", i)), habits: w.plan.habits, name: fmt.Sprint("c", i)}
		w.clients.Go(c.live)
	}
	for i := range w.plan.replicas {
		o := &operator{w: w, dice: newDice(w.plan.seed, fmt.Sprint("operator ", i))}
		w.operators.Go(o.live)
	}
	d := newDice(w.plan.seed, "storm")
	var undo []repair
	for end := w.now() + w.plan.length; w.now() < end && w.sleep(d.upTo(w.plan.moment)); {
		undo = w.trouble(d, undo)
		w.look()
	}
	for _, r := range undo {
		r.do()
	}
}

// calm ends all faults, and lets clients go on for a while: now nothing excuses a delay.
func (w *world) calm() {
	good := w.plan.faults
	w.spoil(enginetest.Faults{LatencyMin: good.LatencyMin, LatencyMax: good.LatencyMax, OneBatch: good.OneBatch})
	w.calming.Store(true)
	if !w.sleep(2 * time.Second) {
		return
	}
	if w.plan.eras {
		w.heal()
		if !w.sleep(2 * time.Second) { // for connections that were made meanwhile
			return
		}
		w.erasInCalm = w.erasAtTheEnd()
	}
	w.operators.Wait() // what they have begun may still be done
	w.redeclare()
	if !w.mixed() { // else a node is away for some, for as long as they have their list
		w.mu.Lock()
		w.calmAt = w.now()
		w.mu.Unlock()
	}
	d := newDice(w.plan.seed, "calm")
	for end := w.now() + w.plan.calm; w.now() < end && w.sleep(d.upTo(momentMax)); {
		w.look()
	}
}

// repair is the end of a trouble.
type repair struct {
	at time.Duration
	do func()
}

// trouble ends the troubles whose time has come, and starts others.
func (w *world) trouble(d dice, undo []repair) []repair {
	undo = slices.DeleteFunc(undo, func(r repair) bool {
		if r.at <= w.now() {
			r.do()
			return true
		}
		return false
	})
	for _, tr := range slices.Concat(troubles, eraTroubles) {
		if d.chance(w.plan.troubles[tr.name]) {
			after, do := tr.do(w, d)
			if do != nil {
				undo = append(undo, repair{w.now() + after, do})
			}
		}
	}
	return undo
}

// spoil changes what happens to messages from now on, also on ways that are made later.
func (w *world) spoil(f enginetest.Faults) {
	f.Seed = w.plan.seed
	w.faults = f
	for _, r := range w.replicas {
		for _, way := range r.ways {
			way.Spoil(f)
		}
	}
}

// settleMax is how long the last waiters and holders may take when there are no faults any more.
const settleMax = 5 * time.Minute

// settle waits until every client has come home. Nobody asks any more.
func (w *world) settle() {
	w.winding.Store(true)
	home := make(chan struct{})
	go func() {
		w.clients.Wait()
		close(home)
	}()
	d := newDice(w.plan.seed, "settle")
	for end := w.now() + settleMax + w.plan.habits.think; w.now() < end; {
		select {
		case <-home:
			return
		case <-time.After(d.upTo(w.plan.moment)):
			w.look()
		}
	}
	w.check(fmt.Errorf("%v after the last fault some client still waits or holds", settleMax))
	<-home
}

// redeclare makes every semaphore what the plan says, so that all who wait can be served.
func (w *world) redeclare() {
	for _, s := range w.plan.semaphores {
		def := s.def
		def.Description = "as planned" // so that it is written: what was begun and never answered cannot be done later
		w.called("the last Put", func(ctx context.Context) {
			if _, _, err := w.replicas[0].current.Load().Put(ctx, s.name, def, engine.Condition{}, "simulation"); err != nil {
				w.check(fmt.Errorf("without faults %s cannot be declared: %w", s.name, err))
			}
		})
	}
}

// end waits until every TTL is over, sees that nothing is left, and closes the replicas. That none of their goroutines is
// left the bubble sees to.
func (w *world) end() {
	for end := w.now() + ttlMax + claimTTLMax + time.Second; w.now() < end && w.sleep(time.Second); {
		w.look()
	}
	if !w.isBroken() {
		w.quiet()
	}
	for _, r := range w.replicas {
		r.close()
	}
	w.network.close()
}

// What is left on a node ends so long after the last holder at the latest: the longest TTL of a plan, and that of a claim.
const (
	ttlMax      = 90 * time.Second
	claimTTLMax = 60 * time.Second
)

// quiet checks that nobody holds, waits or cools any more, on the nodes and as the replicas see it.
func (w *world) quiet() {
	w.checkFormed()
	if eras := w.erasAtTheEnd(); !slices.Equal(eras, w.erasInCalm) {
		w.check(fmt.Errorf("without faults the nodes went from the eras %v to %v", w.erasInCalm, eras))
	}
	for _, s := range w.plan.semaphores {
		for _, r := range w.replicas {
			w.called("the last Semaphore", func(ctx context.Context) {
				sem, err := r.current.Load().Semaphore(ctx, s.name)
				st := sem.Status
				if err != nil || cmp.Or(st.InUse, st.Cooling, st.OverCommitted, st.Waiting, st.Leases) != 0 || st.Available != s.def.Limit {
					w.check(fmt.Errorf("at the end %s sees %s as %+v, %w", r.name, s.name, st, err))
				}
			})
		}
		for _, n := range w.inUse() { // the replicas' reading has dropped what was over
			if page := n.Look(s.name); len(page.Leases)+len(page.Cooling)+len(page.Places) > 0 {
				w.check(fmt.Errorf("at the end %s has of %s %+v", n.Name(), s.name, page))
			}
		}
	}
}

// checkFormed: the nodes are of one cluster, each under an index of its own.
func (w *world) checkFormed() {
	clusters, indexes := map[string]bool{}, map[int]bool{}
	nodes := w.inUse()
	for _, n := range nodes {
		cluster, index := n.Identity()
		clusters[cluster], indexes[index] = true, true
	}
	if len(clusters) != 1 || len(indexes) != w.plan.nodes || len(nodes) != w.plan.nodes {
		w.check(fmt.Errorf("the nodes were formed into clusters %v, with the indexes %v", clusters, indexes))
	}
}
