package engine_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// After a cold start nothing is granted for a while, free as permits may be.
func TestARefusalSaysWhyPermitsThatAreFreeAreNotGranted(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 3})
		if r := r1.ask(engine.Ask{Permits: 3}); r.mustHold().Weight == 3 {
			refusal := r1.ask(engine.Ask{}).mustBeRefused()
			if refusal.Resting > 0 || refusal.Paused || refusal.InUse != 3 {
				t.Errorf("all are held: %+v", refusal)
			}
			r.Cancel()
		}
		for _, server := range s.Servers {
			s.rest(server, time.Minute)
		}
		time.Sleep(2 * time.Second)
		refusal := r1.ask(engine.Ask{}).mustBeRefused()
		if refusal.Resting < 57*time.Second || refusal.Resting > 58*time.Second || refusal.InUse != 0 || refusal.RetryAfter < 30*time.Second {
			t.Errorf("after a cold start: %+v", refusal)
		}
		if st := r1.status(); st.Available != 3 || st.GrantingIn < 57*time.Second || st.GrantingIn > 58*time.Second {
			t.Errorf("after a cold start the status is %+v", st)
		}
		_, nodes := r1.Nodes()
		for _, n := range nodes {
			if left := time.Until(n.GrantingAt); left < 56*time.Second || left > 58*time.Second {
				t.Errorf("%s grants in %v", n.Name, left)
			}
		}
		time.Sleep(time.Minute)
		if _, nodes := r1.Nodes(); !nodes[0].GrantingAt.IsZero() {
			t.Errorf("it grants, and says not before %v", nodes[0].GrantingAt)
		}
		r1.acquire(engine.Ask{})
		def := engine.Definition{Limit: 3, Paused: true}
		r1.declare(def)
		if refusal := r1.ask(engine.Ask{}).mustBeRefused(); refusal.Resting > 0 || !refusal.Paused {
			t.Errorf("paused: %+v", refusal)
		}
	})
}

func TestWeightsAreGrantedWholeOrNotAtAll(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 5})
		three := r1.acquire(engine.Ask{Permits: 3, Holder: engine.HolderInfo{Holder: "anna"}})
		if three.Requested != 3 || three.Weight != 3 || three.Slots.Len() != 3 || three.Semaphore != db || three.Holder != "anna" {
			t.Errorf("granted %+v", three)
		}
		if three.TTL != 30*time.Second || three.RenewAfter != 10*time.Second || three.Validity != 30*time.Second-325*time.Millisecond {
			t.Errorf("granted for %v, validity %v, to be renewed after %v", three.TTL, three.Validity, three.RenewAfter)
		}
		refusal := r1.ask(engine.Ask{Permits: 3}).mustBeRefused()
		if refusal.RetryAfter <= 0 || refusal.RetryAfter > 30*time.Second {
			t.Errorf("retry after %v", refusal.RetryAfter)
		}
		refusal.RetryAfter = 0
		if want := (engine.Refusal{Limit: 5, InUse: 3}); refusal != want {
			t.Errorf("refused with %+v; want %+v", refusal, want)
		}
		s.uses(r1, 3)
		two := r1.acquire(engine.Ask{Permits: 2})
		if two.Slots.Overlaps(three.Slots) || two.Fence <= three.Fence {
			t.Errorf("slots %v with fence %d beside slots %v with fence %d", two.Slots, two.Fence, three.Slots, three.Fence)
		}
		s.uses(r1, 5)
		r1.release(three, 0)
		s.uses(r1, 2)
		r1.release(two, 0)
		s.uses(r1, 0)
		s.empty()
	})
}

