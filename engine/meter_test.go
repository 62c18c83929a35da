package engine_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// meter keeps what it hears.
type meter struct {
	mu         sync.Mutex // guards what follows
	handovers  []time.Duration
	claims     []int
	violations []string
}

func (m *meter) HandedOver(took time.Duration) {
	m.note(func() { m.handovers = append(m.handovers, took) })
}

func (m *meter) Granted(claims int) { m.note(func() { m.claims = append(m.claims, claims) }) }

func (m *meter) Violated(invariant string) {
	m.note(func() { m.violations = append(m.violations, invariant) })
}

func (m *meter) note(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

// measured starts an engine on the stage that tells a meter.
func (s *stage) measured(faults enginetest.Faults) (*engine.Engine, *meter) {
	s.t.Helper()
	m := &meter{}
	e, err := engine.Open(engine.Config{Nodes: s.Replica(faults).Nodes(), Now: s.Now, Meter: m})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(e.Close)
	if err := e.Ready(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return e, m
}

func TestHandOversAndClaimsAreMeasured(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		const way = time.Millisecond
		e, m := s.measured(enginetest.Faults{LatencyMin: way, LatencyMax: way})
		other, _ := s.measured(enginetest.Faults{LatencyMin: way, LatencyMax: way})
		acquire := func(e *engine.Engine, wait time.Duration) engine.Lease {
			o, err := e.Acquire(t.Context(), db, engine.Ask{Wait: wait, Create: &engine.Definition{Limit: 1}})
			if err != nil || o.Refusal != nil {
				t.Errorf("%+v, %v", o.Refusal, err)
			}
			return o.Lease
		}
		free := func(e *engine.Engine, l engine.Lease) {
			if _, err := e.Release(t.Context(), db, l.Capability, 0); err != nil {
				t.Error(err)
			}
		}
		first := acquire(e, 0)
		var next engine.Lease
		waiting := make(chan struct{})
		go func() { defer close(waiting); next = acquire(e, time.Minute) }()
		time.Sleep(100 * time.Millisecond) // less than a head takes to ask again by itself
		free(e, first)
		<-waiting
		free(e, next)
		if want := []time.Duration{2 * way}; !slices.Equal(m.handovers, want) { // claim and release go in one pipeline
			t.Errorf("handed over here: %v, want %v", m.handovers, want)
		}
		if want := []int{1, 2}; !slices.Equal(m.claims, want) {
			t.Errorf("claims of the grants: %v, want %v", m.claims, want)
		}
		far := acquire(other, time.Minute)
		waiting = make(chan struct{})
		go func() { defer close(waiting); next = acquire(e, time.Minute) }()
		time.Sleep(time.Second)
		free(other, far)
		<-waiting
		if n := len(m.handovers); n != 2 || m.handovers[1] != 2*way { // from the nodes' message on
			t.Errorf("handed over from elsewhere: %v", m.handovers)
		}
		if len(m.violations) > 0 {
			t.Errorf("violated: %v", m.violations)
		}
	})
}

// Nodes that keep no promise are noticed.
func TestBrokenPromisesAreNoticed(t *testing.T) {
	for name, lie := range map[string]func(op engine.Op, a *engine.Answer){
		"fence": func(op engine.Op, a *engine.Answer) {
			if _, claims := op.(*engine.Claim); claims && a.Says == engine.SaysGranted {
				a.Fence = 7
			}
		},
		"slots": func(op engine.Op, a *engine.Answer) {
			if _, claims := op.(*engine.Claim); claims && a.Says == engine.SaysGranted {
				a.Slots = quorum.Slots{{First: 1, Last: 2}}
			}
		},
		"owner": func(_ engine.Op, a *engine.Answer) {
			if a.View != nil && len(a.View.Leases) == 2 {
				a.View.Leases[1].Slots = a.View.Leases[0].Slots
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				e, m := s.measured(enginetest.Faults{})
				for _, server := range s.Servers {
					server.Around(func(next enginetest.Apply) enginetest.Apply {
						return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
							a, wakes := next(now, h, at, p, op)
							if a != nil {
								lie(op, a)
							}
							return a, wakes
						}
					})
				}
				for range 2 {
					o, err := e.Acquire(t.Context(), db, engine.Ask{Create: &engine.Definition{Limit: 2}})
					if err != nil || o.Refusal != nil {
						t.Fatal(o.Refusal, err)
					}
				}
				if _, err := e.Semaphore(t.Context(), db); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Contains(m.violations, name) || slices.ContainsFunc(m.violations, func(v string) bool { return v != name }) {
					t.Errorf("noticed: %v", m.violations)
				}
			})
		})
	}
}
