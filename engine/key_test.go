package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// mustFail fails the test unless the request failed with this error.
func (a *asked) mustFail(want error) {
	a.t.Helper()
	if l := a.look(); !errors.Is(l.err, want) {
		a.t.Fatalf("the request was told: %s; %+v %v; want %v", l.told, l.lease, l.err, want)
	}
}

func TestAskingAgainWithAKeyIsAnsweredWithTheSameLease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		ask := engine.Ask{Permits: 2, Key: "k", TTL: 40 * time.Second, Holder: engine.HolderInfo{Holder: "anna", Principal: "p"}}
		first := r1.acquire(ask)
		for i, p := range []*player{r1, r2, r1, r2} {
			time.Sleep(5 * time.Second)
			got := p.acquire(ask)
			left := 40*time.Second - time.Duration(i+1)*5*time.Second
			if got.ID != first.ID || got.Capability != first.Capability || got.Fence != first.Fence || !got.Slots.Equal(first.Slots) ||
				!got.Replayed || got.Requested != 2 || got.Holder != "anna" || got.Validity > left || got.Validity < left-time.Second {
				t.Errorf("asked again for the %dth time: %+v", i+1, got)
			}
		}
		s.uses(r2, 2)
		if first.Replayed {
			t.Error("the first answer was a replay")
		}
		other := ask
		other.Holder.Principal = "q"
		other.Permits = 1
		if l := r2.acquire(other); l.ID == first.ID || l.Replayed {
			t.Errorf("another principal's request with the same key: %+v", l)
		}
		r1.ask(engine.Ask{Permits: 3, Key: "k", Holder: ask.Holder}).mustFail(engine.ErrKeyReused)
		r2.release(first, 0)
		for _, p := range []*player{r1, r2} {
			time.Sleep(29 * time.Second)
			p.ask(ask).mustFail(engine.ErrLeaseReleased)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		if l := r1.acquire(ask); l.Fence <= first.Fence || l.Replayed {
			t.Errorf("a minute after its release: %+v", l)
		}
	})
}

func TestTheKeyOfALeaseThatExpiredIsFree(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		ask := engine.Ask{Key: "k", TTL: time.Second}
		first := r1.acquire(ask)
		time.Sleep(1100 * time.Millisecond)
		if l := r2.acquire(ask); l.ID != first.ID || l.Fence <= first.Fence || l.Replayed {
			t.Errorf("after its expiry: %+v", l)
		}
	})
}

func TestWhoeverAsksAgainWhileItWaitsTakesOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		holder := r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		time.Sleep(time.Second)
		between := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Second)
		again := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		first.mustFail(engine.ErrSuperseded)
		again.mustWait()
		r1.ask(engine.Ask{Key: "k", Wait: time.Minute, TTL: time.Minute}).mustFail(engine.ErrKeyReused)
		if here, _, err := r1.Waiters(t.Context(), db, 10); err != nil || len(here) != 2 || here[0].Waiting != 2*time.Second {
			t.Errorf("the line is %+v, %v", here, err)
		}
		r1.release(holder, 0)
		l := again.mustHold()
		between.mustWait()
		r1.release(l, 0)
		between.mustHold()
	})
}

func TestAClaimUnderWayGoesOnForWhoeverAsksAgain(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		holder := r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		first.mustWait()
		r1.b.Hold("claim")
		r1.c.Hold("claim")
		go r1.giveBack(holder)
		synctest.Wait() // the claim that follows the release waits for B and C
		again := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		first.mustFail(engine.ErrSuperseded)
		r1.b.Pass(enginetest.Any)
		r1.c.Pass(enginetest.Any)
		l := again.mustHold()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		s.uses(r1, 1)
	})
}

func TestThePlaceOfWhoeverWasRefusedIsKeptForItsKey(t *testing.T) {
	for _, c := range []struct {
		name   string
		away   time.Duration
		ticket bool // ask at another replica, with the ticket
		ahead  bool // of who came in between
	}{
		{"at once", 0, false, true},
		{"just in time", 13 * time.Second, false, true},
		{"too late", 16 * time.Second, false, false},
		{"with a ticket elsewhere", 9 * time.Minute, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1, TTLMax: time.Hour})
				holder := r1.acquire(engine.Ask{TTL: time.Hour})
				ask := engine.Ask{Key: "k", Wait: 5 * time.Second}
				first := r1.ask(ask)
				time.Sleep(time.Second)
				between := r1.ask(engine.Ask{Wait: time.Hour})
				time.Sleep(5 * time.Second)
				refusal := first.mustBeRefused()
				if refusal.Ticket == "" || refusal.PlaceKept != 15*time.Second {
					t.Errorf("the refusal is %+v", refusal)
				}
				time.Sleep(c.away)
				p := r1
				if c.ticket {
					p, ask.Ticket = r2, refusal.Ticket
				}
				again := p.ask(ask)
				again.mustWait()
				r1.release(holder, 0)
				time.Sleep(time.Millisecond)
				if got := again.look().holds(); got != c.ahead || between.look().holds() == c.ahead {
					t.Errorf("whoever asked again holds: %v; %s; between: %s", got, again.look().told, between.look().told)
				}
			})
		})
	}
}

