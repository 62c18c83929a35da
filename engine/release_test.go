package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

func TestAPartIsGivenBackAndTheLowestSlotsStay(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 6})
		l := r1.acquire(engine.Ask{Permits: 6})
		for _, c := range []struct {
			by   *player
			keep int
			want string
		}{{r1, 4, "0-3"}, {r2, 3, "0-2"}, {r1, 1, "0"}, {r1, 1, "0"}, {r2, 1, "0"}} {
			got, err := c.by.Release(t.Context(), db, l.Capability, c.keep)
			if want := (engine.Released{ID: l.ID, Held: true, Weight: c.keep}); err != nil || got != want {
				t.Errorf("keeping %d: %+v, %v; want %+v", c.keep, got, err, want)
			}
			synctest.Wait()
			s.everywhere(l.ID, c.want, s.a, s.b, s.c)
			s.uses(r2, c.keep)
		}
		for _, keep := range []int{2, 1000, -1} {
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

// A replica that has not heard of a part that was given back through another one says what is held all the same.
func TestAPartIsAnsweredByWhatTheNodesHold(t *testing.T) {
	for _, c := range []struct {
		name       string
		gone, keep int    // what is kept elsewhere first, and then here
		want       string // what is said here
		left       string // what is held then
	}{
		{"more than is held", 1, 2, "2 is more than the 1 that are held", "0"},
		{"as much as was held", 1, 4, "4 is more than the 1 that are held", "0"},
		{"as much as is held", 2, 2, "held: 2", "0-1"},
		{"less than is held", 3, 1, "held: 1", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				a, b := s.player(), s.player()
				a.declare(engine.Definition{Limit: 4})
				l := a.acquire(engine.Ask{Permits: 4})
				b.release(l, c.gone)
				got, err := a.Release(t.Context(), db, l.Capability, c.keep)
				says := fmt.Sprintf("held: %d", got.Weight)
				if wrong, ok := errors.AsType[*engine.InvalidError](err); ok {
					says = wrong.Detail
				} else if err != nil {
					t.Error(err)
				}
				if says != c.want {
					t.Errorf("it said %q; want %q", says, c.want)
				}
				synctest.Wait()
				s.everywhere(l.ID, c.left, s.a, s.b, s.c)
			})
		})
	}
}

// A has read what a part through B left while a part of its own was under way, which did nothing.
func TestAPartThatDidNothingIsNotTakenForWhatWasReadMeanwhile(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		a, b := s.player(), s.player()
		a.declare(engine.Definition{Limit: 3})
		l := a.acquire(engine.Ask{Permits: 3})
		a.ways.Hold("find")
		b.release(l, 2) // A hears of it, and looks
		a.ways.Hold("release")
		var finds, parts []*enginetest.Message
		for _, way := range a.ways {
			finds = append(finds, way.Next("find"))
			finds[len(finds)-1].Execute()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, err := a.Release(t.Context(), db, l.Capability, 1); err != nil || got.Weight != 1 {
				t.Errorf("%+v, %v", got, err)
			}
		}()
		for _, way := range a.ways {
			parts = append(parts, way.Next("release"))
			parts[len(parts)-1].Execute()
		}
		for _, m := range append(finds, parts...) {
			m.Answer()
			synctest.Wait()
		}
		a.ways.Pass(enginetest.Any)
		<-done
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// A part of what was released through another replica is answered as the release was.
func TestAPartOfWhatWasReleasedElsewhereIsReleased(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		a, b := s.player(), s.player()
		a.declare(engine.Definition{Limit: 4})
		for _, keep := range []int{1, 4} {
			l := a.acquire(engine.Ask{Permits: 4})
			b.release(l, 0)
			for _, keep := range []int{keep, 0} {
				if got, err := a.Release(t.Context(), db, l.Capability, keep); err != nil || got != (engine.Released{ID: l.ID, Again: true}) {
					t.Errorf("keeping %d: %+v, %v", keep, got, err)
				}
			}
			s.empty()
		}
	})
}

// faults.md 11: release the same lease twice, at once, and after a retry.
func TestARepeatedReleaseAnswersAsTheFirstAndFreesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{})
		again := engine.Released{ID: l.ID, Again: true}
		both := make(chan engine.Released, 2)
		for range 2 {
			go func() {
				got, err := r1.Release(t.Context(), db, l.Capability, 0)
				if err != nil {
					t.Error(err)
				}
				both <- got
			}()
		}
		first := engine.Released{ID: l.ID}
		if a, b := <-both, <-both; !(a == first && b == again || a == again && b == first) {
			t.Errorf("released twice at once: %+v, %+v", a, b)
		}
		m := r2.acquire(engine.Ask{Permits: 2}) // in its slot, too
		for _, r := range []*player{r1, r2, r1} {
			if got, err := r.Release(t.Context(), db, l.Capability, 0); err != nil || got != again {
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
func TestALeaseThatIsReleasedWhileItIsRenewedIsNotToldLostOtherwise(t *testing.T) {
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
				want := map[bool]string{true: "", false: "released"}[c.cancel] // by whoever has its capability
				if got := request.look(); got.lost != want || strings.Count(got.told, "lost") > 1 {
					t.Errorf("it was told: %s", got.told)
				}
				s.empty()
			})
		})
	}
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

// A lease that was renewed through another replica is over where it was granted, for a moment before it is forgotten there. It is
// released there all the same.
func TestALeaseThatWasRenewedElsewhereIsReleasedWhereItIsOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 10 * time.Second})
		time.Sleep(5 * time.Second)
		if _, err := r2.renew(l, 0).verdict(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(l.Validity - 5*time.Second)
		if rd, err := r1.Release(t.Context(), db, l.Capability, 0); err != nil || rd.Held || rd.Again {
			t.Errorf("released: %+v, %v", rd, err)
		}
		synctest.Wait()
		s.empty()
	})
}
