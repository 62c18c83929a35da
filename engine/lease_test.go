package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

func TestAKeptLeaseLivesForAsLongAsItsHolderIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		every time.Duration // at the latest
	}{
		"a second":       {time.Second, 334 * time.Millisecond},
		"the usual TTL":  {30 * time.Second, 10 * time.Second},
		"over a minute":  {5 * time.Minute, 45 * time.Second},
		"an hour":        {time.Hour, 45 * time.Second},
		"until released": {engine.Never, 0},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.playerOver(near), s.playerOver(near)
				r1.declare(engine.Definition{Limit: 1})
				request := r1.ask(engine.Ask{TTL: c.ttl, Kept: true, Wait: time.Second})
				time.Sleep(10 * time.Millisecond)
				l := request.mustHold()
				const rounds = 100
				step := c.every
				if c.ttl == engine.Never {
					step = time.Minute
				}
				for range rounds {
					time.Sleep(step)
					r2.ask(engine.Ask{}).fadeAway()
				}
				got := request.look()
				if !got.holds() || strings.Contains(got.told, "expiring") {
					t.Fatalf("it was told: %s", got.told)
				}
				if n := strings.Count(got.told, "renewed"); c.ttl != engine.Never && n < rounds-1 {
					t.Errorf("in %v it was renewed %d times", rounds*step, n)
				}
				if c.ttl != engine.Never && got.renewed < c.ttl-c.ttl/100-30*time.Millisecond {
					t.Errorf("renewed its validity is %v", got.renewed)
				}
				if now := s.a.Record(db, l.ID); now.Fence != l.Fence || now.Slots.String() != l.Slots.String() {
					t.Errorf("it has fence %d and slots %v; it was granted %d and %v", now.Fence, now.Slots, l.Fence, l.Slots)
				}
				request.Cancel()
				time.Sleep(10 * time.Millisecond)
				s.uses(r2, 0)
			})
		})
	}
}

// fadeAway fails the test if the request was granted.
func (a *asked) fadeAway() {
	a.t.Helper()
	time.Sleep(10 * time.Millisecond)
	a.mustBeRefused()
}

func TestAKeptLeaseThatLosesItsQuorumIsToldBeforeAnyoneElseIsGranted(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		request.mustHold()
		next := r2.ask(engine.Ask{Wait: time.Hour})
		time.Sleep(12 * time.Second) // it was renewed at 10 s
		r1.a.Disconnect()
		r1.b.Disconnect()
		time.Sleep(17 * time.Second)
		if got := request.look(); strings.Contains(got.told, "expiring") {
			t.Errorf("with more than a third of its TTL left it was told: %s", got.told)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := request.look(); !strings.Contains(got.told, "expiring a renewal failed") || got.lost != "" {
			t.Errorf("with less than a third of its TTL left it was told: %s", got.told)
		}
		time.Sleep(30*time.Second + 10*time.Second - 325*time.Millisecond - 30500*time.Millisecond - time.Millisecond)
		if got := request.look(); got.lost != "" {
			t.Errorf("a moment before the end of its validity: %s", got.told)
		}
		next.mustWait()
		time.Sleep(2 * time.Millisecond)
		request.mustBeLost("quorum_lost")
		next.mustWait()
		time.Sleep(time.Second)
		next.mustHold()
		if n := strings.Count(request.look().told, "expiring"); n != 1 {
			t.Errorf("it was told %d times that it expires", n)
		}
	})
}

func TestAKeptLeaseOutlivesAShortLossOfItsQuorum(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		for range 5 {
			request.mustHold()
			r1.a.Disconnect()
			r1.b.Disconnect()
			time.Sleep(15 * time.Second)
			r1.a.Connect()
			r1.b.Connect()
			time.Sleep(5 * time.Second)
		}
		request.mustHold()
	})
}

