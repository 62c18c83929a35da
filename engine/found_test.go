package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// What the simulation has found, each as the fewest steps that show it.

// R1 granted L and R2 attached it for a renewal; R1 went on to ask as its owner, and was told that it has moved, for ever.
func TestFoundALeaseIsRenewedWhereItWasGrantedAfterItMoved(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		l := r1.acquire(engine.Ask{Permits: 2, TTL: 20 * time.Second})
		for _, r := range []*player{r2, r1, r2, r1} {
			if _, err := r.renew(l, 0).verdict(); err != nil {
				t.Error(err)
			}
		}
		r2.release(l, 1) // and a part of it, which R1 hears of as a later ver
		if _, err := r2.renew(l, 0).verdict(); err != nil {
			t.Error(err)
		}
		if got, err := r1.renew(l, 0).verdict(); err != nil || got.Weight != 1 {
			t.Errorf("it was renewed as %+v, %v", got, err)
		}
	})
}

// A replica that has just started and cannot tell whose a lease string is said that there is no such lease.
func TestFoundAReplicaWithoutTheSecretDoesNotDenyALease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		ways := s.Replica(enginetest.Faults{})
		for _, way := range ways {
			way.Disconnect()
		}
		e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := e.Release(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("released: %v", err)
		}
		if _, err := e.Renew(t.Context(), db, l.Capability, 0); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("renewed: %v", err)
		}
	})
}

// R2 gave slot 2 of {0-2} back, which made ver 1; R1 gave {1-2} back with ver 1 too: acknowledged, and nothing had happened.
func TestFoundAPartThatWasGivenBackInVainIsGivenBackAgain(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		l := r1.acquire(engine.Ask{Permits: 3})
		r2.release(l, 2)
		r1.release(l, 1)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// L was granted on B and C while A held the same attempt on other slots. R2 heard A first, and gave back a slot that B and C
// did not have.
func TestFoundAPartIsTakenFromWhatAQuorumHas(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 4})
		r1.a.Disconnect()
		l := r1.acquire(engine.Ask{Permits: 2})
		has := s.b.Record(db, l.ID)
		others := quorum.SlotsOf(0, 1, 2, 3).Minus(l.Slots)
		s.do(s.a, &engine.Mend{
			Semaphore: db, Lease: l.ID, By: has.By, Owner: has.Owner, Slots: others, Fence: l.Fence, TTL: time.Minute, New: true,
			Until: s.a.Time() + time.Second.Microseconds(),
		})
		r2.release(l, 1)
		s.everywhere(l.ID, l.Slots.Lowest(1).String(), s.b, s.c)
	})
}

// L was on A and B. A part of it was acknowledged by A, and by C, which had no record and, as no tombstone bars a part, got one with
// all slots afterwards.
func TestFoundAPartIsAcknowledgedWhereTheLeaseIs(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 2})
		r1.c.Disconnect()
		l := r1.acquire(engine.Ask{Permits: 2})
		r2.b.Hold("release")
		done := false
		go func() {
			if _, err := r2.Release(t.Context(), db, l.Capability, 1); err != nil {
				t.Error(err)
			}
			done = true
		}()
		synctest.Wait()
		if done {
			t.Error("the part was acknowledged while B and C may still have it")
		}
		r2.b.Pass("release")
		s.everywhere(l.ID, "0", s.a, s.b)
		if !done {
			t.Error("the part is not acknowledged")
		}
	})
}

// The nodes lengthened L in time and answered after its validity had ended: R1 had forgotten it, and told a validity of 0.
func TestFoundARenewalThatIsAnsweredLateIsWorthWhatItIs(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Second})
		time.Sleep(900 * time.Millisecond)
		r1.ways.Hold("renew")
		renewal := r1.renew(l, 0)
		a, b := r1.a.Next("renew"), r1.b.Next("renew")
		a.Execute()
		b.Execute()
		time.Sleep(200 * time.Millisecond)
		a.Answer()
		b.Answer()
		if got, err := renewal.verdict(); err != nil || got.Validity < 700*time.Millisecond {
			t.Errorf("it was renewed for %v, %v", got.Validity, err)
		}
	})
}