func TestATryTakesWhatIsFreeAndNeverOvertakesAWaiter(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		r1.acquire(engine.Ask{Permits: 2})
		waiter := r1.ask(engine.Ask{Permits: 2, Wait: time.Minute})
		synctest.Wait()
		claims := s.count(s.a, "claim")
		for _, r := range []*player{r1, r2} {
			for range 3 {
				if refusal := r.ask(engine.Ask{}).mustBeRefused(); refusal.Waiting != 1 || refusal.Ahead != 1 {
					t.Errorf("of one permit that is free a try is refused with %+v; one waits before it", refusal)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		waiter.mustWait()
		if n := claims.Load(); n != 3 { // where somebody waits here it takes none to know
			t.Errorf("there were %d claims for the tries; want 3, of R2", n)
		}
		waiter.Cancel()
		synctest.Wait()
		r2.acquire(engine.Ask{})
	})
}

// want is what a request must have come to.
type want int

const (
	waits want = iota
	held
)

func check(t *testing.T, when string, requests []*asked, wants ...want) {
	t.Helper()
	for i, r := range requests {
		if l := r.look(); l.holds() != (wants[i] == held) || l.refusal != nil || l.err != nil {
			t.Errorf("%s: request %d was told: %s; %v", when, i+1, l.told, l.err)
		}
	}
}

func TestTheLineIsServedInOrderWhateverItsWeights(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run([]string{"", "of one replica", "of two replicas"}[replicas], func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				var players []*player
				for range replicas {
					players = append(players, s.player())
				}
				r1 := players[0]
				r1.declare(engine.Definition{Limit: 4})
				l := r1.acquire(engine.Ask{Permits: 4})
				var line []*asked
				for i, weight := range []int{3, 1, 2, 1} {
					line = append(line, players[i%replicas].ask(engine.Ask{Permits: weight, Wait: 10 * time.Minute}))
					time.Sleep(10 * time.Millisecond)
				}
				check(t, "all in use", line, waits, waits, waits, waits)
				r1.release(l, 2)
				time.Sleep(time.Second)
				check(t, "two free, and the head wants three", line, waits, waits, waits, waits)
				r1.release(l, 0)
				check(t, "all free", line, held, held, waits, waits)
				r1.release(line[0].mustHold(), 0)
				check(t, "three free", line, held, held, held, held)
			})
		})
	}
}

func TestWaitersAreToldHowManyAreAhead(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		var line []*asked
		for range 3 {
			line = append(line, r1.ask(engine.Ask{Wait: time.Hour}))
		}
		for i, r := range line {
			if got := r.look(); got.ahead != i {
				t.Errorf("waiter %d was told: %s", i, got.told)
			}
		}
		r1.release(l, 0)
		line[0].mustHold()
		time.Sleep(2 * time.Second)
		for i, r := range line[1:] {
			if got := r.look(); got.ahead != i {
				t.Errorf("a moment later waiter %d was told: %s", i+1, got.told)
			}
		}
	})
}

func TestPrioritiesAreAHeadStart(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1, PriorityStep: 10 * time.Second})
		l := r1.acquire(engine.Ask{Kept: true})
		usual := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(5 * time.Second)
		early := r1.ask(engine.Ask{Wait: time.Minute, Priority: 1}) // as if it had come 5 s before usual
		time.Sleep(4 * time.Second)
		other := r2.ask(engine.Ask{Wait: time.Minute, Priority: 1}) // 1 s before usual
		time.Sleep(2 * time.Second)
		late := r2.ask(engine.Ask{Wait: time.Minute, Priority: 1}) // 1 s after usual
		low := r1.ask(engine.Ask{Wait: time.Minute, Priority: -1})
		line := []*asked{early, other, usual, late, low}
		for i, r := range line {
			check(t, "before", line[i:], waits, waits, waits, waits, waits)
			r1.release(l, 0)
			time.Sleep(10 * time.Millisecond)
			l = r.mustHold()
		}
	})
}

func TestAWaitEndsInTime(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.acquire(engine.Ask{Permits: 2})
		var waits []time.Duration
		var line []*asked
		for i, r := range []*player{r1, r2, r1} {
			// One ends with a claim under way, as heads claim each half second.
			waits = append(waits, 3*time.Second+time.Duration(i)*250*time.Millisecond)
			line = append(line, r.ask(engine.Ask{Wait: waits[i]}))
		}
		time.Sleep(3*time.Second - time.Nanosecond)
		for _, r := range line {
			r.mustWait()
		}
		time.Sleep(time.Second)
		for i, r := range line {
			if l := r.look(); l.refusal == nil || l.at != waits[i] {
				t.Errorf("told after %v: %s; want %v", l.at, l.told, waits[i])
			}
		}
		if st := r1.status(); st.Waiting != 0 || st.InUse != 2 {
			t.Errorf("the status is %+v", st)
		}
		s.noPlaces()
	})
}

