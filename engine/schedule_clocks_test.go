package engine_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// wide-clock-interval-jump: round trips of 400 ms, then C jumps 300 ms, which nobody can tell from a slow answer -> the validity told is
// shorter by the interval; no overlap.
func TestScheduleWideClockIntervalJump(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		far := 200 * time.Millisecond
		r1 := s.playerOver(enginetest.Faults{LatencyMin: far, LatencyMax: far, Timeout: -1})
		create := engine.Definition{Limit: 1}
		if _, _, err := r1.Put(t.Context(), db, create, engine.Condition{}, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r1.b.Disconnect()
		request := r1.ask(engine.Ask{TTL: time.Second})
		time.Sleep(4*far + time.Millisecond) // it looks for the definition first
		l := request.mustHold()
		ends := request.start.Add(request.look().at + l.Validity)
		// of the second: the round trip, the margin, and the width of the interval
		if left := time.Second - 2*far - 35*time.Millisecond - 2*far; l.Validity > left {
			t.Errorf("the validity is %v, %v are safe", l.Validity, left)
		}
		s.c.Shift(300 * time.Millisecond)
		next := s.player().ask(engine.Ask{Wait: 5 * time.Second})
		time.Sleep(3 * time.Second)
		next.mustHold()
		if at := next.start.Add(next.look().at); at.Before(ends) {
			t.Errorf("the next was granted %v before the validity of the first ends", ends.Sub(at))
		}
	})
}

// A note that is left in a closed socket's buffer tells how clocks stood when it was written: it is not executed when they have drifted.
func TestANoteThatRunsLateChangesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Hold("note")
		old := r1.c.NextWithin(11*time.Second, "note")
		r1.c.Cut()
		r1.c.Pass("note")
		time.Sleep(6 * time.Second)
		if a := old.Execute(); a.Says != engine.SaysLate {
			t.Errorf("C says %s to an old note", a.Says)
		}
	})
}

// small-clock-steps-add-up: a node's clock steps 15 ms twice -> suspended at the second.
func TestScheduleSmallClockStepsAddUp(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": 15 * time.Millisecond, "back": -15 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.ways.Hold("freeze")
				r1.ways.Hold("note") // by which nodes would tell each other
				time.Sleep(3 * time.Second)
				for _, states := range []string{"A up, B up, C up", "A up, B up, C suspended"} {
					s.c.Shift(step)
					time.Sleep(2 * time.Second)
					if got := r1.states(); got != states {
						t.Errorf("the nodes are %s; want %s", got, states)
					}
				}
			})
		})
	}
}

// clock-jump-before-a-replica-starts: C jumps an hour, then R3 starts -> R3 does not count C.
func TestScheduleClockJumpBeforeAReplicaStarts(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 100 * time.Millisecond} {
		t.Run(jump.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1 := s.player()
				r1.declare(engine.Definition{Limit: 1})
				time.Sleep(21 * time.Second) // the nodes are told of each other's clocks
				r1.Close()
				s.c.Shift(jump)
				r3 := s.player()
				r3.ways.Hold("freeze")
				time.Sleep(2 * time.Second)
				if states := r3.states(); states != "A up, B up, C suspended" {
					t.Errorf("the nodes are %s", states)
				}
				r3.ways.Pass(enginetest.Any)
				s.healed(r3)
				r3.acquire(engine.Ask{})
			})
		})
	}
}

// renew-levels-fences: A, B, C hold L with different fences -> after a renewal all alike.
func TestScheduleRenewLevelsFences(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Minute})
		r := s.record(s.b, l.ID)
		lower := &engine.Mend{
			Semaphore: db, Lease: l.ID, By: r.By, Owner: r.Owner, Ver: r.Ver, Slots: r.Slots, Fence: r.Fence - 4, Ballot: r.Ballot,
			TTL: time.Minute, Until: s.b.Time() + time.Minute.Microseconds(),
		}
		s.says(engine.SaysMended, s.b, lower)
		if fence := s.record(s.b, l.ID).Fence; fence != l.Fence-4 {
			t.Fatalf("the fence on B is %d, of the lease %d", fence, l.Fence)
		}
		if _, err := r1.renew(l, 0).verdict(); err != nil {
			t.Fatal(err)
		}
		for _, server := range s.Servers {
			if fence := s.record(server, l.ID).Fence; fence != l.Fence {
				t.Errorf("the fence on %s is %d, of the lease %d", server.Name(), fence, l.Fence)
			}
		}
	})
}

// owner-release-against-attach-and-reseed: R1's connection drops; attach by R2 at C, release by R1 at B, attach at A; C loses its memory,
// is reseeded from A, B -> L lives, or R2 is told; never two holders.
func TestScheduleOwnerReleaseAgainstAttachAndReseed(t *testing.T) {
	for name, answered := range map[string]bool{"its answer is read": true, "its answer is lost": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2, r3 := s.player(), s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				first := r1.ask(engine.Ask{Kept: true})
				l := first.mustHold()
				next := r3.ask(engine.Ask{Wait: 10 * time.Minute, Kept: true})
				r2.ways.Hold("attach")
				again := r2.attach(l)
				attaches := []*enginetest.Message{r2.a.Next("attach"), r2.b.Next("attach"), r2.c.Next("attach")}
				r1.ways.Hold("release")
				first.Cancel()
				releases := []*enginetest.Message{r1.a.Next("release"), r1.b.Next("release"), r1.c.Next("release")}
				attaches[2].Execute()
				releases[1].Execute()
				attaches[0].Execute()
				if answered {
					attaches[2].Answer()
				}
				forgets(s.c)
				attaches[0].Answer()
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				for range 120 {
					time.Sleep(time.Second)
					if again.look().holds() && next.look().holds() {
						t.Fatal("two hold the only permit")
					}
				}
				if l := again.look(); !l.holds() && l.lost == "" && l.err == nil && l.refusal == nil {
					t.Errorf("R2 was told: %s", l.told)
				}
				if !again.look().holds() {
					next.mustHold()
				}
				s.uses(r3, 1)
			})
		})
	}
}

// A clock that is set back lets no lease live longer than it was granted for, when all nodes restart before the node is readmitted.
func TestScheduleClockSetBackBeforeAPowerCut(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: 20 * time.Second})
		r1.Close()
		s.c.Shift(-time.Hour)
		powerCut(s.Servers...)
		r2 := s.durable()
		s.healed(r2)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
		time.Sleep(20 * time.Second)
		s.empty()
		r2.acquire(engine.Ask{})
	})
}
