package engine_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestADefinitionIsKeptAsItWasPut(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		def := engine.Definition{
			Limit: 10, TTL: time.Minute, TTLMax: 2 * time.Hour, MaxWaiters: 7, MinHold: time.Second, HoldMax: time.Hour,
			PriorityStep: 5 * time.Second, Paused: true, Description: "the database",
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		put, created, err := r1.Put(t.Context(), db, def, engine.Condition{}, "anna")
		if err != nil || !created || put.Rev != 1 || !put.Declared || put.ChangedBy != "anna" || !put.ChangedAt.Equal(now) {
			t.Errorf("put: %+v, created %v, %v", put, created, err)
		}
		if put.Name != db || put.Definition != def {
			t.Errorf("put: %+v; want %+v", put.Definition, def)
		}
		for _, r := range []*player{r1, r2} {
			if got, err := r.Semaphore(t.Context(), db); err != nil || !reflect.DeepEqual(got, put) {
				t.Errorf("read: %+v, %v; want %+v", got, err, put)
			}
		}
		plain, created, err := r2.Put(t.Context(), db, engine.Definition{Limit: 3}, engine.Condition{}, "bob")
		want := engine.Definition{
			Limit: 3, TTL: 30 * time.Second, TTLMax: time.Hour, MaxWaiters: 100_000, PriorityStep: 10 * time.Second,
		}
		if err != nil || created || plain.Rev != 2 || plain.Definition != want || plain.ChangedBy != "bob" {
			t.Errorf("put: %+v, created %v, %v; want the defaults, %+v", plain, created, err, want)
		}
	})
}

func TestDefinitionsOutOfRangeAreRefused(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		for _, c := range []struct {
			name, field string
			def         engine.Definition
		}{
			{db, "limit", engine.Definition{}},
			{db, "limit", engine.Definition{Limit: -1}},
			{db, "limit", engine.Definition{Limit: engine.LimitMax + 1}},
			{db, "ttl", engine.Definition{Limit: 1, TTL: engine.TTLMin - 1}},
			{db, "ttl", engine.Definition{Limit: 1, TTL: 2 * time.Minute, TTLMax: time.Minute}},
			{db, "ttl_max", engine.Definition{Limit: 1, TTLMax: engine.TTLMin - 1, TTL: engine.TTLMin - 1}},
			{db, "ttl_max", engine.Definition{Limit: 1, TTLMax: engine.TTLMaxMax + 1}},
			{db, "max_waiters", engine.Definition{Limit: 1, MaxWaiters: -1}},
			{db, "max_waiters", engine.Definition{Limit: 1, MaxWaiters: engine.MaxWaitersMax + 1}},
			{db, "min_hold", engine.Definition{Limit: 1, MinHold: -1}},
			{db, "min_hold", engine.Definition{Limit: 1, MinHold: 24*time.Hour + 1}},
			{db, "hold_max", engine.Definition{Limit: 1, HoldMax: -1}},
			{db, "priority_step", engine.Definition{Limit: 1, PriorityStep: -1}},
			{db, "description", engine.Definition{Limit: 1, Description: strings.Repeat("x", engine.DescriptionMax+1)}},
			{db, "description", engine.Definition{Limit: 1, Description: "\xff"}},
			{"", "name", engine.Definition{Limit: 1}},
			{"a\x00b", "name", engine.Definition{Limit: 1}},
		} {
			var wrong *engine.InvalidError
			_, _, err := r1.Put(t.Context(), c.name, c.def, engine.Condition{}, "test")
			if !errors.As(err, &wrong) || wrong.Field != c.field {
				t.Errorf("%q %+v: %v; want something about %s", c.name, c.def, err, c.field)
			}
		}
		if list, _, err := r1.Semaphores(t.Context(), "", "", 10); err != nil || len(list) != 0 {
			t.Errorf("there are %+v, %v", list, err)
		}
	})
}

