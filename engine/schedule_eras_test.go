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
	"github.com/permitd/permitd/engine/quorum"
)

// forgetsUnder makes a running server lose its memory and has another replica readmit it, while the calls of the first one stay
// under way.
func (s *stage) forgetsUnder(server *enginetest.Server, idle, healer *player) {
	s.t.Helper()
	idle.ways.Hold("freeze")
	server.Wipe()
	healer.status() // it hears that the node is out
	time.Sleep(200 * time.Millisecond)
	if r := record(server); r == nil || r.State != engine.StateOK {
		s.t.Fatalf("%s is %+v", server.Name(), r)
	}
}

// ballot-before-amnesia then claim-after-reseed: claim L on A (answer under way); A loses its memory, is reseeded from B, C; M
// claimed on A, C; L's answers from old A and from B are read -> L is not granted.
func TestScheduleBallotBeforeAmnesiaThenClaimAfterReseed(t *testing.T) {
	for name, learns := range map[string]func(*player){
		"learned by an answer":       func(r1 *player) {},
		"learned while reconnecting": func(r1 *player) { r1.c.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				r1.release(r1.acquire(engine.Ask{}), 0)
				r1.ways.Hold("claim")
				l := r1.ask(engine.Ask{Wait: time.Minute})
				old := r1.a.Next("claim")
				old.Execute()
				onB := r1.b.Next("claim")
				if name == "learned while reconnecting" {
					if a := onB.Execute(); a.Says != engine.SaysGranted { // before the mark, but after B was read
						t.Fatalf("B says %s", a.Says)
					}
					s.b.Around(hides(onB.Lease()))
				}
				s.forgetsUnder(s.a, r1, r2)
				r2.b.Hold("claim")
				m := r2.ask(engine.Ask{})
				m.mustHold() // on A and C
				learns(r1)
				old.Answer()
				onB.Deliver()
				synctest.Wait()
				l.mustNotHold()
				r1.ways.Pass(enginetest.Any)
				r2.ways.Pass(enginetest.Any)
				time.Sleep(time.Second)
				l.mustNotHold()
				m.mustHold()
			})
		})
	}
}

// hides makes a server read as if it did not have a lease: as if it had been read before it did.
func hides(lease string) func(enginetest.Apply) enginetest.Apply {
	return func(next enginetest.Apply) enginetest.Apply {
		return func(now int64, h *engine.Header, at int64, p engine.Placement, op engine.Op) (*engine.Answer, []engine.Wake) {
			a, wakes := next(now, h, at, p, op)
			if a.Page != nil {
				for i := range a.Page.Semaphores {
					c := &a.Page.Semaphores[i]
					var rest []engine.Record
					for _, r := range c.Leases {
						if r.Lease != lease {
							rest = append(rest, r)
						}
					}
					c.Leases = rest
				}
			}
			return a, wakes
		}
	}
}

// The same with a renewal: what was renewed on A before it forgot does not count.
func TestScheduleRenewalBeforeAmnesia(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("its answer is read before the new era is known: ", early), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.acquire(engine.Ask{TTL: 10 * time.Second})
				r1.ways.Hold("renew")
				renewal := r1.renew(l, 40*time.Second)
				old := r1.a.Next("renew")
				old.Execute()
				s.forgetsUnder(s.a, r1, r2)
				r1.c.Disconnect()
				if early {
					old.Answer()
				}
				r1.b.Next("renew").Deliver() // stale: R1 learns of A's era, and asks again
				if !early {
					old.Answer()
				}
				if again := r1.b.Try(10*time.Millisecond, "renew"); again != nil { // as long as it may still be renewed
					again.Deliver()
				}
				if renewal.done && renewal.err == nil {
					t.Errorf("renewed on B alone, and by an A that has forgotten it: %+v", renewal.lease)
				}
				r1.ways.Pass(enginetest.Any)
				time.Sleep(time.Second)
				if _, err := renewal.verdict(); err == nil {
					t.Error("renewed on B alone")
				}
			})
		})
	}
}

// The same with a register: what A accepted before it forgot does not make a value chosen. B and C have promised.
func TestScheduleAcceptBeforeAmnesia(t *testing.T) {
	for turn, read := range []string{"before the new era is known", "when it is known", "after B has accepted, too"} {
		t.Run("its answer is read "+read, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				r1.ways.Hold("accept")
				r1.a.Hold("prepare")
				r1.begins(engine.Definition{Limit: 5})
				r1.a.Next("prepare").Deliver()
				old := r1.a.Next("accept")
				old.Execute()
				s.forgetsUnder(s.a, r1, r2)
				r1.c.Disconnect()
				prepares := s.count(s.b, "prepare")
				for i, step := range []func(){
					func() { r1.b.Next("accept").Deliver() }, // stale: R1 learns of A's era, and asks again
					func() { r1.b.Next("accept").Deliver() },
					func() {},
				} {
					if i == turn {
						old.Answer()
					}
					step()
				}
				time.Sleep(100 * time.Millisecond)
				if prepares.Load() == 0 {
					t.Errorf("a value was called chosen that only B has accepted (under %v)", old.Op.(*engine.Accept).Ballot)
				}
				r1.ways.Pass(enginetest.Any)
				time.Sleep(3 * time.Second)
			})
		})
	}
}