// What is told is never longer than what a quorum of the nodes holds, whatever the network and the clocks do.
func TestNoValidityIsLongerThanAQuorumHolds(t *testing.T) {
	for name, c := range map[string]struct {
		faults enginetest.Faults
		rates  []float64
	}{
		"at once":           {enginetest.Faults{Timeout: -1}, []float64{1, 1, 1}},
		"slowly":            {enginetest.Faults{LatencyMin: 10 * time.Millisecond, LatencyMax: 200 * time.Millisecond, Timeout: -1}, []float64{1, 1, 1}},
		"with wrong clocks": {enginetest.Faults{LatencyMax: 20 * time.Millisecond, Timeout: -1}, []float64{1.0009, 0.9991, 1.0009}},
		"by all means":      {enginetest.Faults{LatencyMax: 200 * time.Millisecond, Slow: 0.1, SlowMax: 200 * time.Millisecond, Timeout: -1}, []float64{1.0009, 1.0009, 1.0009}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				for i, rate := range c.rates {
					s.Servers[i].Rate(rate)
				}
				r1 := s.playerOver(c.faults)
				r1.declare(engine.Definition{Limit: 1})
				for _, ttl := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute} {
					l := r1.now(t, engine.Ask{TTL: ttl, Wait: time.Minute})
					s.mustHoldFor(l, c.rates)
					for range 5 {
						time.Sleep(l.Validity / 3)
						r, err := r1.Renew(t.Context(), db, l.Capability, 0)
						if err != nil {
							t.Fatalf("renewal of %v: %v", ttl, err)
						}
						s.mustHoldFor(r, c.rates)
					}
					r1.giveBack(l)
					time.Sleep(2 * time.Second)
				}
			})
		})
	}
}

// mustHoldFor fails the test unless two nodes hold the lease for at least the validity that was told, as time goes and not as
// their clocks do.
func (s *stage) mustHoldFor(l engine.Lease, rates []float64) {
	s.t.Helper()
	n := 0
	for i, server := range s.Servers {
		if r := server.Record(db, l.ID); r != nil && float64(r.Left)/rates[i] >= float64(l.Validity) {
			n++
		}
	}
	if n < 2 {
		s.t.Errorf("a validity of %v was told of a lease of %v; %d nodes hold it so long", l.Validity, l.TTL, n)
	}
	if l.Validity > l.TTL || l.Validity <= 0 {
		s.t.Errorf("a validity of %v was told of a lease of %v", l.Validity, l.TTL)
	}
}

func TestATTLOverAMinuteIsConfirmedBeforeItIsTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.ways.Hold("renew")
		request := r1.ask(engine.Ask{TTL: 10 * time.Minute})
		request.mustWait()
		_, leases := s.a.View(db)
		if len(leases) != 1 || leases[0].Left != time.Minute || !leases[0].First {
			t.Fatalf("A has %+v; a claim leaves no more than a minute behind", leases)
		}
		r1.a.Next("renew").Deliver()
		request.mustWait()
		r1.c.Next("renew").Deliver()
		l := request.mustHold()
		if l.TTL != 10*time.Minute || l.Validity != 10*time.Minute-6*time.Second-25*time.Millisecond {
			t.Errorf("granted for %v, valid for %v", l.TTL, l.Validity)
		}
		r1.ways.Pass(enginetest.Any)
		for _, server := range s.Servers {
			if r := server.Record(db, l.ID); r.First || r.Left != 10*time.Minute {
				t.Errorf("%s has %+v", server.Name(), r)
			}
		}
	})
}

func TestALeaseWhoseTTLCanNotBeConfirmedIsGivenBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.ways.Hold("renew")
		request := r1.ask(engine.Ask{TTL: 10 * time.Minute})
		r1.a.Next("renew").Deliver()
		time.Sleep(600 * time.Millisecond) // longer than the node time-out
		if got := request.look(); !errors.Is(got.err, engine.ErrQuorumUnavailable) {
			t.Errorf("it was told: %s %v", got.told, got.err)
		}
		r1.ways.Pass(enginetest.Any)
		time.Sleep(10 * time.Millisecond)
		s.empty()
	})
}

func TestALeaseWithoutAnEndLivesUntilItIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: engine.Never})
		if l.TTL != engine.Never || l.Validity != 0 || l.RenewAfter != 0 {
			t.Errorf("granted for %v, valid for %v, to be renewed after %v", l.TTL, l.Validity, l.RenewAfter)
		}
		if l, err := r1.renew(l, time.Minute).verdict(); err != nil || l.TTL != engine.Never || l.Validity != 0 {
			t.Errorf("renewed with a TTL: %+v, %v", l, err)
		}
		time.Sleep(2 * time.Hour)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		r2.ask(engine.Ask{}).mustBeRefused()
		if st := r2.status(); st.NextExpiry != 0 || st.Leases != 1 {
			t.Errorf("the status is %+v", st)
		}
		r2.release(l, 0) // by a replica that does not know it
		r2.acquire(engine.Ask{})
	})
}