func TestNobodyIsKeptWaitingForWhoeverIsAway(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		holder := r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		time.Sleep(time.Millisecond)
		next := r2.ask(engine.Ask{Wait: time.Minute})
		next.mustWait()
		first.Cancel() // its connection was lost
		r1.release(holder, 0)
		next.mustHold()
		again := r1.ask(engine.Ask{Key: "k", Wait: time.Minute})
		time.Sleep(time.Millisecond)
		last := r1.ask(engine.Ask{Wait: time.Minute})
		next.Cancel()
		again.mustHold()
		last.mustWait()
	})
}

func TestTicketsThatAreNone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1, TTLMax: time.Hour})
		r1.acquire(engine.Ask{TTL: time.Hour})
		first := r1.ask(engine.Ask{Wait: time.Second})
		time.Sleep(1001 * time.Millisecond)
		ticket := first.mustBeRefused().Ticket
		for i := range ticket {
			wrong := []byte(ticket)
			wrong[i] = "0123456789abcdefghjkmnpqrstvwxyz"[(int(wrong[i])+1)%32]
			if string(wrong) == ticket {
				continue
			}
			r1.ask(engine.Ask{Wait: time.Second, Ticket: string(wrong)}).mustFail(engine.ErrBadTicket)
		}
		r1.ask(engine.Ask{Wait: time.Second, Ticket: ticket, Permits: 1, TTL: time.Minute}).mustFail(engine.ErrKeyReused)
		for _, wrong := range []string{"x", ticket[1:], ticket + "0", "ü" + ticket} {
			r1.ask(engine.Ask{Ticket: wrong}).mustFail(engine.ErrBadTicket)
		}
		time.Sleep(10*time.Minute + time.Millisecond)
		r1.ask(engine.Ask{Wait: time.Second, Ticket: ticket}).mustFail(engine.ErrBadTicket)
	})
}

func TestAPollerGetsItsShareBesideContinuousHolders(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		var grants [4]int
		var asking sync.WaitGroup
		end := time.Now().Add(2 * time.Minute)
		for i := range 3 { // who wait on a connection
			asking.Go(func() {
				for time.Now().Before(end) {
					o, err := r1.Acquire(t.Context(), db, engine.Ask{Wait: time.Minute})
					if err != nil || o.Refusal != nil {
						t.Errorf("%+v %v", o.Refusal, err)
						return
					}
					grants[i]++
					time.Sleep(50 * time.Millisecond)
					r1.giveBack(o.Lease)
				}
			})
		}
		asking.Go(func() { // who asks again and again, at the one replica with its key or at both with its ticket
			for n := 0; time.Now().Before(end); n++ {
				ask := engine.Ask{Key: fmt.Sprint("k", n), Wait: 250 * time.Millisecond}
				for round := 0; ; round++ {
					p := []*player{r1, r2}[round%2]
					o, err := p.Acquire(t.Context(), db, ask)
					if err != nil {
						t.Error(err)
						return
					}
					if o.Refusal == nil {
						grants[3]++
						time.Sleep(50 * time.Millisecond)
						p.giveBack(o.Lease)
						break
					}
					ask.Ticket = o.Refusal.Ticket
				}
			}
		})
		asking.Wait()
		if all := grants[0] + grants[1] + grants[2]; grants[3] < all/3*8/10 {
			t.Errorf("the poller got %d grants, the others %v", grants[3], grants[:3])
		}
	})
}

func TestAttachTakesALeaseOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		first := r1.ask(engine.Ask{Kept: true})
		l := first.mustHold()
		time.Sleep(time.Second)
		second := r2.attach(l)
		if got := second.mustHold(); got.ID != l.ID || got.Fence != l.Fence || !got.Replayed {
			t.Errorf("attached: %+v", got)
		}
		time.Sleep(10 * time.Second) // R1's renewal
		first.mustBeLost("moved")
		first.Cancel()
		third := r2.attach(l) // another connection of R2
		third.mustHold()
		second.mustBeLost("moved")
		second.Cancel()
		time.Sleep(2 * time.Minute)
		third.mustHold()
		s.everywhere(l.ID, l.Slots.String(), s.a, s.b, s.c)
		third.Cancel()
		s.uses(r1, 0)
		r1.attach(l).mustFail(engine.ErrLeaseReleased)
		made := l
		made.Capability = "0123456789abcdef." + l.Capability[17:]
		r1.attach(made).mustFail(engine.ErrUnknownLease)
	})
}

func TestALeaseOfAHolderWhoLeftLivesForItsGrace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		gone, back, none := r1.ask(engine.Ask{Kept: true}), r1.ask(engine.Ask{Kept: true}), r1.ask(engine.Ask{Kept: true})
		l := back.mustHold()
		gone.Leave(5 * time.Minute)
		back.Leave(5 * time.Minute)
		none.Leave(0)
		s.uses(r1, 2)
		time.Sleep(4 * time.Minute)
		attached := r2.attach(l)
		attached.mustHold()
		time.Sleep(59 * time.Second)
		s.uses(r1, 2)
		time.Sleep(2 * time.Second)
		s.uses(r1, 1)
		attached.mustHold()
		if told := back.look().told; told != "granted" {
			t.Errorf("whoever left was told: %s", told)
		}
	})
}

// attach attaches a lease and returns at once.
func (p *player) attach(l engine.Lease) *asked {
	a := &asked{t: p.t, start: time.Now()}
	a.Request = p.Attach(db, l.Capability, a)
	return a
}