// The same with a promise: A has promised and forgets. Who writes asks for promises again, though A and B have accepted.
func TestSchedulePromiseBeforeAmnesia(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.c.Disconnect()
		r1.ways.Hold("accept")
		put := r1.begins(engine.Definition{Limit: 5})
		synctest.Wait()
		r1.c.Connect()
		s.forgetsUnder(s.a, r1, r2)
		prepares := s.count(s.b, "prepare")
		r1.ways.Pass("accept")
		time.Sleep(time.Second)
		synctest.Wait()
		if !put.done || put.err != nil {
			t.Errorf("it is written: %t, %v", put.done, put.err)
		}
		if prepares.Load() == 0 {
			t.Error("a promise of A was counted that it has forgotten")
		}
	})
}

// putting is a Put under way.
type putting struct {
	done bool
	err  error
}

// begins begins to put a definition in force. What becomes of it may be read when the bubble is at rest.
func (p *player) begins(def engine.Definition) *putting {
	u := &putting{}
	go func() {
		_, _, u.err = p.Put(p.t.Context(), db, def, engine.Condition{}, "test")
		u.done = true
	}()
	return u
}

// old-era-answer-read-late: A's answer from before its loss is read after the coordinator learned the new era -> no ballot.
func TestScheduleOldEraAnswerReadLate(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		r1.release(r1.acquire(engine.Ask{}), 0)
		r1.ways.Hold("claim")
		r1.c.Disconnect()
		l := r1.ask(engine.Ask{Wait: time.Minute})
		old, onB := r1.a.Next("claim"), r1.b.Next("claim")
		old.Execute()
		s.forgetsUnder(s.a, r1, r2)
		onB.Deliver()                // stale
		r1.b.Next("claim").Deliver() // again, with what was learned: granted
		old.Answer()                 // and now this
		l.mustNotHold()
		r1.ways.Pass(enginetest.Any)
	})
}

// copied-ballot-is-no-vote: L was claimed on B only; A is reseeded and copies it -> L is not granted by A + B until claimed, mended
// or renewed there.
func TestScheduleCopiedBallotIsNoVote(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		s.put(s.b, "L", "a", quorum.OneSlot(0))
		forgets(s.a)
		r1 := s.heal()
		copied := s.a.Record(db, "L")
		if copied == nil || !copied.Copy {
			t.Fatalf("A has %+v", copied)
		}
		r1.ask(engine.Ask{}).mustBeRefused() // it blocks its slot
		s.says(engine.SaysRenewed, s.a, renewalOf(s.a, copied))
		if s.a.Record(db, "L").Copy {
			t.Error("a renewed copy is no vote yet")
		}
	})
}

// slow-second-reseeder: R1 and R2 reseed A; R2's mark arrives after R1's commit -> A ends ok in one era, not stuck.
func TestScheduleSlowSecondReseeder(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Minute})
		r1.ways.Hold("freeze")
		r2.ways.Hold("mark")
		forgets(s.a)
		time.Sleep(1500 * time.Millisecond) // R2 has frozen A
		onB := r2.b.NextWithin(2*time.Second, "mark")
		r1.ways.Pass(enginetest.Any)
		time.Sleep(20 * time.Second) // R1 has taken over, and A votes
		if r := record(s.a); r.State != engine.StateOK {
			t.Fatalf("A is %+v", r)
		}
		onB.Execute()
		r2.ways.Pass(enginetest.Any)
		time.Sleep(10 * time.Second)
		s.healed(r1)
		s.healed(r2)
		r1.ask(engine.Ask{}).mustBeRefused()
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// second-era-same-number: two losses of A, the first mark known to B only -> the second era is larger than both.
func TestScheduleSecondEraSameNumber(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		s.says(engine.SaysDone, s.b, &engine.Mark{Node: 0, Era: 2, Token: engine.Ballot{Counter: 9, Replica: "dead"}})
		forgets(s.a)
		s.heal()
		if eras := s.nodeEras(); eras != "[3 1 1]" {
			t.Errorf("the nodes are of eras %s", eras)
		}
	})
}