// L was renewed at R1, which heard meanwhile of a part that was given back through R2: the nodes said no to the slots that L had before,
// and that was told as fewer than a quorum of answers.
func TestFoundARenewalThatAPartOvertakesIsMadeAgain(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		l := r1.acquire(engine.Ask{Permits: 3})
		r1.ways.Hold("find")
		r2.release(l, 1)
		var finds []*enginetest.Message
		for _, way := range r1.ways {
			finds = append(finds, way.Next("find"))
			finds[len(finds)-1].Execute()
		}
		r1.ways.Hold("renew")
		renewal := r1.renew(l, 0)
		var renewals []*enginetest.Message
		for _, way := range r1.ways {
			renewals = append(renewals, way.Next("renew"))
			renewals[len(renewals)-1].Execute()
		}
		for _, m := range append(finds, renewals...) {
			m.Answer()
			synctest.Wait()
		}
		r1.ways.Pass(enginetest.Any)
		if got, err := renewal.verdict(); err != nil || got.Weight != 1 {
			t.Errorf("it was renewed as %+v, %v", got, err)
		}
	})
}

// L was renewed and then released before the renewal was answered: it was told as renewed.
func TestFoundARenewalThatAReleaseFollowsIsNone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{})
		r1.ways.Hold("renew")
		renewal := r1.renew(l, 0)
		renewals := []*enginetest.Message{r1.a.Next("renew"), r1.b.Next("renew"), r1.c.Next("renew")}
		for _, m := range renewals {
			m.Execute()
		}
		go r1.giveBack(l)
		synctest.Wait()
		for _, m := range renewals {
			m.Answer()
		}
		if _, err := renewal.verdict(); !errors.Is(err, engine.ErrLeaseReleased) {
			t.Errorf("the renewal: %v", err)
		}
	})
}

// R1's last commit is under way to C when R2 sets out to complete the forming. C was frozen after it had become ok, and stayed
// so.
func TestFoundCompletingAFormingStopsNobodyWhoIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enginetest.NewCluster(t, 3)
		begin := func(hold string) enginetest.Replica {
			ways := c.Replica(enginetest.Faults{Timeout: -1})
			ways[2].Hold(hold)
			e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: c.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			return ways
		}
		commit := begin("commit")[2].Next("commit")
		freeze := begin("freeze")[2].NextWithin(2*time.Second, "freeze")
		if a := commit.Deliver(); a.Says != engine.SaysDone {
			t.Fatalf("C says %s to the commit", a.Says)
		}
		if a := freeze.Deliver(); a.Says != engine.SaysNo || a.Node.State != engine.StateOK {
			t.Errorf("C says %s to the freeze and is %s", a.Says, a.Node.State)
		}
	})
}

// Slot 0 is used on A and B, slot 1 on B and C, and slot 2 is free on all. A waiter that began at slot 0 was offered 1, 2 and 0, again
// and again, while 2 was to be had.
func TestFoundASlotThatIsFreeOnAllNodesIsFound(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.player().declare(engine.Definition{Limit: 3})
		s.stray(s.a, 1, quorum.OneSlot(0))
		s.stray(s.b, 1, quorum.OneSlot(0))
		s.stray(s.b, 1, quorum.OneSlot(1))
		s.stray(s.c, 1, quorum.OneSlot(1))
		for range 5 { // each begins somewhere else
			r := s.player()
			waiter := r.ask(engine.Ask{Wait: 30 * time.Second})
			time.Sleep(10 * time.Second) // four tries each half second, each of them right with one chance in three
			r.release(waiter.mustHold(), 0)
		}
	})
}