// faults.md 12: declare the same limit again while all are held, from several replicas.
func TestTheSameDefinitionAgainWritesNothingAndWakesNobody(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{Permits: 2})
		waiter := r2.ask(engine.Ask{Wait: time.Minute})
		synctest.Wait()
		claims := s.count(s.a, "claim")
		for i := range 6 {
			p := []*player{r1, r2}[i%2]
			got, created, err := p.Put(t.Context(), db, engine.Definition{Limit: 2}, engine.Condition{}, "somebody")
			if err != nil || created || got.Rev != 1 || got.ChangedBy != "test" || got.Status.InUse != 2 {
				t.Errorf("put again: %+v, created %v, %v", got, created, err)
			}
		}
		synctest.Wait()
		if n := claims.Load(); n != 0 {
			t.Errorf("there were %d claims", n)
		}
		waiter.mustWait()
		s.everywhere(l.ID, "0-1", s.a, s.b, s.c)
	})
}

func TestAChangeMayDependOnWhatIsThere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		for i, c := range []struct {
			limit int
			cond  engine.Condition
			rev   int64 // 0: refused
		}{
			{1, engine.Condition{IfRev: 1}, 0}, // there is none
			{1, engine.Condition{IfAbsent: true}, 1},
			{2, engine.Condition{IfAbsent: true}, 0},
			{1, engine.Condition{IfAbsent: true}, 1}, // repeated: it has what it asked for
			{2, engine.Condition{IfRev: 7}, 0},
			{2, engine.Condition{IfRev: 1}, 2},
			{2, engine.Condition{IfRev: 1}, 2}, // repeated
			{3, engine.Condition{IfRev: 1}, 0},
			{3, engine.Condition{}, 3},
		} {
			got, _, err := r1.Put(t.Context(), db, engine.Definition{Limit: c.limit}, c.cond, "test")
			switch {
			case c.rev == 0 && !errors.Is(err, engine.ErrRevMismatch):
				t.Errorf("step %d: %+v, %v; want %v", i, got, err, engine.ErrRevMismatch)
			case c.rev != 0 && (err != nil || got.Rev != c.rev || got.Definition.Limit != c.limit):
				t.Errorf("step %d: %+v, %v; want rev %d", i, got, err, c.rev)
			}
		}
		if err := r1.Delete(t.Context(), db, engine.Condition{IfRev: 2}, "test"); !errors.Is(err, engine.ErrRevMismatch) {
			t.Errorf("deleted under an old revision: %v", err)
		}
		if err := r1.Delete(t.Context(), db, engine.Condition{IfRev: 3}, "test"); err != nil {
			t.Errorf("deleted: %v", err)
		}
	})
}

// faults.md 6: raise the limit while someone waits.
func TestARaisedLimitServesWaitersAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.acquire(engine.Ask{})
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(100 * time.Millisecond)
		r2.declare(engine.Definition{Limit: 3})
		time.Sleep(10 * time.Millisecond)
		if a, b := first.mustHold(), second.mustHold(); a.Slots.Overlaps(b.Slots) {
			t.Errorf("both have slots %v and %v", a.Slots, b.Slots)
		}
	})
}

// faults.md 13: shrink below use.
func TestAShrunkenLimitRevokesNothingAndGrantsNothingUntilUseFits(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5})
		var held []engine.Lease
		for range 4 {
			held = append(held, r1.acquire(engine.Ask{}))
		}
		waiter := r2.ask(engine.Ask{Permits: 2, Wait: time.Hour})
		r2.declare(engine.Definition{Limit: 2})
		for i, want := range []engine.Status{
			{InUse: 4, OverCommitted: 2}, {InUse: 3, OverCommitted: 1}, {InUse: 2}, {InUse: 1, Available: 1},
		} {
			st := r1.status()
			if got := (engine.Status{InUse: st.InUse, OverCommitted: st.OverCommitted, Available: st.Available}); !reflect.DeepEqual(got, want) {
				t.Errorf("after %d releases: %+v; want %+v", i, got, want)
			}
			if _, err := r1.renew(held[i], 0).verdict(); err != nil {
				t.Errorf("a holder is not cut off: %v", err)
			}
			time.Sleep(time.Second)
			waiter.mustWait()
			if i < 3 {
				r2.ask(engine.Ask{}).mustBeRefused()
			}
			r1.release(held[i], 0)
		}
		time.Sleep(10 * time.Millisecond)
		if l := waiter.mustHold(); len(l.Slots.From(2)) > 0 {
			t.Errorf("granted slots %v; the limit is 2", l.Slots)
		}
		if st := r1.status(); st.InUse != 2 || st.OverCommitted != 0 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// quorum.md section 7, Shrinking: the bound is the largest g with g + |{s in use: s >= g}| <= limit.
