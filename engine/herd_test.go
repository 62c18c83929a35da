package engine_test

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// load counts what nodes do. Safe for concurrent use.
type load struct {
	mu  sync.Mutex // guards what follows
	ops map[string]int
}

// wakes is how load counts messages to replicas that wait.
const wakes = "wake"

// watch counts from now on what the nodes do, all together. Probes of idle nodes are not among it.
func (s *stage) watch() *load {
	l := &load{ops: map[string]int{}}
	for _, server := range s.Servers {
		server.Around(func(next enginetest.Apply) enginetest.Apply {
			return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
				answer, woken := next(now, h, at, p, op)
				l.mu.Lock()
				defer l.mu.Unlock()
				l.ops[engine.OpName(op)]++
				l.ops[wakes] += len(woken)
				return answer, woken
			}
		})
	}
	return l
}

// counts are how often each thing was done, and how many scripts that were.
func (l *load) counts() (ops map[string]int, scripts int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops = maps.Clone(l.ops)
	for op, n := range ops {
		if op != wakes {
			scripts += n
		}
	}
	return ops, scripts
}

// There is no herd: however many wait, a permit that comes free is one message a node to the replica of the head alone, which claims
// for it alone.
func TestAGrantCostsFewCommandsHoweverManyWait(t *testing.T) {
	for _, c := range []struct {
		replicas, clients int
		scripts           float64 // a grant, all nodes together
	}{
		{1, 60, 9},
		{3, 60, 12},
		{3, 600, 12},
	} {
		t.Run(fmt.Sprintf("%d clients of %d replicas", c.clients, c.replicas), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				const permits, hold = 10, 20 * time.Millisecond
				var replicas []*player
				for i := range c.replicas {
					faults := near
					faults.Seed = uint64(i)
					replicas = append(replicas, s.playerOver(faults))
				}
				replicas[0].declare(engine.Definition{Limit: permits})
				var grants atomic.Int64
				var over atomic.Bool
				var clients sync.WaitGroup
				for i := range c.clients {
					r := replicas[i%len(replicas)]
					clients.Go(func() {
						for !over.Load() {
							l := r.now(t, engine.Ask{Wait: time.Minute})
							grants.Add(1)
							time.Sleep(hold)
							r.giveBack(l)
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
				seen, before := s.watch(), grants.Load()
				const lasts = 2 * time.Second
				time.Sleep(lasts)
				n := float64(grants.Load() - before)
				ops, scripts := seen.counts()
				t.Logf("%v grants, %.2f scripts each: %v", n, float64(scripts)/n, ops)
				if rate := n / (lasts.Seconds() * permits / hold.Seconds()); rate < 0.9 || rate > 1 {
					t.Errorf("%.0f %% of the grants that there is room for", 100*rate)
				}
				if each := float64(scripts) / n; each > c.scripts {
					t.Errorf("a grant takes %.2f scripts on all nodes; want %v", each, c.scripts)
				}
				if each := float64(ops[wakes]) / n; each > 2*float64(len(s.Servers)) {
					t.Errorf("a grant takes %.2f wakes", each)
				}
				over.Store(true)
				clients.Wait()
			})
		})
	}
}

// However many wait at a replica, they are one place on a node, which says how many they are.
func TestAHundredThousandWaitersAreOnePlace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		waiters := oftenIn(t, 100_000)
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2, MaxWaiters: waiters})
		l := r1.acquire(engine.Ask{Permits: 2})
		seen := s.watch()
		line := make([]*engine.Request, waiters)
		for i := range line {
			line[i] = r1.Ask(db, engine.Ask{Permits: 1 + i%2, Wait: time.Hour}, &asked{t: t, start: time.Now()})
		}
		synctest.Wait()
		if ops, scripts := seen.counts(); scripts > 10*len(s.Servers) {
			t.Errorf("to stand in line they took %v", ops)
		}
		time.Sleep(10 * time.Second) // their number is told with the next claim
		for _, server := range s.Servers {
			page, _ := server.View(db)
			if len(page.Places) != 1 || page.Places[0].Count != waiters || page.Places[0].Total != waiters/2*3 {
				t.Errorf("the line of %s is %+v", server.Name(), page.Places)
			}
		}
		if ops, scripts := seen.counts(); scripts > 100*len(s.Servers) { // the head's rechecks
			t.Errorf("to wait for 10 s they took %v", ops)
		}
		if got := r2.status().Waiting; got != waiters {
			t.Errorf("R2 sees %d that wait", got)
		}
		for _, r := range line {
			r.Cancel()
		}
		r1.release(l, 0)
		s.noPlaces()
		s.uses(r2, 0)
	})
}