// Each of three slots is used on two nodes: all have one free, and none is to be had. Waiters of two replicas woke each other by
// what they gave back, hundreds of times a second. A slot that comes free for all is granted at once all the same.
func TestFoundWaitersThatAreOfferedDifferentSlotsRest(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		back := s.stray(s.a, 1, quorum.OneSlot(0))
		s.stray(s.b, 1, quorum.OneSlot(0))
		s.stray(s.b, 1, quorum.OneSlot(1))
		s.stray(s.c, 1, quorum.OneSlot(1))
		s.stray(s.c, 1, quorum.OneSlot(2))
		s.stray(s.a, 1, quorum.OneSlot(2))
		claims := s.count(s.a, "claim")
		first := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Millisecond)
		second := r2.ask(engine.Ask{Wait: time.Minute})
		third := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(10 * time.Second)
		if n := claims.Load(); n > 1000 { // three waiters, four tries each half second at most, and the first ones
			t.Errorf("they claimed %d times in 10 s", n)
		}
		s.do(s.a, back)
		s.do(s.b, back)
		time.Sleep(20 * time.Millisecond)
		granted := 0
		for _, waiter := range []*asked{first, second, third} {
			if waiter.look().holds() {
				granted++
			}
		}
		if granted != 1 {
			t.Errorf("%d were granted the slot that came free", granted)
		}
	})
}

// Two operators: what one puts, the other deletes before the first has read its status. The Put was answered with an error
// though it had been done.
func TestFoundAPutThatADeleteFollowsIsDone(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.ways.Hold("view")
		done := make(chan error, 1)
		go func() {
			put, created, err := r1.Put(t.Context(), db, engine.Definition{Limit: 3}, engine.Condition{}, "me")
			if !created || put.Rev != 1 || put.Definition.Limit != 3 {
				t.Errorf("put %+v, created: %t", put, created)
			}
			done <- err
		}()
		synctest.Wait()
		if err := r2.Delete(t.Context(), db, engine.Condition{}, "other"); err != nil {
			t.Error(err)
		}
		r1.ways.Pass("view")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Five nodes: B is down, E is full, and D has missed a change of the limit: nobody told it, and A, C and D had a permit free for
// nobody.
func TestFoundANodeThatMissedAChangeIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enginetest.NewCluster(t, 5)
		ways := c.Replica(enginetest.Faults{})
		e := openOn(t, c, ways)
		put := func(limit int) {
			if _, _, err := e.Put(t.Context(), db, engine.Definition{Limit: limit}, engine.Condition{}, "test"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		put(3)
		ways[3].Disconnect()
		put(1)
		ways[3].Connect()
		ways[1].Disconnect()
		stray := &engine.Mend{
			Semaphore: db, Lease: "stray", By: "stray", Slots: quorum.OneSlot(0), TTL: time.Hour,
			Until: c.Servers[4].Time() + time.Second.Microseconds(),
		}
		header := &engine.Header{Cluster: clusterOf(t, c.Servers[4]), Index: 4, Known: []int64{1, 1, 1, 1, 1}}
		if a := c.Servers[4].Execute(header, 0, engine.Placement{}, stray); a.Says != engine.SaysMended {
			t.Fatal(a.Says)
		}
		time.Sleep(2 * time.Second)
		o, err := e.Acquire(t.Context(), db, engine.Ask{Wait: 2 * time.Second})
		if err != nil || o.Refusal != nil {
			t.Errorf("%+v, %v", o.Refusal, err)
		}
	})
}

// clusterOf reads which cluster a server belongs to.
func clusterOf(t *testing.T, s *enginetest.Server) string {
	t.Helper()
	a := s.Execute(nil, 0, engine.Placement{}, &engine.Freeze{})
	if a.Node == nil {
		t.Fatalf("%s is blank", s.Name())
	}
	return a.Node.Cluster
}

// A register that comes back after it was dropped has larger ballots than what was sent about it before.
func TestWhatWasSentBeforeADeletionDoesNothingToWhatCameAfter(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5})
		r1.c.Hold("accept")
		r1.declare(engine.Definition{Limit: 7}) // by A and B
		accept := r1.c.Next("accept")
		accept.Deliver()
		r1.c.Pass(enginetest.Any)
		if err := r2.Delete(t.Context(), db, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		r2.declare(engine.Definition{Limit: 1})
		if a := accept.Repeat(); a.Says != engine.SaysNo {
			t.Errorf("C has %s what was sent before the deletion", a.Says)
		}
		if sem, err := r1.Semaphore(t.Context(), db); err != nil || sem.Definition.Limit != 1 || sem.Rev != 1 {
			t.Errorf("read: %+v, %v", sem, err)
		}
		if l := r1.acquire(engine.Ask{}); l.Slots.String() != "0" {
			t.Errorf("granted %+v; the limit is 1", l)
		}
	})
}

