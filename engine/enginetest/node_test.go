package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestAnswersTakeTheTimeOfBothWays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{LatencyMin: 2 * time.Millisecond, LatencyMax: 5 * time.Millisecond})
		sent := time.Since(c.node.script.start)
		p := c.claim("L")
		time.Sleep(4*time.Millisecond - 1)
		p.waits()
		time.Sleep(6*time.Millisecond + 1)
		p.says(engine.SaysGranted)
		if a, _ := p.got(); a.Sent != sent || a.Received-a.Sent < 4*time.Millisecond || a.Received-a.Sent > 10*time.Millisecond {
			t.Errorf("sent at %s, received at %s; want 4 to 10ms from %s", a.Sent, a.Received, sent)
		}
	})
}

func TestNothingOvertakesOnAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, batch := range []bool{false, true} {
			c, _ := connect(t, Faults{Seed: 1, LatencyMax: 10 * time.Millisecond, Slow: 0.3, SlowMax: 50 * time.Millisecond, OneBatch: batch, Timeout: -1})
			var want []string
			for i := range 50 {
				lease := fmt.Sprint(i)
				c.claim(lease)
				want = append(want, "claim "+lease)
			}
			time.Sleep(10 * time.Second)
			if got := c.answered(); !slices.Equal(got, want) {
				t.Errorf("one batch %t: answered %v", batch, got)
			}
		}
	})
}

func TestFillIsAskedJustBeforeTheCallIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{LatencyMin: time.Millisecond, LatencyMax: time.Millisecond, OneBatch: true})
		c.claim("L") // what follows is written when it was answered
		synctest.Wait()
		var waiting atomic.Int64
		c.node.Send(&engine.Call{
			Header: c.header, Op: &engine.Line{Semaphore: "db", Replica: "R1"}, Done: func(*engine.Answer) {},
			Fill: func() engine.Placement {
				order := engine.Order{Arrival: 1, Replica: "R1", Seq: 1}
				place := engine.Place{Order: order, Weight: 2, Count: int(waiting.Load()), Total: 9}
				return engine.Placement{Mode: engine.PlaceAlways, Place: place}
			},
		})
		time.Sleep(time.Millisecond)
		waiting.Store(7)
		time.Sleep(5 * time.Millisecond)
		if first, _ := server.View("db"); len(first.Places) != 1 || first.Places[0].Count != 7 {
			t.Errorf("the line is %+v; want 7 waiters", first.Places)
		}
	})
}

func TestRepeatedCallsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{LatencyMax: time.Millisecond, Repeat: 1, RepeatMax: time.Second})
		c.claim("L")
		release := c.release("L")
		time.Sleep(2 * time.Second)
		release.says(engine.SaysReleased)
		if n := c.ran("repeated"); n != 2 {
			t.Errorf("%d calls were repeated; want 2", n)
		}
	})
}

// ran counts the lines of the transcript that start so.
func (c *coordinator) ran(what string) int {
	c.node.script.mu.Lock()
	defer c.node.script.mu.Unlock()
	n := 0
	for _, line := range c.node.script.lines {
		if line.what == what {
			n++
		}
	}
	return n
}

func TestCutConnectionsFailWhatIsUnderWayAndSomeOfItRunsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{
			Seed: 3, LatencyMin: time.Millisecond, LatencyMax: 4 * time.Millisecond,
			Cut: 0.2, ReconnectMax: 10 * time.Millisecond, LateRun: 0.5, LateRunMax: 10 * time.Second,
		})
		lost, granted := 0, 0
		for i := range 100 {
			claim := c.claim(fmt.Sprint(i))
			c.release(fmt.Sprint(i))
			time.Sleep(100 * time.Millisecond)
			switch a, _ := claim.got(); {
			case a == nil:
				t.Fatalf("claim %d was not answered", i)
			case errors.Is(a.Err, engine.ErrLost):
				lost++
			case a.Says == engine.SaysGranted:
				granted++
			}
		}
		if late := c.ran("ran after its connection"); lost < 10 || granted < 30 || late < 5 {
			t.Errorf("%d lost, %d granted, %d ran late; want some of each", lost, granted, late)
		}
	})
}

func TestLostWakesAreNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{Seed: 1, LoseWake: 0.5})
		place := engine.Place{Order: engine.Order{Arrival: 1, Replica: "R1", Seq: 1}, Weight: 1, Count: 1, Total: 1}
		for range 100 {
			server.Execute(c.header, 0, engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: "db", Replica: "R1"})
		}
		_, _, wakes := c.heard()
		if n := len(wakes); n < 25 || n > 75 {
			t.Errorf("%d of 100 wakes were told; want about half", n)
		}
	})
}

func TestWakesGoToTheReplicaOfThePlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		place := engine.Place{Order: engine.Order{Arrival: 1, Replica: "R2", Seq: 1}, Weight: 1, Count: 1, Total: 1}
		server.Execute(c.header, 0, engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: "db", Replica: "R2"})
		if _, _, wakes := c.heard(); len(wakes) != 0 {
			t.Errorf("R1 was told %+v", wakes)
		}
	})
}

func TestAKilledServerExecutesNothingAndComesBackAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{LateRun: 1, LateRunMax: time.Second})
		c.claim("L").says(engine.SaysGranted)
		c.node.Hold("claim", "M")
		held := c.claim("M")
		synctest.Wait()
		server.Kill()
		held.fails(engine.ErrLost)
		c.claim("N").fails(engine.ErrDown)
		time.Sleep(2 * time.Second)
		server.Restart(Kept)
		time.Sleep(2 * redialPause)
		c.claim("L").says(engine.SaysGranted)
		if _, leases := server.View("db"); len(leases) != 1 {
			t.Errorf("the server has %+v; want L alone", leases)
		}
	})
}

func TestAServerWithAnotherRunIDDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		server.Kill()
		server.Restart(Renamed)
		time.Sleep(2 * redialPause)
		c.claim("L").fails(engine.ErrOut)
		probes, _, _ := c.heard()
		last := probes[len(probes)-1]
		if last.Refusal == nil || last.Record == nil || last.Record.RunID == last.RunID {
			t.Errorf("the probe saw %+v", last)
		}
		c.send(&engine.Freeze{Token: engine.Ballot{Counter: 9, Replica: "R1"}, RunID: "another"}).says(engine.SaysNo)
	})
}

func TestAServerThatForgotIsBlank(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		server.Wipe()
		c.claim("L").says(engine.SaysOut)
		probes, _, _ := c.heard()
		if last := probes[len(probes)-1]; last.Record != nil {
			t.Errorf("the probe saw %+v", last.Record)
		}
		server.Kill()
		server.Restart(Lost)
		time.Sleep(2 * redialPause)
		c.claim("L").says(engine.SaysOut)
	})
}

func TestAPausedServerAnswersWhenItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		server.Pause()
		first := c.claim("L")
		time.Sleep(nodeTimeout / 2)
		first.waits()
		server.Resume()
		first.says(engine.SaysGranted)
		server.Pause()
		second := c.claim("M")
		time.Sleep(nodeTimeout)
		second.fails(engine.ErrTimeout)
		server.Resume()
		time.Sleep(2 * redialPause)
		c.claim("L").says(engine.SaysGranted)
	})
}

func TestProbesComeAtTheConnectAndEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		if probes, _, _ := c.heard(); len(probes) != 1 {
			t.Fatalf("%d probes at the start; want 1", len(probes))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if probes, _, _ := c.heard(); len(probes) != 11 {
			t.Errorf("%d probes after ten seconds; want 11", len(probes))
		}
	})
}

func TestTheClockOfAServerJumpsAndRunsAsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, server := connect(t, Faults{})
		for _, step := range []struct {
			name string
			do   func()
			want time.Duration // in the second that follows
		}{
			{"as it is", func() {}, time.Second},
			{"an hour ahead", func() { server.Shift(time.Hour) }, time.Hour + time.Second},
			{"an hour back", func() { server.Shift(-time.Hour) }, -time.Hour + time.Second},
			{"one in a thousand fast", func() { server.Rate(1.001) }, 1001 * time.Millisecond},
			{"right again", func() { server.Rate(1) }, time.Second},
		} {
			before := server.Time()
			step.do()
			time.Sleep(time.Second)
			if got := time.Duration(server.Time()-before) * time.Microsecond; got != step.want {
				t.Errorf("%s: the clock went on by %s; want %s", step.name, got, step.want)
			}
		}
	})
}

func TestCloseAnswersWhatIsUnderWayAndWhatComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		written := c.claim("L")
		synctest.Wait()
		c.node.Close()
		written.fails(engine.ErrClosed)
		c.claim("M").fails(engine.ErrClosed)
		c.node.Close()
	})
}

func TestOneSeedGivesOneCourse(t *testing.T) {
	t.Parallel()
	course := func() (script string) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := connect(t, Faults{
				Seed: 42, LatencyMax: 5 * time.Millisecond, Cut: 0.1, ReconnectMax: 50 * time.Millisecond,
				LateRun: 0.5, LateRunMax: time.Second, Repeat: 0.2, RepeatMax: time.Second,
			})
			for i := range 60 {
				c.claim(fmt.Sprint(i))
				time.Sleep(3 * time.Millisecond)
				c.release(fmt.Sprint(i))
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			script = c.node.script.String()
		})
		return script
	}
	if first, second := course(), course(); first != second {
		t.Error("two runs of one seed differ")
	}
}
