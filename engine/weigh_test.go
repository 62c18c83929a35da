package engine_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

var heavy = engine.Binding{Policy: "heavy", Config: "x"}

// scale is a policy: it says the same of every request, and remembers what it saw.
type scale struct {
	word  engine.Weighed
	err   error
	asked atomic.Int64
	saw   engine.Standing
}

func (p *scale) weigh(s engine.Standing) (engine.Weighed, error) {
	p.asked.Add(1)
	p.saw = s
	return p.word, p.err
}

func (p *scale) ask(ask engine.Ask) engine.Ask {
	ask.Weigh = p.weigh
	return ask
}

func TestAPolicySaysWhatARequestWeighsItsPlaceAndItsTTL(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 10, Policy: heavy})
		version := engine.PolicyVersion{Name: "heavy", Generation: 7}
		p := &scale{word: engine.Weighed{Weight: 4, TTL: 5 * time.Second, Policy: version}}
		l := r1.acquire(p.ask(engine.Ask{Permits: 2}))
		if l.Requested != 2 || l.Weight != 4 || l.Slots.Len() != 4 || l.TTL != 5*time.Second || l.Policy != version {
			t.Errorf("the lease is %+v", l)
		}
		want := engine.Standing{Binding: heavy, Limit: 10, Available: 10, TTLMax: time.Hour}
		if p.saw != want || p.asked.Load() != 1 {
			t.Errorf("it saw %+v, %d times; want %+v", p.saw, p.asked.Load(), want)
		}
		list, err := r1.Leases(t.Context(), db)
		if err != nil || len(list) != 1 || list[0].Policy != version {
			t.Errorf("listed: %+v, %v", list, err)
		}
		p.word = engine.Weighed{Weight: 7}
		late := r1.ask(p.ask(engine.Ask{Wait: time.Minute}))
		late.mustWait()
		if p.saw.Available != 6 {
			t.Errorf("it saw %+v", p.saw)
		}
		time.Sleep(time.Second)
		early := &scale{word: engine.Weighed{Weight: 7, Priority: new(1)}}
		first := r1.ask(early.ask(engine.Ask{Wait: time.Minute}))
		first.mustWait()
		if early.saw.Waiting != 1 {
			t.Errorf("it saw %+v", early.saw)
		}
		r1.release(l, 0)
		first.mustHold()
		late.mustWait()
	})
}

func TestWhatAPolicyDoesNotAllowIsRefused(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 20_000, Policy: heavy})
		denied := errors.New("not today")
		if _, err := r1.Acquire(t.Context(), db, (&scale{err: denied}).ask(engine.Ask{})); !errors.Is(err, denied) {
			t.Errorf("denied: %v", err)
		}
		for weight, limit := range map[int]int{20_001: engine.WeightMax, engine.WeightMax + 1: engine.WeightMax, 1<<63 - 1: engine.WeightMax} {
			p := &scale{word: engine.Weighed{Weight: weight}}
			_, err := r1.Acquire(t.Context(), db, p.ask(engine.Ask{Permits: 3}))
			if e, ok := errors.AsType[*engine.WeightError](err); !ok || *e != (engine.WeightError{Requested: 3, Weight: weight, Limit: limit}) {
				t.Errorf("weight %d: %v", weight, err)
			}
		}
		if st := r1.status(); st.InUse != 0 {
			t.Errorf("the status is %+v", st)
		}
		// More than the limit may be asked for: the policy says what that weighs.
		r1.declare(engine.Definition{Limit: 2, Policy: heavy})
		if l := r1.acquire((&scale{word: engine.Weighed{Weight: 1}}).ask(engine.Ask{Permits: 100})); l.Requested != 100 || l.Weight != 1 {
			t.Errorf("the lease is %+v", l)
		}
	})
}

