package localnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestCallsAreExecutedInTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{}, engine.Value{Limit: 1})
	const count = 3 * batchMax
	var filled, done []int
	var calls []*engine.Call
	ended := make(chan struct{})
	for i := range count {
		calls = append(calls, &engine.Call{
			Header: f.header, Op: &engine.Line{Semaphore: db, Replica: me},
			Fill: func() engine.Placement { filled = append(filled, i); return engine.Placement{} },
			Done: func(a *engine.Answer) {
				if done = append(done, i); len(done) == count {
					close(ended)
				}
			},
		})
	}
	f.node.Send(calls[:1]...)
	f.node.Send(calls[1:]...)
	<-ended
	if !slices.IsSorted(filled) || len(filled) != count || !slices.IsSorted(done) {
		t.Errorf("%d were filled in, in order %v; answered in order %v", len(filled), slices.IsSorted(filled), slices.IsSorted(done))
	}
}

func TestAnAnswerTellsWhenItWasAskedForAndRead(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{}, engine.Value{Limit: 1})
	before := time.Since(f.start)
	a := f.says(t, claimOf("L", "a"), engine.SaysGranted)
	after := time.Since(f.start)
	if a.Sent < before || a.Received < a.Sent || after < a.Received {
		t.Errorf("sent %v, received %v; asked between %v and %v", a.Sent, a.Received, before, after)
	}
}

func TestAfterCloseEveryCallIsAnsweredClosed(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]bool{"started": true, "never started": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, err := Open(Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			f := &former{node: node, header: &engine.Header{}}
			var waiting sync.WaitGroup
			var mu sync.Mutex
			answers := map[error]int{}
			send := func() {
				waiting.Add(1)
				mu.Lock() // Done must not be called within Send
				defer mu.Unlock()
				node.Send(&engine.Call{Header: f.header, Op: &engine.Names{}, Done: func(a *engine.Answer) {
					mu.Lock()
					defer mu.Unlock()
					answers[a.Err]++
					waiting.Done()
				}})
			}
			if start {
				startOf(node)
			} else {
				send()
			}
			node.Close()
			node.Close()
			send()
			waiting.Wait()
			if want := map[bool]int{true: 1, false: 2}[start]; answers[engine.ErrClosed] != want || len(answers) != 1 {
				t.Errorf("answers %v, want %d closed", answers, want)
			}
			if _, err := os.Stat(filepath.Join(node.dir, firstName)); err != nil {
				t.Error(err)
			}
			again, err := Open(Config{Dir: node.dir})
			if err != nil {
				t.Fatalf("the directory is not free after Close: %v", err)
			}
			again.Close()
		})
	}
}

func TestALaneThatIsFullTurnsCallsAwayTogether(t *testing.T) {
	t.Parallel()
	l := newLane()
	if err := l.add(make([]*engine.Call, laneMax-1)); err != nil {
		t.Fatal(err)
	}
	if err := l.add(make([]*engine.Call, 2)); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
	if err := l.add(make([]*engine.Call, 1)); err != nil {
		t.Errorf("a call that fits was turned away: %v", err)
	}
	total := 0
	for total < laneMax {
		calls := l.take(nil)
		if len(calls) > batchMax {
			t.Fatalf("%d calls were taken", len(calls))
		}
		total += len(calls)
	}
	l.close()
	if calls := l.take(nil); len(calls) != 0 {
		t.Errorf("%d calls were taken from a closed lane", len(calls))
	}
}

// seen is what a replica hears of a node.
type seen struct {
	mu     sync.Mutex
	events []string
}

func (s *seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *seen) Probed(p engine.Probe, connected bool) {
	state := "blank"
	if p.Record != nil {
		state = p.Record.State
	}
	s.add("probed %s connected=%v refused=%v", state, connected, p.Refusal != nil)
}
func (s *seen) Down(err error)      { s.add("down %v", err) }
func (s *seen) Woken(w engine.Wake) { s.add("woken %s", w.Order.Replica) }

func TestANodeIsProbedAtTheStartEachSecondAndWhenItsRecordChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		now := func() time.Duration { return time.Hour + time.Since(start) }
		node, err := Open(Config{Dir: Memory, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		events := &seen{}
		node.Start(me, now, events)
		f := &former{node: node, header: &engine.Header{Cluster: "c", Known: []int64{1}}}
		f.says(t, &engine.Freeze{Token: engine.Ballot{Counter: 1}, RunID: node.state.RunID}, engine.SaysDone)
		filled := false
		answered := make(chan *engine.Answer, 1)
		node.Send(&engine.Call{
			Header: f.header, Op: &engine.Names{}, Done: func(a *engine.Answer) { answered <- a },
			Fill: func() engine.Placement { filled = true; return engine.Placement{} },
		})
		if a := <-answered; !errors.Is(a.Err, engine.ErrOut) || filled {
			t.Errorf("a frozen node says %q, error %v; filled in: %v", a.Says, a.Err, filled)
		}
		time.Sleep(2500 * time.Millisecond)
		node.Close()
		want := []string{
			"probed blank connected=true refused=false", "probed frozen connected=false refused=true",
			"probed frozen connected=false refused=true", "probed frozen connected=false refused=true",
		}
		if !slices.Equal(events.events, want) {
			t.Errorf("heard %q", events.events)
		}
	})
}

func TestAReplicaHearsTheWakesOfItsOwnWaitersAndThoseOfEveryReplica(t *testing.T) {
	t.Parallel()
	clock := newHandClock(time.Hour)
	f := openAs(t, Config{Dir: t.TempDir(), Now: clock.Now}, engine.Value{Limit: 1})
	for i, replica := range []string{"another", me} {
		place := engine.Placement{Mode: engine.PlaceAlways, Place: placeOf(replica, int64(10+i), 1)}
		answered := make(chan *engine.Answer, 1)
		f.node.Send(&engine.Call{
			Header: f.header, Op: &engine.Line{Semaphore: db, Replica: replica}, Fill: func() engine.Placement { return place },
			Done: func(a *engine.Answer) { answered <- a },
		})
		<-answered
	}
	clock.pass(engine.NodeLimits.PlacePassedAfter)
	f.do(&engine.Line{Semaphore: db, Replica: "nobody"})
	if w := <-f.wakes; w != (engine.Wake{Semaphore: db, Order: engine.Order{Replica: engine.EveryReplica}}) {
		t.Errorf("told %+v; want it to be of the definition", w)
	}
	if w := <-f.wakes; w.Order != order(11, me) || w.Slot != 0 || w.Free != 1 {
		t.Errorf("woken by %+v", w)
	}
}

func TestANodeWithoutADirectoryKeepsNothing(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{Dir: Memory}, engine.Value{Limit: 1})
	if f.node.Name() != Memory {
		t.Errorf("its name is %q", f.node.Name())
	}
	f.says(t, claimOf("L", "a"), engine.SaysGranted)
	f.node.Close()
	f = openAs(t, Config{}, engine.Value{Limit: 1})
	f.says(t, claimOf("M", "b"), engine.SaysGranted)
	if _, err := os.Stat(Memory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory named %s was made", Memory)
	}
}

func TestTheFirstFenceIsTheWallClocks(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMicro()
	f := openAs(t, Config{Dir: t.TempDir()}, engine.Value{Limit: 1})
	a := f.says(t, claimOf("L", "a"), engine.SaysGranted)
	if a.Fence < before || a.Fence > time.Now().UnixMicro()+1 {
		t.Errorf("the first fence is %d, the wall clock was %d", a.Fence, before)
	}
}
