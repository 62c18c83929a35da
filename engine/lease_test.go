package engine_test

import (
	"errors"
	"strings"
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

func TestAPartIsGivenBackAndTheLowestSlotsStay(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 6})
		l := r1.acquire(engine.Ask{Permits: 6})
		for _, c := range []struct {
			by   *player
			keep int
			want string
		}{{r1, 4, "0-3"}, {r2, 3, "0-2"}, {r1, 1, "0"}} {
			got, err := c.by.Release(t.Context(), db, l.Capability, c.keep)
			if want := (engine.Released{ID: l.ID, Held: true, Weight: c.keep}); err != nil || got != want {
				t.Errorf("keeping %d: %+v, %v; want %+v", c.keep, got, err, want)
			}
			synctest.Wait()
			s.everywhere(l.ID, c.want, s.a, s.b, s.c)
			s.uses(r2, c.keep)
		}
		for _, keep := range []int{1, 2, 1000, -1} {
			var wrong *engine.InvalidError
			if _, err := r1.Release(t.Context(), db, l.Capability, keep); !errors.As(err, &wrong) || wrong.Field != "keep" {
				t.Errorf("keeping %d of one: %v", keep, err)
			}
		}
		r2.acquire(engine.Ask{Permits: 5})
		if renewed, err := r1.renew(l, 0).verdict(); err != nil || renewed.Weight != 1 || renewed.Requested != 6 || renewed.Fence != l.Fence {
			t.Errorf("renewed it is %+v, %v", renewed, err)
		}
	})
}

// faults.md 11: release the same lease twice, at once, and after a retry.
func TestARepeatedReleaseAnswersAsTheFirstAndFreesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{})
		want := engine.Released{ID: l.ID}
		both := make(chan error, 2)
		for range 2 {
			go func() {
				got, err := r1.Release(t.Context(), db, l.Capability, 0)
				if got != want {
					t.Errorf("released: %+v, %v", got, err)
				}
				both <- err
			}()
		}
		if err := errors.Join(<-both, <-both); err != nil {
			t.Error(err)
		}
		m := r2.acquire(engine.Ask{Permits: 2}) // in its slot, too
		for _, r := range []*player{r1, r2, r1} {
			if got, err := r.Release(t.Context(), db, l.Capability, 0); err != nil || got != want {
				t.Errorf("released again: %+v, %v", got, err)
			}
		}
		s.uses(r1, 2)
		s.everywhere(m.ID, "0-1", s.a, s.b, s.c)
		time.Sleep(2 * time.Minute)
		if _, err := r1.Release(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrLeaseExpired) {
			t.Errorf("released after two minutes: %v", err)
		}
	})
}

// faults.md 16 and 17: the lease expires, another holds its slot, and, at last, has left.
func TestALeaseThatExpiredIsNeitherReleasedNorRenewed(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		time.Sleep(30*time.Second + time.Millisecond)
		m := r2.acquire(engine.Ask{})
		mustBeOver := func(when string) {
			t.Helper()
			for _, r := range []*player{r1, r2} {
				if _, err := r.Release(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrLeaseExpired) {
					t.Errorf("released %s: %v", when, err)
				}
				if _, err := r.Renew(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrLeaseExpired) {
					t.Errorf("renewed %s: %v", when, err)
				}
			}
			synctest.Wait()
		}
		mustBeOver("while another holds")
		s.everywhere(m.ID, "0", s.a, s.b, s.c)
		r2.release(m, 0)
		mustBeOver("after another held")
		s.empty()
	})
}

// faults.md 18: renew and release at the same moment.
func TestALeaseThatIsReleasedWhileItIsRenewedIsNotToldLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel bool // by the request, else by capability
		first  int  // how many nodes renew it before the release goes out
	}{
		{"by capability, before any node", false, 0},
		{"by capability, after one", false, 1},
		{"by capability, after two", false, 2},
		{"by the request, before any node", true, 0},
		{"by the request, after one", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.declare(engine.Definition{Limit: 1})
				request := r1.ask(engine.Ask{Kept: true})
				l := request.mustHold()
				r1.ways.Hold("renew")
				time.Sleep(10 * time.Second)
				for i := range c.first {
					r1.ways[i].Next("renew").Deliver()
				}
				if c.cancel {
					request.Cancel()
				} else {
					go r1.giveBack(l)
				}
				synctest.Wait()
				r1.ways.Pass(enginetest.Any)
				time.Sleep(time.Minute)
				if got := request.look(); strings.Contains(got.told, "lost") {
					t.Errorf("it was told: %s", got.told)
				}
				s.empty()
			})
		})
	}
}