func TestAPolicyIsAskedOnceARequestHoweverOftenItIsMade(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 4, Policy: heavy})
		word := engine.Weighed{Weight: 3, TTL: 10 * time.Second, Policy: engine.PolicyVersion{Name: "heavy", Generation: 2}}
		p, never := &scale{word: word}, &scale{err: errors.New("asked again")}
		held := r1.acquire(p.ask(engine.Ask{Key: "a"}))

		same := never.ask(engine.Ask{Key: "a"}) // it is held: also through another replica
		for _, r := range []*player{r1, r2} {
			if l := r.acquire(same); l.ID != held.ID || l.Weight != 3 || !l.Replayed || l.Policy != word.Policy {
				t.Errorf("replayed: %+v", l)
			}
		}

		waits := r1.ask(p.ask(engine.Ask{Key: "b", Wait: 2 * time.Second}))
		waits.mustWait()
		newer := r1.ask(never.ask(engine.Ask{Key: "b", Wait: 2 * time.Second})) // it waits: the newer one takes over
		waits.mustFail(engine.ErrSuperseded)
		time.Sleep(3 * time.Second)
		ticket := newer.mustBeRefused().Ticket
		kept := r1.ask(never.ask(engine.Ask{Key: "b", Wait: 2 * time.Second})) // its place was kept
		kept.mustWait()
		time.Sleep(3 * time.Second)
		kept.mustBeRefused()

		resumed := r2.ask(never.ask(engine.Ask{Ticket: ticket, Wait: time.Minute})) // and another replica knows it by its ticket
		resumed.mustWait()
		r2.release(held, 0)
		if l := resumed.mustHold(); l.Weight != 3 || l.TTL != 10*time.Second || l.Policy != word.Policy {
			t.Errorf("resumed: %+v", l)
		}
		if p.asked.Load() != 2 || never.asked.Load() != 0 {
			t.Errorf("asked %d and %d times", p.asked.Load(), never.asked.Load())
		}
	})
}

func TestARequestThatIsCancelledWhileItsPolicyIsAskedLeavesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1, Policy: heavy})
		answer := make(chan struct{})
		slow := engine.Ask{Weigh: func(engine.Standing) (engine.Weighed, error) {
			<-answer
			return engine.Weighed{Weight: 1}, nil
		}}
		gone := r1.ask(slow)
		synctest.Wait()
		gone.Cancel()
		close(answer)
		synctest.Wait()
		if st := r1.status(); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestWithoutABindingNoPolicyIsAsked(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		p := &scale{err: errors.New("asked")}
		r1.acquire(p.ask(engine.Ask{Create: &engine.Definition{Limit: 3}}))
		r1.declare(engine.Definition{Limit: 3})
		r1.acquire(p.ask(engine.Ask{}))
		bound, err := r1.Bindings(t.Context())
		if err != nil || len(bound) != 0 || p.asked.Load() != 0 {
			t.Errorf("asked %d times; bound %v, %v", p.asked.Load(), bound, err)
		}
		r1.declare(engine.Definition{Limit: 3, Policy: heavy})
		if _, _, err := r1.Put(t.Context(), "other", engine.Definition{Limit: 1}, engine.Condition{}, ""); err != nil {
			t.Fatal(err)
		}
		if bound, err = r1.Bindings(t.Context()); err != nil || len(bound) != 1 || bound[db] != heavy {
			t.Errorf("bound %v, %v", bound, err)
		}
		large := engine.Definition{Limit: 3, Policy: engine.Binding{Policy: "p", Config: strings.Repeat("x", engine.BindingConfigMax+1)}}
		if _, _, err := r1.Put(t.Context(), db, large, engine.Condition{}, ""); err == nil {
			t.Error("a large configuration was taken")
		}
	})
}

// pensive is a policy that takes its time, and says something else each time.
type pensive struct {
	asked  atomic.Int64
	answer chan struct{} // closed when it may answer
	err    error
}

func (p *pensive) ask(ask engine.Ask) engine.Ask {
	ask.Weigh = func(engine.Standing) (engine.Weighed, error) {
		n := int(p.asked.Add(1))
		<-p.answer
		return engine.Weighed{Weight: 1 + n}, p.err
	}
	return ask
}