func TestAGrantThatComesTooLateForItsTTLIsGivenBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		ways := s.Replica(enginetest.Faults{Timeout: -1})
		e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now, NodeTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		if err := e.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ways.Hold("claim")
		a := &asked{t: t, start: time.Now()}
		e.Ask(db, engine.Ask{TTL: time.Second, Create: &engine.Definition{Limit: 1}}, a)
		synctest.Wait()
		for _, way := range ways {
			way.Next("claim").Execute()
		}
		time.Sleep(980 * time.Millisecond) // 965 ms of validity are over, 20 ms of the lease are left
		ways.Pass(enginetest.Any)
		if l := a.look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) {
			t.Errorf("told: %s %v", l.told, l.err)
		}
		s.empty()
	})
}

func TestWhatCanNotBeServedIsToldAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 3, TTLMax: time.Hour})
		invalid := func(field string) error { return &engine.InvalidError{Field: field} }
		for _, c := range []struct {
			name string
			at   string
			ask  engine.Ask
			want error
		}{
			{"an unknown semaphore", "nothing", engine.Ask{Wait: time.Minute}, engine.ErrUnknownSemaphore},
			{"more than the limit", db, engine.Ask{Permits: 4}, &engine.WeightError{Requested: 4, Weight: 4, Limit: 3}},
			{"fewer permits than one", db, engine.Ask{Permits: -1}, invalid("permits")},
			{"more permits than a request may have", db, engine.Ask{Permits: engine.WeightMax + 1}, invalid("permits")},
			{"a negative wait", db, engine.Ask{Wait: -1}, invalid("wait")},
			{"a wait that is too long", db, engine.Ask{Wait: engine.WaitMaxChannel + 1}, invalid("wait")},
			{"a priority that is too high", db, engine.Ask{Priority: engine.PriorityMax + 1}, invalid("priority")},
			{"a priority that is too low", db, engine.Ask{Priority: -engine.PriorityMax - 1}, invalid("priority")},
			{"a TTL that is too short", db, engine.Ask{TTL: engine.TTLMin - 1}, invalid("ttl")},
			{"a TTL that is too long", db, engine.Ask{TTL: time.Hour + 1}, invalid("ttl")},
			{"a holder that is too long", db, engine.Ask{Holder: engine.HolderInfo{Holder: strings.Repeat("x", engine.HolderMax+1)}}, invalid("holder")},
			{"an empty name", "", engine.Ask{}, invalid("name")},
			{"a name that is too long", strings.Repeat("x", engine.NameMax+1), engine.Ask{}, invalid("name")},
			{"a name with control characters", "a\nb", engine.Ask{}, invalid("name")},
			{"a name that is not UTF-8", "\xff", engine.Ask{}, invalid("name")},
			{"a bad definition", "new", engine.Ask{Create: &engine.Definition{Limit: -1}}, invalid("limit")},
		} {
			a := &asked{t: t, start: time.Now()}
			r1.Ask(c.at, c.ask, a)
			got := a.look()
			var wrong *engine.InvalidError
			if errors.As(got.err, &wrong) {
				got.err = invalid(wrong.Field)
			}
			if !reflect.DeepEqual(got.err, c.want) || got.at != 0 {
				t.Errorf("%s: told after %v: %s %v; want %v", c.name, got.at, got.told, got.err, c.want)
			}
		}
		s.empty()
	})
}

func TestBeyondMaxWaitersRequestsFailAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1, MaxWaiters: 2})
		r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Wait: time.Minute})
		second := r1.ask(engine.Ask{Wait: time.Minute})
		third := r1.ask(engine.Ask{Wait: time.Minute})
		if l := third.look(); !errors.Is(l.err, engine.ErrTooManyWaiters) {
			t.Errorf("the third was told: %s %v", l.told, l.err)
		}
		first.mustWait()
		second.Cancel()
		fourth := r1.ask(engine.Ask{Wait: time.Minute})
		fourth.mustWait()
	})
}

func TestWaitersOfAnotherReplicaCountAgainstMaxWaiters(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1, MaxWaiters: 1})
		r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Wait: time.Minute})
		first.mustWait()
		for range 3 {
			if l := r2.ask(engine.Ask{Wait: time.Minute}).look(); !errors.Is(l.err, engine.ErrTooManyWaiters) {
				t.Errorf("at the other replica it was told: %s %v", l.told, l.err)
			}
		}
		first.Cancel()
		time.Sleep(time.Millisecond)
		r2.ask(engine.Ask{Wait: time.Minute}).mustWait()
	})
}