func TestRenewalsAtTheSameMomentAreOne(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		renewals := s.count(s.a, "renew")
		r1.ways.Hold("renew")
		all := []*renewal{r1.renew(l, 0), r1.renew(l, 0), r1.renew(l, 10*time.Second)}
		longer := r1.renew(l, time.Minute)
		r1.ways.Pass(enginetest.Any)
		for _, r := range all {
			if got, err := r.verdict(); err != nil || got.Validity < 29*time.Second {
				t.Errorf("renewed: %+v, %v", got, err)
			}
		}
		if got, err := longer.verdict(); err != nil || got.Validity < 59*time.Second {
			t.Errorf("renewed for a minute: %+v, %v", got, err)
		}
		if n := renewals.Load(); n != 2 {
			t.Errorf("A was asked %d times", n)
		}
	})
}

func TestALeaseIsRenewedNoMoreAfterHoldMax(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1, HoldMax: 45 * time.Second})
		request := r1.ask(engine.Ask{Kept: true})
		time.Sleep(44 * time.Second)
		if got := request.look(); !got.holds() || strings.Contains(got.told, "expiring") {
			t.Errorf("before: %s", got.told)
		}
		time.Sleep(7 * time.Second)
		if got := request.look(); !got.holds() || strings.Count(got.told, "expiring hold_max") != 1 {
			t.Errorf("at its last renewal but one: %s", got.told)
		}
		time.Sleep(20 * time.Second)
		request.mustBeLost("expired")
		s.empty()
		l := r1.acquire(engine.Ask{})
		for range 4 {
			time.Sleep(11 * time.Second)
			if _, err := r1.renew(l, 0).verdict(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Second)
		var old *engine.InvalidError
		if got, err := r1.renew(l, 0).verdict(); !errors.As(err, &old) || old.Field != "lease" {
			t.Errorf("renewed after hold_max: %+v, %v", got, err)
		}
		time.Sleep(30 * time.Second)
		s.empty()
	})
}

// Whoever takes a lease over knows hold_max, though nobody has asked for the semaphore there, and since when the lease is held, though
// a node has it for less.
func TestHoldMaxHoldsWhereALeaseWasTakenOver(t *testing.T) {
	for away := range 3 {
		t.Run(fmt.Sprint("node ", away, " has it for less"), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 2, HoldMax: 45 * time.Second})
				r1.ways[away].Disconnect()
				kept, l := r1.ask(engine.Ask{Kept: true}), r1.acquire(engine.Ask{TTL: time.Minute})
				time.Sleep(40 * time.Second)
				r1.ways[away].Connect()
				time.Sleep(time.Second)
				if _, err := r1.renew(l, 0).verdict(); err != nil { // which puts it there
					t.Fatal(err)
				}
				attached := r2.attach(kept.mustHold())
				attached.mustHold()
				time.Sleep(5 * time.Second)
				var old *engine.InvalidError
				if got, err := s.player().renew(l, 0).verdict(); !errors.As(err, &old) || old.Field != "lease" {
					t.Errorf("renewed after hold_max: %+v, %v", got, err)
				}
				time.Sleep(time.Minute)
				attached.mustBeLost("expired")
				s.empty()
			})
		})
	}
}

// A replica whose machine was suspended beyond the validity, with all nodes well, has not lost its quorum.
func TestALeaseThatEndsWhileItsReplicaIsStoppedHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enginetest.NewCluster(t, 3)
		c.Form()
		var suspended atomic.Int64
		e, err := engine.Open(engine.Config{
			Nodes: c.Replica(enginetest.Faults{}).Nodes(),
			Now:   func() time.Duration { return c.Now() + time.Duration(suspended.Load()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Put(t.Context(), db, engine.Definition{Limit: 1}, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		held := &asked{t: t, start: time.Now()}
		held.Request = e.Ask(db, engine.Ask{Kept: true, TTL: 30 * time.Second}, held)
		held.mustHold()
		time.Sleep(12 * time.Second) // it was renewed
		suspended.Store(int64(time.Minute))
		for _, server := range c.Servers {
			server.Shift(time.Minute)
		}
		time.Sleep(time.Second)
		held.mustBeLost("expired")
	})
}