func TestWhileASlotBeyondTheLimitIsInUseGrantsStayBelowTheBound(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5})
		bySlot := map[int]engine.Lease{}
		for range 5 { // wherever the search for free slots began
			l := r1.acquire(engine.Ask{})
			bySlot[l.Slots.First()] = l
		}
		for slot := range 4 {
			r1.release(bySlot[slot], 0)
		}
		r1.declare(engine.Definition{Limit: 2}) // slot 4 is in use: the bound is 1
		if st := r1.status(); st.InUse != 1 || st.Available != 1 || st.OverCommitted != 0 {
			t.Errorf("the status is %+v", st)
		}
		if refusal := r1.ask(engine.Ask{Permits: 2}).mustBeRefused(); refusal.InUse != 1 {
			t.Errorf("refused with %+v", refusal)
		}
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r2.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Second)
		if l := first.mustHold(); l.Slots.String() != "0" {
			t.Errorf("granted slots %v; the bound is 1", l.Slots)
		}
		second.mustWait()
		if st := r2.status(); st.InUse != 2 || st.Available != 0 {
			t.Errorf("the status is %+v", st)
		}
		r1.release(bySlot[4], 0)
		time.Sleep(10 * time.Millisecond)
		if l := second.mustHold(); l.Slots.String() != "1" {
			t.Errorf("granted slots %v; the limit is 2", l.Slots)
		}
	})
}

func TestARefusalCountsWhatIsInUseBeyondTheLimit(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 5})
		r1.acquire(engine.Ask{Permits: 5})
		for _, limit := range []int{3, 1} {
			r1.declare(engine.Definition{Limit: limit})
			for range 2 { // also when it has read what is beyond the limit
				if refusal := r1.ask(engine.Ask{}).mustBeRefused(); refusal.InUse != 5 || refusal.Limit != limit {
					t.Errorf("the limit is %d: refused with %+v", limit, refusal)
				}
				time.Sleep(time.Second)
			}
		}
		if st := r1.status(); st.InUse != 5 || st.OverCommitted != 4 {
			t.Errorf("the status is %+v", st)
		}
	})
}

// faults.md 21, as far as a semaphore with holders can not be deleted.
func TestADeletedSemaphoreIsGoneAndComesBackWithLargerFences(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		if err := r1.Delete(t.Context(), db, engine.Condition{}, "test"); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Errorf("deleted what is not there: %v", err)
		}
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		if err := r2.Delete(t.Context(), db, engine.Condition{}, "test"); !errors.Is(err, engine.ErrSemaphoreInUse) {
			t.Errorf("deleted while it is held: %v", err)
		}
		r1.declare(engine.Definition{Limit: 1, Paused: true})
		here, there := r1.ask(engine.Ask{Wait: time.Hour}), r2.ask(engine.Ask{Wait: time.Hour})
		r1.release(l, 0)
		here.mustWait()
		there.mustWait()
		if err := r2.Delete(t.Context(), db, engine.Condition{}, "test"); err != nil {
			t.Errorf("deleted: %v", err)
		}
		time.Sleep(time.Second)
		for _, r := range []*asked{here, there, r1.ask(engine.Ask{}), r2.ask(engine.Ask{})} {
			if got := r.look(); !errors.Is(got.err, engine.ErrUnknownSemaphore) {
				t.Errorf("told: %s %v", got.told, got.err)
			}
		}
		for _, r := range []*player{r1, r2} {
			if sem, err := r.Semaphore(t.Context(), db); !errors.Is(err, engine.ErrUnknownSemaphore) {
				t.Errorf("read: %+v, %v", sem, err)
			}
			if list, _, err := r.Semaphores(t.Context(), "", "", 10); err != nil || len(list) != 0 {
				t.Errorf("listed: %+v, %v", list, err)
			}
			if _, err := r.Release(t.Context(), db, l.Capability, 0); err != nil {
				t.Errorf("a release that is repeated: %v", err)
			}
		}
		if err := r1.Delete(t.Context(), db, engine.Condition{}, "test"); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Errorf("deleted again: %v", err)
		}

		_, created, err := r2.Put(t.Context(), db, engine.Definition{Limit: 1}, engine.Condition{IfAbsent: true}, "test")
		if err != nil || !created {
			t.Errorf("put anew: created %v, %v", created, err)
		}
		again := r1.acquire(engine.Ask{})
		if again.Fence <= l.Fence {
			t.Errorf("its fence is %d; before it was deleted there was %d", again.Fence, l.Fence)
		}
	})
}

