package enginetest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestWhatIsNotHeldIsExecutedAndAnsweredInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		first, second, third := c.claim("L"), c.claim("M"), c.claim("N")
		first.says(engine.SaysGranted)
		second.says(engine.SaysGranted)
		third.says(engine.SaysFull)
		if got, want := c.answered(), []string{"claim L", "claim M", "claim N"}; !slices.Equal(got, want) {
			t.Errorf("answered %v; want %v", got, want)
		}
	})
}

func TestAHeldCallWaitsForTheTest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		c.node.Hold("claim")
		sent := c.claim("L")
		claim := c.node.Next("claim", "L")
		sent.waits()
		if _, leases := server.View("db"); len(leases) != 0 {
			t.Error("a held claim was executed")
		}
		if a := claim.Execute(); a.Says != engine.SaysGranted {
			t.Errorf("the node says %q", a.Says)
		}
		if _, leases := server.View("db"); len(leases) != 1 {
			t.Error("an executed claim left no lease")
		}
		sent.waits()
		claim.Answer()
		sent.says(engine.SaysGranted)
		if claim.Lease() != "L" {
			t.Errorf("the claim is of lease %q", claim.Lease())
		}
	})
}

func TestWhatIsBehindAHeldCallWaitsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim", "L")
		first, second := c.claim("L"), c.claim("M")
		second.waits()
		claim := c.node.Next("claim", "L")
		claim.Execute()
		second.waits() // it is executed, but answers keep their order too
		claim.Answer()
		first.says(engine.SaysGranted)
		second.says(engine.SaysGranted)
	})
}

func TestDeliverExecutesAndAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		first, second := c.claim("L"), c.claim("M")
		c.node.Next("claim").Deliver()
		first.says(engine.SaysGranted)
		second.waits()
		c.node.Next("claim").Deliver()
		second.says(engine.SaysGranted)
	})
}

func TestARepeatedCallIsExecutedAgainAndAnsweredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		sent := c.claim("L")
		claim := c.node.Next("claim")
		claim.Deliver()
		sent.says(engine.SaysGranted)
		c.release("L").says(engine.SaysReleased)
		if a := claim.Repeat(); a.Says != engine.SaysGone {
			t.Errorf("the repeated claim says %q; want %q", a.Says, engine.SaysGone)
		}
		sent.says(engine.SaysGranted)
	})
}

func TestACutLosesTheAnswersOfWhatWasExecuted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		c.node.Hold("claim")
		first, second := c.claim("L"), c.claim("M")
		c.node.Next("claim").Execute()
		c.node.Cut()
		first.fails(engine.ErrLost)
		second.fails(engine.ErrLost)
		if _, leases := server.View("db"); len(leases) != 1 || leases[0].Lease != "L" {
			t.Errorf("the server has %+v; want L alone", leases)
		}
		c.release("L").says(engine.SaysReleased) // over the new connection
	})
}

func TestTheBufferOfAClosedSocketIsExecutedWhenTheTestSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		sent := c.claim("L")
		claim := c.node.Next("claim")
		c.node.Cut()
		sent.fails(engine.ErrLost)
		time.Sleep(4 * time.Second)
		if a := claim.Execute(); a.Says != engine.SaysGranted {
			t.Errorf("the late claim says %q", a.Says)
		}
		sent.fails(engine.ErrLost)
	})
}

func TestADroppedCallIsNeverExecuted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		c.node.Hold("claim")
		sent := c.claim("L")
		c.node.Next("claim").Drop()
		sent.fails(engine.ErrLost)
		time.Sleep(time.Minute)
		if _, leases := server.View("db"); len(leases) != 0 {
			t.Errorf("the server has %+v", leases)
		}
	})
}

func TestADelayedCallArrivesAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{Timeout: -1})
		c.node.Hold("claim")
		sent := c.claim("L")
		c.node.Next("claim").DeliverAfter(3 * time.Second)
		time.Sleep(3*time.Second - time.Nanosecond)
		sent.waits()
		time.Sleep(time.Nanosecond)
		sent.says(engine.SaysGranted)
	})
}

func TestACallHeldTooLongTimesOutAndMayStillBeExecuted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		sent := c.claim("L")
		claim := c.node.Next("claim")
		time.Sleep(nodeTimeout)
		sent.fails(engine.ErrTimeout)
		if a := claim.Execute(); a.Says != engine.SaysGranted {
			t.Errorf("the late claim says %q", a.Says)
		}
	})
}

func TestPassLetsGoOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Hold("claim")
		c.node.Hold("release")
		claim, release := c.claim("L"), c.release("L")
		c.node.Pass("claim")
		claim.says(engine.SaysGranted)
		release.waits()
		c.node.Pass(Any)
		release.says(engine.SaysReleased)
		c.claim("M").says(engine.SaysGranted)
	})
}

func TestWakesAreHeldAndLostLikeCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, server := connect(t, Faults{})
		place := engine.Place{Order: engine.Order{Arrival: 1, Replica: "R1", Seq: 1}, Weight: 1, Count: 1, Total: 1}
		line := func() {
			server.Execute(c.header, 0, engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: "db", Replica: "R1"})
		}
		line()
		if _, _, wakes := c.heard(); len(wakes) != 1 {
			t.Fatalf("%d wakes; want 1", len(wakes))
		}
		c.node.Hold("wake", "db")
		line()
		line()
		c.node.Next("wake").Drop()
		wake := c.node.Next("wake")
		if _, _, wakes := c.heard(); len(wakes) != 1 {
			t.Error("a held wake was told")
		}
		wake.Deliver()
		if _, _, wakes := c.heard(); len(wakes) != 2 || wakes[1].Order != place.Order {
			t.Errorf("wakes %+v", wakes)
		}
		c.node.None("wake")
	})
}

func TestADisconnectedNodeRefusesCallsUntilItIsConnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, Faults{})
		c.node.Disconnect()
		c.claim("L").fails(engine.ErrDown)
		before, downs, _ := c.heard()
		if len(downs) == 0 {
			t.Error("nobody was told that the node is down")
		}
		c.node.Connect()
		if after, _, _ := c.heard(); len(after) != len(before)+1 {
			t.Errorf("%d probes at the connect; want 1", len(after)-len(before))
		}
		c.claim("L").says(engine.SaysGranted)
	})
}