// A mark that is refused is made again at once, with an era larger than the one that the node knows: whoever told B of it has died.
func TestAMarkThatIsRefusedIsMadeAgainWithALargerEra(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.ways.Hold("mark")
		freezes, marks := s.count(s.a, "freeze"), s.count(s.c, "mark")
		forgets(s.a)
		r1.b.NextWithin(3*time.Second, "mark")
		s.says(engine.SaysDone, s.b, &engine.Mark{Node: 0, Era: 50, Token: engine.Ballot{Counter: 9, Replica: "dead"}})
		r1.ways.Pass(enginetest.Any)
		s.healed(r1)
		if eras := s.nodeEras(); eras != "[51 1 1]" {
			t.Errorf("the nodes are of eras %s", eras)
		}
		if freezes.Load() != 1 || marks.Load() != 2 {
			t.Errorf("A was frozen %d times, and C told of %d eras", freezes.Load(), marks.Load())
		}
	})
}

// abandoned-mark-is-not-replaced: A was marked, the reseeder died, A is alive -> reseeded as any, not shown as replaced.
func TestScheduleAbandonedMarkIsNotReplaced(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		time.Sleep(11 * time.Second) // the nodes have been told of each other
		r1.ways.Hold("freeze")
		for _, server := range []*enginetest.Server{s.b, s.c} {
			s.says(engine.SaysDone, server, &engine.Mark{Node: 0, Era: 2, Token: engine.Ballot{Counter: 9, Replica: "dead"}})
		}
		time.Sleep(1100 * time.Millisecond)
		if states := r1.states(); states != "A out, B up, C up" {
			t.Errorf("the nodes are %s", states)
		}
		r1.ways.Pass(enginetest.Any)
		s.healed(r1)
		if eras := s.nodeEras(); eras != "[3 1 1]" {
			t.Errorf("the nodes are of eras %s", eras)
		}
	})
}

// abandoned-mark-then-power-cut: the same, then all restart -> cold start works.
func TestScheduleAbandonedMarkThenPowerCut(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 1}, func(t *testing.T, s *stage) {
		for _, server := range []*enginetest.Server{s.b, s.c} {
			s.says(engine.SaysDone, server, &engine.Mark{Node: 0, Era: 2, Token: engine.Ballot{Counter: 9, Replica: "dead"}})
		}
		for _, server := range s.Servers {
			server.Kill()
			server.Restart(enginetest.Renamed)
		}
		s.heal()
		if eras := s.nodeEras(); eras != "[3 3 3]" {
			t.Errorf("the nodes are of eras %s", eras)
		}
	})
}

// release-ack-of-old-era: L's release is acknowledged by A, which then forgets; reseeded from C that has not heard it -> the
// release is sent again, L ends.
func TestScheduleReleaseAckOfOldEra(t *testing.T) {
	for _, how := range []string{"by answer", "while connecting"} {
		t.Run(how, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(engine.Definition{Limit: 1})
				l := r1.acquire(engine.Ask{TTL: time.Minute})
				r1.b.Hold("release")
				r1.c.Hold("release")                                                // these do not hear it for now
				go func() { _, _ = r1.Release(t.Context(), db, l.Capability, 0) }() // it is not confirmed in time
				synctest.Wait()
				s.everywhere(l.ID, "", s.a)
				if how == "while connecting" {
					r1.a.Disconnect()
				}
				s.forgetsUnder(s.a, r1, r2)
				s.everywhere(l.ID, "0", s.a) // copied from B and C
				r1.a.Connect()
				time.Sleep(1100 * time.Millisecond)
				s.everywhere(l.ID, "", s.a)
				r1.ways.Pass(enginetest.Any)
				time.Sleep(time.Second)
				s.everywhere(l.ID, "", s.a, s.b, s.c)
			})
		})
	}
}

// replicaof-and-back: A becomes B's replica and a master again between two requests -> out (master_replid).
func TestScheduleReplicaofAndBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Minute})
		r1.ways.Hold("freeze")
		s.a.Follow(s.a.Snapshot())
		time.Sleep(1100 * time.Millisecond)
		if states := r1.states(); states != "A out, B up, C up" {
			t.Errorf("the nodes are %s", states)
		}
		r1.ways.Pass(enginetest.Any)
		s.healed(r1)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// aof-tail-resurrects-release: A restarts with an AOF that lacks the last second, L's release in it -> L is not counted by A.
func TestScheduleAOFTailResurrectsRelease(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Minute})
		before := s.a.Snapshot()
		r1.release(l, 0)
		m := r1.acquire(engine.Ask{TTL: time.Minute})
		s.a.Kill()
		s.a.RestartFrom(before)
		s.healed(r1)
		s.everywhere(l.ID, "", s.a, s.b, s.c)
		s.everywhere(m.ID, "0", s.a, s.b, s.c)
	})
}