func TestAReplicaThatDoesNotKnowALeaseFindsIt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		l := r1.acquire(engine.Ask{Permits: 2, Holder: engine.HolderInfo{Holder: "anna"}})
		for range 10 { // longer than R1's own validity
			time.Sleep(10 * time.Second)
			renewed, err := r2.renew(l, 0).verdict()
			if err != nil || renewed.ID != l.ID || renewed.Fence != l.Fence || !renewed.Slots.Equal(l.Slots) || renewed.Holder != "anna" {
				t.Fatalf("renewed by R2: %+v, %v", renewed, err)
			}
			if renewed.Capability != l.Capability || renewed.Validity < 29*time.Second || renewed.TTL != 30*time.Second {
				t.Errorf("renewed by R2: %+v", renewed)
			}
		}
		if owner := s.a.Record(db, l.ID).Owner; owner.Gen != 1 {
			t.Errorf("its owner is %+v; R2 attached it once", owner)
		}
		if renewed, err := r1.renew(l, time.Minute).verdict(); err != nil || renewed.Validity < 59*time.Second {
			t.Errorf("renewed by R1 again: %+v, %v", renewed, err)
		}
		r2.release(l, 0)
		s.uses(r1, 0)
		if _, err := r1.renew(l, 0).verdict(); !errors.Is(err, engine.ErrLeaseReleased) {
			t.Errorf("renewed after its release: %v", err)
		}
	})
}

func TestARenewalWithoutATTLMeansTheOneBefore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 20 * time.Second})
		for _, c := range []struct {
			by        *player
			ttl, want time.Duration
		}{
			{r1, 0, 20 * time.Second},
			{r1, time.Minute, time.Minute},
			{r1, 0, time.Minute},
			{r2, 0, 20 * time.Second}, // it knows what was asked for at first
			{r2, 2 * time.Minute, 2 * time.Minute},
			{r2, 0, 2 * time.Minute},
		} {
			time.Sleep(10 * time.Second)
			if got, err := c.by.renew(l, c.ttl).verdict(); err != nil || got.TTL != c.want || got.RenewAfter != c.want/3 {
				t.Errorf("renewed with %v: for %v, to be renewed after %v, %v; want %v", c.ttl, got.TTL, got.RenewAfter, err, c.want)
			}
		}
	})
}

func TestAKeptLeaseThatIsAttachedElsewhereHasMoved(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		l := request.mustHold()
		time.Sleep(5 * time.Second)
		if _, err := r2.renew(l, 0).verdict(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Second + time.Millisecond) // R1's own renewal
		request.mustBeLost("moved")
		request.Cancel() // what has moved is not its any more
		synctest.Wait()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

func TestAKeptLeaseThatWasReleasedElsewhereIsLost(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		r2.release(request.mustHold(), 0)
		r2.acquire(engine.Ask{})
		time.Sleep(10*time.Second + time.Millisecond) // R1's renewal
		request.mustBeLost("broken")
	})
}

func TestAKeptLeaseThatWasPartedElsewhereGoesOnWithTheRest(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		request := r1.ask(engine.Ask{Kept: true, Permits: 3})
		l := request.mustHold()
		time.Sleep(time.Second)
		r2.release(l, 1)
		m := r2.ask(engine.Ask{Kept: true, Permits: 2})
		time.Sleep(5 * time.Minute)
		request.mustHold()
		m.mustHold()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		request.Cancel()
		synctest.Wait()
		s.uses(r1, 2)
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

func TestAWrongCapabilityIsNoLease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 2})
		l, m := r1.acquire(engine.Ask{}), r1.acquire(engine.Ask{})
		_, mac, _ := strings.Cut(m.Capability, ".")
		for _, c := range []struct{ name, capability string }{
			{db, ""},
			{db, l.ID},
			{db, l.ID + "."},
			{db, l.ID + "." + mac},
			{db, l.Capability + "x"},
			{db, l.Capability[1:]},
			{"other", l.Capability},
		} {
			if _, err := r1.Release(t.Context(), c.name, c.capability, 0); !errors.Is(err, engine.ErrUnknownLease) {
				t.Errorf("released %q of %q: %v", c.capability, c.name, err)
			}
			if _, err := r1.Renew(t.Context(), c.name, c.capability, 0); !errors.Is(err, engine.ErrUnknownLease) {
				t.Errorf("renewed %q of %q: %v", c.capability, c.name, err)
			}
		}
		var wrong *engine.InvalidError
		for _, ttl := range []time.Duration{engine.TTLMin - 1, engine.TTLMaxDefault + 1, -1} {
			if _, err := r1.Renew(t.Context(), db, l.Capability, ttl); !errors.As(err, &wrong) || wrong.Field != "ttl" {
				t.Errorf("renewed for %v: %v", ttl, err)
			}
		}
		s.uses(r1, 2)
	})
}