func TestARequestThatIsMadeAgainWhileItIsWeighedTakesTheWeightOfTheFirst(t *testing.T) {
	denied := errors.New("not today")
	for _, c := range []struct {
		name    string
		cancels bool  // the first is gone before the second comes
		answers bool  // and the policy has answered between them
		err     error // what it says
		asked   int64
	}{
		{name: "at once", asked: 1},
		{name: "at once, and it is denied", err: denied, asked: 1},
		{name: "after the first has left", cancels: true, asked: 1},
		{name: "after the first has left, and it is denied", cancels: true, err: denied, asked: 1},
		{name: "after the first has left and was weighed", cancels: true, answers: true, asked: 1},
		{name: "after the first has left and was denied: that is another request", cancels: true, answers: true, err: denied, asked: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.declare(engine.Definition{Limit: 10, Policy: heavy})
				p := &pensive{answer: make(chan struct{}), err: c.err}
				ask := p.ask(engine.Ask{Key: "k", Wait: time.Minute})
				first := r1.ask(ask)
				synctest.Wait()
				if c.cancels {
					first.Cancel()
				}
				if c.answers {
					close(p.answer)
					synctest.Wait()
				}
				second, third := r1.ask(ask), r1.ask(ask)
				if !c.cancels {
					first.mustFail(engine.ErrSuperseded)
				}
				second.mustFail(engine.ErrSuperseded)
				if here, _, err := r1.Waiters(t.Context(), db, 10); err != nil || !c.answers && len(here) != 0 {
					t.Errorf("in line while it is weighed: %+v, %v", here, err)
				}
				if !c.answers {
					close(p.answer)
				}
				if c.err != nil {
					third.mustFail(c.err)
				} else if l := third.mustHold(); l.Weight != 2 {
					t.Errorf("the lease is %+v", l)
				}
				if n := p.asked.Load(); n != c.asked {
					t.Errorf("the policy was asked %d times; want %d", n, c.asked)
				}
				third.Cancel()
				s.uses(r1, 0)
			})
		})
	}
}

// Through two replicas at once a policy may be asked by both: neither knows of the other before its claim meets the other's on the nodes.
// Then what the nodes hold counts, for both.
func TestWhatTheNodesHoldCountsWhereTwoReplicasWeighTheSameRequest(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 10, Policy: heavy})
		mine, theirs := &pensive{answer: make(chan struct{})}, &pensive{answer: make(chan struct{})}
		theirs.asked.Store(5) // it says 7
		first := r1.ask(mine.ask(engine.Ask{Key: "k", Wait: time.Minute}))
		second := r2.ask(theirs.ask(engine.Ask{Key: "k", Wait: time.Minute}))
		synctest.Wait()
		close(theirs.answer)
		l := second.mustHold()
		close(mine.answer)
		if got := first.mustHold(); got.ID != l.ID || got.Fence != l.Fence || got.Weight != 7 || l.Weight != 7 || !got.Replayed {
			t.Errorf("the first was weighed last and has %+v; the second has %+v", got, l)
		}
		s.uses(r1, 7)
	})
}

func TestWhoTakesAllThatIsFreeAndAsksAgainAtOnceHasAllOfIt(t *testing.T) {
	for _, held := range []string{"line", "claim"} { // while it looks how much that is, and while it claims
		t.Run(held, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.declare(engine.Definition{Limit: 5})
				r1.b.Hold(held)
				r1.c.Hold(held)
				all := engine.Ask{AllFree: true, Key: "k"}
				first := r1.ask(all)
				synctest.Wait()
				again := r1.ask(all)
				first.mustFail(engine.ErrSuperseded)
				r1.b.Pass(enginetest.Any)
				r1.c.Pass(enginetest.Any)
				if l := again.mustHold(); l.Weight != 5 || l.Requested != 5 {
					t.Errorf("the lease is %+v", l)
				}
				s.uses(r1, 5)
			})
		})
	}
}