// Whoever asks again with its key stands where it stood, also where the nodes were away for a moment.
func TestAPlaceOutlastsAMomentWithoutAQuorum(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		held := r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Wait: time.Minute, Key: "first"})
		time.Sleep(time.Millisecond)
		second := r1.ask(engine.Ask{Wait: time.Minute, Key: "second"})
		second.mustWait()
		r1.ways[0].Disconnect()
		r1.ways[1].Disconnect()
		time.Sleep(2 * time.Second)
		for _, r := range []*asked{first, second} {
			if l := r.look(); !errors.Is(l.err, engine.ErrQuorumUnavailable) {
				t.Errorf("it was told: %s %v", l.told, l.err)
			}
		}
		r1.ways[0].Connect()
		r1.ways[1].Connect()
		time.Sleep(2 * time.Second)
		second = r1.ask(engine.Ask{Wait: time.Minute, Key: "second"})
		first = r1.ask(engine.Ask{Wait: time.Minute, Key: "first"})
		time.Sleep(time.Millisecond) // both have looked for their lease, and stand in line
		r1.release(held, 0)
		time.Sleep(100 * time.Millisecond)
		first.mustHold()
		second.mustWait()
	})
}

func TestARequestThatItsOwnDefinitionCanNotServeCreatesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		var weight *engine.WeightError
		if l := r1.ask(engine.Ask{Permits: 3, Create: &engine.Definition{Limit: 2}}).look(); !errors.As(l.err, &weight) || weight.Limit != 2 {
			t.Errorf("too heavy: %s %v", l.told, l.err)
		}
		var invalid *engine.InvalidError
		long := engine.Ask{TTL: 2 * time.Hour, Create: &engine.Definition{Limit: 2}}
		if l := r1.ask(long).look(); !errors.As(l.err, &invalid) || invalid.Field != "ttl" {
			t.Errorf("too long: %s %v", l.told, l.err)
		}
		if sem, err := r1.Semaphore(t.Context(), db); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Errorf("there is %+v, %v", sem, err)
		}
		r1.acquire(engine.Ask{Create: &engine.Definition{Limit: 2}})
	})
}

func TestASemaphoreIsCreatedOnFirstUse(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		mine := engine.Definition{Limit: 2, TTL: 10 * time.Second}
		l := r1.acquire(engine.Ask{Create: &mine})
		if l.TTL != 10*time.Second {
			t.Errorf("granted for %v", l.TTL)
		}
		sem, err := r2.Semaphore(t.Context(), db)
		if err != nil || sem.Declared || sem.Rev != 1 || sem.Definition.Limit != 2 || sem.Status.InUse != 1 {
			t.Errorf("created was %+v, %v", sem, err)
		}
		r2.acquire(engine.Ask{Create: &mine})

		other := engine.Definition{Limit: 3, TTL: 10 * time.Second}
		conflict := r2.ask(engine.Ask{Create: &other}).look()
		var told *engine.DefinitionConflict
		if !errors.As(conflict.err, &told) || told.Yours.Limit != 3 || told.Existing.Limit != 2 {
			t.Errorf("another definition: %s %v", conflict.told, conflict.err)
		}

		r1.declare(engine.Definition{Limit: 5}) // an operator's word counts, whatever requests bring
		r1.acquire(engine.Ask{Create: &other, Permits: 3})
		time.Sleep(2 * time.Second)
		r2.ask(engine.Ask{Create: &mine}).mustBeRefused()
		s.uses(r2, 5)
	})
}

func TestTwoReplicasThatCreateTheSameNameAtOnceAgree(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		same := engine.Definition{Limit: 2}
		first := r1.ask(engine.Ask{Create: &same, Wait: time.Minute})
		second := r2.ask(engine.Ask{Create: &same, Wait: time.Minute})
		time.Sleep(100 * time.Millisecond)
		if a, b := first.mustHold(), second.mustHold(); a.Slots.Overlaps(b.Slots) {
			t.Errorf("both have slots %v and %v", a.Slots, b.Slots)
		}
		if sem, err := r1.Semaphore(t.Context(), db); err != nil || sem.Rev != 1 || sem.Status.InUse != 2 {
			t.Errorf("created was %+v, %v", sem, err)
		}
	})
}