// half-loaded-restart: A restarts between two pages of a load -> frozen anew, never committed with a page missing.
func TestScheduleHalfLoadedRestart(t *testing.T) {
	playDefined(t, engine.Definition{Limit: 5000}, func(t *testing.T, s *stage) {
		const leases = 1200
		for i := range leases {
			for _, server := range s.Servers {
				s.put(server, "L"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), "a", quorum.OneSlot(i))
			}
		}
		forgets(s.a)
		r1 := s.player()
		r1.a.Hold("load")
		for range 2 {
			r1.a.NextWithin(3*time.Second, "load").Deliver()
		}
		tail := s.a.Snapshot()
		r1.a.NextWithin(time.Second, "load").Deliver()
		s.a.Kill()
		s.a.RestartFrom(tail)
		r1.ways.Pass(enginetest.Any)
		s.healed(r1)
		if _, list := s.a.View(db); len(list) != leases {
			t.Errorf("A has %d leases of %d", len(list), leases)
		}
	})
}

// reseed-stops-before-commit-then-power-cut: A's reseed stops before commit, B comes back blank, C restarts -> A's own memory is
// still there.
func TestScheduleReseedStopsBeforeCommitThenPowerCut(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Minute})
		r1.ways.Hold("commit")
		s.a.Kill()
		s.a.Restart(enginetest.Renamed)
		r1.a.NextWithin(3*time.Second, "commit")
		r1.Close()
		forgets(s.b)
		s.c.Kill()
		s.c.Restart(enginetest.Renamed)
		r2 := s.player2()
		time.Sleep(4 * healing)
		s.healed(r2)
		s.everywhere(l.ID, "0", s.a, s.b, s.c)
	})
}

// two-instances-of-one-node: R1's list has C, R2's a new D under the same index ->
// only the later era's instance votes, there is one replacement, and it is told.
func TestScheduleTwoInstancesOfOneNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		r1.declare(engine.Definition{Limit: 1})
		l := r1.acquire(engine.Ask{TTL: time.Hour})
		d := enginetest.NewServer(t, "D")
		ways := append(s.Replica(enginetest.Faults{Timeout: -1})[:2], enginetest.NewNode(t, d, enginetest.Faults{Timeout: -1}))
		r2 := &player{openOn(t, s.Cluster, ways), t, ways[0], ways[1], ways[2], ways}
		time.Sleep(12 * time.Second)
		if states := r2.states(); states != "A up, B up, D up" {
			t.Errorf("with D instead of C the nodes are %s", states)
		}
		_, nodes := r1.Nodes()
		if nodes[2].State != "replaced" || !strings.Contains(nodes[2].Reason, "D, which is not listed here") {
			t.Errorf("C is %+v", nodes[2])
		}
		for range 3 { // nobody fights
			time.Sleep(time.Minute)
			if r1.states() != "A up, B up, C replaced" || r2.states() != "A up, B up, D up" {
				t.Fatalf("the nodes are %s and %s", r1.states(), r2.states())
			}
		}
		s.a.Kill() // B and C are no quorum, B and D are
		synctest.Wait()
		if got := r1.ask(engine.Ask{}).look(); !errors.Is(got.err, engine.ErrQuorumUnavailable) {
			t.Errorf("told: %s %v", got.told, got.err)
		}
		r2.ask(engine.Ask{}).mustBeRefused()
		if r := d.Record(db, l.ID); r == nil || !r.Copy {
			t.Errorf("D has %+v", r)
		}
		s.a.Restart(enginetest.Kept)
		time.Sleep(healing)

		if gives, err := r1.Readmit(2, true, "test"); err != nil || len(gives) == 0 {
			t.Errorf("readmitting it gives up %q, %v", gives, err)
		}
		if _, err := r1.Readmit(2, false, "test"); err != nil {
			t.Error(err)
		}
		time.Sleep(12 * time.Second)
		if r1.states() != "A up, B up, C up" || r2.states() != "A up, B up, D replaced" {
			t.Errorf("then the nodes are %s and %s", r1.states(), r2.states())
		}
		r1.ask(engine.Ask{}).mustBeRefused()
	})
}

// player2 is a replica that need not be ready at once.
func (s *stage) player2() *player {
	s.t.Helper()
	ways := s.Replica(enginetest.Faults{Timeout: -1})
	e, err := engine.Open(engine.Config{Nodes: ways.Nodes(), Now: s.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(e.Close)
	return &player{e, s.t, ways[0], ways[1], ways[2], ways}
}