func TestMinHoldKeepsPermitsFromComingBackEarly(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2, MinHold: 10 * time.Second})
		l, m := r1.acquire(engine.Ask{}), r1.acquire(engine.Ask{})
		next, second := r2.ask(engine.Ask{Wait: time.Minute}), r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(4*time.Second + 100*time.Millisecond)
		claims := s.count(s.a, "claim")
		for _, c := range []struct {
			by *player
			of engine.Lease
		}{{r1, l}, {r2, m}} {
			if got, err := c.by.Release(t.Context(), db, c.of.Capability, 0); err != nil || got.Cooling != 5900*time.Millisecond {
				t.Errorf("after 4.1 s of 10: %+v, %v", got, err)
			}
		}
		synctest.Wait()
		if n := claims.Load(); n != 0 {
			t.Errorf("what cools was claimed for %d times", n)
		}
		if st := r1.status(); st.InUse != 0 || st.Cooling != 2 || st.Available != 0 || st.Waiting != 2 {
			t.Errorf("the status is %+v", st)
		}
		time.Sleep(5890 * time.Millisecond)
		next.mustWait()
		time.Sleep(20 * time.Millisecond)
		next.mustHold()
		second.mustHold()
		if st := r1.status(); st.InUse != 2 || st.Cooling != 0 || st.Available != 0 {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestWhatNobodyGotDoesNotCool(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1, MinHold: time.Hour})
		r1.ways.Hold("claim")
		request := r1.ask(engine.Ask{})
		for _, way := range r1.ways {
			way.Next("claim").Execute()
		}
		request.Cancel()
		r1.ways.Pass(enginetest.Any)
		if st := r1.status(); st.Cooling != 0 || st.Available != 1 {
			t.Errorf("the status is %+v", st)
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
	})
}

// faults.md 14 and 15.
func TestWhatLapsedIsCountedOnceAndTheFirstStatusIsRight(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		r1.acquire(engine.Ask{})
		r1.acquire(engine.Ask{TTL: 40 * time.Second})
		l := r1.acquire(engine.Ask{})
		if st := r2.status(); st.InUse != 3 || st.Leases != 3 || st.NextExpiry != 30*time.Second || st.LongestTTL != 40*time.Second {
			t.Errorf("the status is %+v", st)
		}
		r1.release(l, 0)
		time.Sleep(30 * time.Second) // with no traffic
		if st := r2.status(); st.InUse != 1 || st.Available != 2 || st.NextExpiry != 10*time.Second {
			t.Errorf("after 30 s the status is %+v", st)
		}
		time.Sleep(10 * time.Second)
		if st := r2.status(); st.InUse != 0 || st.Available != 3 || st.Leases != 0 {
			t.Errorf("after 40 s the status is %+v", st)
		}
	})
}

// A lease counts if it may have Q votes, the nodes that do not answer taken as holding it.
func TestTheStatusCountsWhatMayBeHeldByAQuorum(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 4})
		l := r1.acquire(engine.Ask{})
		s.stray(s.a, 1, all(4).Minus(l.Slots).Lowest(1)) // on one of three nodes
		if st := r1.status(); st.InUse != 1 || st.Available != 3 || st.Leases != 1 {
			t.Errorf("of all nodes: %+v", st)
		}
		s.c.Kill()
		synctest.Wait()
		if st := r1.status(); st.InUse != 2 || st.Available != 2 || st.Leases != 2 {
			t.Errorf("of two nodes: %+v; the third may have what the first has", st)
		}
	})
}

func TestDrainingRenewsWhatIsKeptOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		request := r1.ask(engine.Ask{Kept: true})
		l := request.mustHold()
		time.Sleep(9 * time.Second)
		r1.Drain(t.Context())
		if r := s.a.Record(db, l.ID); r == nil || r.Left != 30*time.Second {
			t.Errorf("after the drain A has %+v", r)
		}
		r1.Close()
		r1.Close()
		time.Sleep(25 * time.Second)
		if renewed, err := r2.renew(l, 0).verdict(); err != nil || renewed.Validity < 29*time.Second {
			t.Errorf("attached elsewhere: %+v, %v", renewed, err)
		}
	})
}