// Nodes that have records of earlier attempts (claims that were executed twice, or were not heard to be given back yet): that ended a
// request which nobody asks again, and later kept it waiting until they ended, though permits were free.
func TestFoundAWaiterIsServedWhereEarlierAttemptsAreStillThere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		l := r1.acquire(engine.Ask{Permits: 2})
		free := all(3).Minus(l.Slots)
		r2.a.Hold("claim")
		waiter := r2.ask(engine.Ask{Permits: 2, Wait: time.Minute})
		claim := r2.a.Next("claim")
		claim.Deliver()
		r2.a.Pass("claim")
		for _, server := range []*enginetest.Server{s.a, s.b} {
			earlier := &engine.Mend{
				Semaphore: db, Lease: claim.Op.(*engine.Claim).Lease, By: "earlier on " + server.Name(), Slots: free, Fence: 1, TTL: time.Minute,
				Until: server.Time() + time.Second.Microseconds(), New: true,
			}
			if a := s.do(server, earlier); a.Says != engine.SaysMended {
				t.Fatalf("%s says %s", server.Name(), a.Says)
			}
		}
		waiter.mustWait()
		r1.release(l, 0)
		waiter.mustHold()
	})
}

// A node that missed a change, and has promised a larger ballot to somebody who never came back, is told by a ballot larger still.
// Until then a quorum under one definition is enough to know how far grants may go while a slot beyond the limit is in use.
func TestFoundANodeThatHasPromisedTheDeadIsTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 5})
		r1.release(r1.acquire(engine.Ask{}), 0)
		for _, server := range []*enginetest.Server{s.b, s.c} {
			s.stray(server, 1, quorum.OneSlot(4)) // beyond the limit to come
		}
		r1.ways.Hold("wake")
		s.change(engine.Definition{Limit: 3}, 1, 2)
		promised := engine.Ballot{Counter: s.accepted(s.b).Definition.Counter + 1000, Replica: "nobody"}
		if a := s.do(s.a, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: db, Ballot: promised}); a.Says != engine.SaysPromised {
			t.Fatalf("A says %s", a.Says)
		}
		r1.a.Hold("prepare") // it stays apart for now
		first, second, third := r1.ask(engine.Ask{Wait: time.Minute}), r1.ask(engine.Ask{Wait: time.Minute}), r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(time.Second)
		first.mustHold()
		second.mustHold()
		third.mustWait() // slot 4 is the third
		r1.ways.Pass(enginetest.Any)
		time.Sleep(time.Second)
		third.mustWait()
		if a := s.accepted(s.a); a.Value.Limit != 3 {
			t.Errorf("A still has the limit %d", a.Value.Limit)
		}
		r1.release(second.mustHold(), 0)
		third.mustHold()
	})
}

// A waiter rests whose claims came to nothing, as C alone has a slot beyond the limit in use and A is full. When the others name one
// slot that is free it is not kept waiting by that.
func TestFoundAWaiterRestsNoLongerThanOthersOfferTheSameSlot(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 3})
		var full []*engine.Release
		for slot := range 2 {
			full = append(full, s.stray(s.a, 1, quorum.OneSlot(slot)))
		}
		s.stray(s.b, 1, quorum.OneSlot(1))
		s.stray(s.c, 1, quorum.OneSlot(2))
		r1.declare(engine.Definition{Limit: 2})
		waiter := r1.ask(engine.Ask{Wait: time.Minute})
		time.Sleep(10 * time.Second)
		for claims := s.count(s.a, "claim"); claims.Load() == 0; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		waiter.mustWait() // and rests
		claims := s.count(s.a, "claim")
		r2.ask(engine.Ask{}).mustBeRefused() // which wakes the waiter: B and C have room
		if n := claims.Load(); n != 1 {
			t.Errorf("it was claimed %d times", n-1)
		}
		s.do(s.a, full[0])
		waiter.mustHold() // without any time passing
	})
}