func TestChangesOfTwoReplicasAtOnceAreOneAfterTheOther(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.playerOver(near), s.playerOver(near)
		var writers sync.WaitGroup
		for i, r := range []*player{r1, r2, r1, r2} {
			writers.Go(func() {
				for j := range 5 {
					limit := 1 + 5*i + j
					if _, _, err := r.Put(t.Context(), db, engine.Definition{Limit: limit}, engine.Condition{}, fmt.Sprint(limit)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		a, errA := r1.Semaphore(t.Context(), db)
		b, errB := r2.Semaphore(t.Context(), db)
		if errA != nil || errB != nil || a.Rev != 20 || !reflect.DeepEqual(a, b) || a.ChangedBy != fmt.Sprint(a.Definition.Limit) {
			t.Errorf("R1 reads %+v, %v, R2 %+v, %v", a, errA, b, errB)
		}
	})
}

func TestAHalfDoneChangeIsCompletedByWhoeverReadsIt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.b.Hold("accept")
		r1.c.Hold("accept")
		go func() { _, _, _ = r1.Put(t.Context(), db, engine.Definition{Limit: 4}, engine.Condition{}, "test") }() // it stays half done
		synctest.Wait()                                                                                            // A has accepted it
		for _, way := range r1.ways {
			way.Disconnect()
		}
		r2.acquire(engine.Ask{}) // by a majority that has the old or the new one, but under one
		sem, err := r2.Semaphore(t.Context(), db)
		if err != nil || sem.Rev < 1 || sem.Rev > 2 {
			t.Errorf("read: %+v, %v", sem, err)
		}
		again, err := r2.Semaphore(t.Context(), db)
		if err != nil || again.Rev != sem.Rev || again.Definition != sem.Definition {
			t.Errorf("read again: %+v, %v; before it was %+v", again, err, sem)
		}
	})
}

// Fewer than Q ballots under one definition: the register is read, which completes the later one, and the claim made anew.
func TestAClaimThatMeetsAHalfDoneChangeIsServedUnderOneDefinition(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.release(r1.acquire(engine.Ask{}), 0) // R1 knows this one
		r2.b.Hold("accept")
		r2.c.Hold("accept")
		go func() { _, _, _ = r2.Put(t.Context(), db, engine.Definition{Limit: 4}, engine.Condition{}, "test") }() // it stays half done
		synctest.Wait()                                                                                            // A alone has accepted it
		for _, way := range r2.ways {
			way.Disconnect()
		}
		r1.c.Disconnect()
		request := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(100 * time.Millisecond)
		l := request.mustHold()
		if a, b := s.a.Record(db, l.ID), s.b.Record(db, l.ID); a == nil || b == nil || a.Ballot != b.Ballot {
			t.Errorf("A has %+v, B %+v", a, b)
		}
		if sem, err := r1.Semaphore(t.Context(), db); err != nil || sem.Definition.Limit != 4 || sem.Rev != 2 {
			t.Errorf("read: %+v, %v", sem, err)
		}
	})
}

func TestARequestThatMeetsADeletedSemaphoreCreatesItAnewIfItMay(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		first := r1.acquire(engine.Ask{})
		r1.release(first, 0)
		if err := r2.Delete(t.Context(), db, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		waiter := r1.ask(engine.Ask{Wait: time.Minute}) // R1 has not heard of it
		if l := waiter.look(); !errors.Is(l.err, engine.ErrUnknownSemaphore) {
			t.Errorf("told: %s %v", l.told, l.err)
		}
		if l := r1.acquire(engine.Ask{Create: &engine.Definition{Limit: 2}}); l.Fence <= first.Fence {
			t.Errorf("granted anew with fence %d; it was %d before", l.Fence, first.Fence)
		}
	})
}
