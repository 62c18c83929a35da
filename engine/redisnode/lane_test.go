package redisnode_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/quorum"
	"github.com/permitd/permitd/engine/redisnode"
)

// wire is a connection whose client's end does as the test says.
type wire struct {
	mini  *redistest.Mini
	down  atomic.Bool  // no connection can be made
	slow  atomic.Int64 // ns that a write takes
	deaf  atomic.Bool  // what is written is lost, and nobody notices
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.down.Load() {
		return nil, errors.New("no route to host")
	}
	conn, err := w.mini.Dialer(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conn)
	return &end{Conn: conn, wire: w}, nil
}

// cut closes all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

type end struct {
	net.Conn
	wire *wire
}

func (e *end) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(e.wire.slow.Load()))
	if e.wire.deaf.Load() {
		return len(b), nil
	}
	return e.Conn.Write(b)
}

// openWire starts a node on a miniredis that it reaches over a wire.
func openWire(t *testing.T) (*subject, *wire) {
	t.Helper()
	w := &wire{mini: redistest.NewMini()}
	t.Cleanup(w.mini.Close)
	return open(t, redisnode.Config{Addr: "127.0.0.1", Dialer: w.dial}), w
}

// bubble plays a test in a synctest bubble, on a node that is formed, with a wire that is fine.
func bubble(t *testing.T, play func(*testing.T, *subject, *wire)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := openWire(t)
		s.formed()
		s.define(db, engine.Value{Limit: 1000})
		synctest.Wait()
		play(t, s, w)
	})
}

func TestCallsReachTheServerInTheOrderInWhichTheyWereSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, _ *wire) {
		var ops []engine.Op
		for i := range 1000 {
			ops = append(ops, s.claim(db, id(i)))
		}
		answered := make(chan *engine.Answer, len(ops))
		for i := 0; i < len(ops); i += 10 {
			var calls []*engine.Call
			for _, op := range ops[i : i+10] {
				calls = append(calls, &engine.Call{Header: s.header, Op: op, Done: func(a *engine.Answer) { answered <- a }})
			}
			s.node.Send(calls...)
		}
		for i := range ops {
			if a := s.want(engine.SaysGranted, s.answer(answered)); !a.Slots.Equal(quorum.OneSlot(i)) {
				t.Fatalf("claim %d got the slot %s", i, a.Slots)
			}
		}
	})
}

func TestWhatACallStatesIsAskedForOnceJustBeforeItIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		w.slow.Store(int64(50 * time.Millisecond))
		var mu sync.Mutex
		filled := map[int]time.Duration{}
		start := time.Now()
		var done sync.WaitGroup
		for i := range 3 {
			done.Add(1)
			s.node.Send(&engine.Call{
				Header: s.header, Op: &engine.Line{Semaphore: db, Replica: me},
				Fill: func() engine.Placement {
					mu.Lock()
					defer mu.Unlock()
					if _, twice := filled[i]; twice {
						t.Errorf("call %d was asked twice", i)
					}
					filled[i] = time.Since(start)
					return engine.Placement{Mode: engine.PlaceAlways, Place: engine.Place{
						Order: engine.Order{Arrival: int64(i + 1), Replica: me, Seq: 1}, Weight: 5000, Count: 1, Total: 1,
					}}
				},
				Done: func(a *engine.Answer) {
					defer done.Done()
					if a.Err != nil || a.Place.Arrival != int64(i+1) {
						t.Errorf("call %d: %v, place %+v", i, a.Err, a.Place)
					}
					if a.Sent < filled[i] || a.Received-a.Sent < 50*time.Millisecond {
						t.Errorf("call %d: filled %v, sent %v, received %v", i, filled[i], a.Sent, a.Received)
					}
				},
			})
			time.Sleep(time.Millisecond)
		}
		done.Wait()
		if filled[0] >= time.Millisecond || filled[1] < 50*time.Millisecond || filled[2] != filled[1] {
			t.Errorf("asked after %v: want the first at once and the others with the second pipeline", filled)
		}
	})
}

func TestANodeThatCannotBeReachedFailsCallsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini := redistest.NewMini()
		defer mini.Close()
		w := &wire{mini: mini}
		w.down.Store(true)
		s := open(t, redisnode.Config{Addr: "127.0.0.1", Dialer: w.dial})
		for range 100 {
			start := time.Now()
			if a := s.do(&engine.Names{Count: 1}); !errors.Is(a.Err, engine.ErrDown) {
				t.Fatalf("got %v", a.Err)
			}
			if waited := time.Since(start); waited != 0 {
				t.Fatalf("it took %v", waited)
			}
			time.Sleep(17 * time.Millisecond)
		}
		if err := s.awaitDown(); err == nil || !s.log.says("no route to host") {
			t.Errorf("told %v", err)
		}
		w.down.Store(false)
		start := time.Now()
		s.awaitProbe(0, "a probe", anyProbe)
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("connected after %v", waited)
		}
	})
}

func TestTheFirstTriesToConnectAgainAreFast(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		time.Sleep(3 * time.Second) // a connection that lasted
		start := time.Now()
		w.cut()
		s.await("a new connection", func() bool { return s.links == 2 })
		if waited := time.Since(start); waited > 20*time.Millisecond {
			t.Errorf("it took %v", waited)
		}
	})
}

func TestAServerThatAcceptsAndNeverAnswersIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, redisnode.Config{Addr: "127.0.0.1", Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return client, nil
		}})
		start := time.Now()
		for range 20 {
			if a := s.do(&engine.Names{Count: 1}); !errors.Is(a.Err, engine.ErrDown) {
				t.Fatalf("got %v", a.Err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		_ = s.awaitDown() // that it is down is what counts
		if waited := time.Since(start); waited > 6*time.Second {
			t.Errorf("told after %v", waited)
		}
	})
}

func TestACallThatIsNotAnsweredInTimeCostsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		w.deaf.Store(true)
		start := time.Now()
		a := s.do(s.claim(db, id(1)))
		if waited := time.Since(start); !errors.Is(a.Err, engine.ErrTimeout) || waited != 500*time.Millisecond {
			t.Errorf("%v after %v", a.Err, waited)
		}
		_ = s.awaitDown() // that it is down is what counts
		w.deaf.Store(false)
		s.await("a new connection", func() bool { return s.links == 2 })
		s.want(engine.SaysGranted, s.do(s.claim(db, id(2))))
		if s.find(db, id(1)) != nil {
			t.Error("the call was written again")
		}
	})
}

func TestACallThatWaitedForTheLaneTooLongIsNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		w.slow.Store(int64(100 * time.Millisecond)) // some writes make a pipeline
		var ops []engine.Op
		for i := range 700 { // four pipelines
			ops = append(ops, s.claim(db, id(i)))
		}
		answered := s.send(ops...)
		granted, late := 0, 0
		for range ops {
			switch a := s.answer(answered); {
			case a.Err == nil:
				granted++
			case errors.Is(a.Err, engine.ErrTimeout):
				late++
			default:
				t.Fatal(a.Err)
			}
		}
		w.slow.Store(0)
		held := len(s.want(engine.SaysDone, s.do(&engine.View{Semaphore: db, Count: 1000})).View.Leases)
		if granted == 0 || late == 0 || held != granted {
			t.Errorf("%d granted, %d too late; %d are held", granted, late, held)
		}
	})
}

func TestCallsUnderWayAreLostWithTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		w.slow.Store(int64(100 * time.Millisecond))
		answered := s.send(s.claim(db, id(1)))
		time.Sleep(10 * time.Millisecond)
		w.cut()
		if a := s.answer(answered); !errors.Is(a.Err, engine.ErrLost) {
			t.Errorf("got %v", a.Err)
		}
		w.slow.Store(0)
		s.await("a new connection", func() bool { return s.links == 2 })
		s.want(engine.SaysGranted, s.do(s.claim(db, id(2))))
	})
}

func TestEveryCallIsAnsweredOnceWhateverTheConnectionDoes(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		const senders, each = 5, 200
		var answers [senders * each]atomic.Int32
		var all sync.WaitGroup
		for sender := range senders {
			all.Go(func() {
				for i := range each {
					n := sender*each + i
					all.Add(1)
					s.node.Send(&engine.Call{Header: s.header, Op: &engine.Find{Semaphore: db, Lease: id(n)}, Done: func(*engine.Answer) {
						answers[n].Add(1)
						all.Done()
					}})
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 10 {
			time.Sleep(19 * time.Millisecond)
			w.cut()
		}
		all.Wait()
		s.node.Close()
		for n := range answers {
			if times := answers[n].Load(); times != 1 {
				t.Errorf("call %d was answered %d times", n, times)
			}
		}
	})
}

func TestCloseGivesUpWhatIsUnderWayAndWhatIsSentLater(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		w.slow.Store(int64(400 * time.Millisecond))
		first := s.send(s.claim(db, id(1)))
		time.Sleep(time.Millisecond)
		second := s.send(s.claim(db, id(2)))
		start := time.Now()
		s.node.Close()
		if waited := time.Since(start); waited > 400*time.Millisecond {
			t.Errorf("Close took %v", waited)
		}
		third := s.send(s.claim(db, id(3)))
		for i, answered := range []<-chan *engine.Answer{first, second, third} {
			if a := s.answer(answered); !errors.Is(a.Err, engine.ErrClosed) {
				t.Errorf("call %d: %v", i+1, a.Err)
			}
		}
		s.node.Close()
	})
}

func TestCloseEndsAConnectionThatIsBeingMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, redisnode.Config{Addr: "127.0.0.1", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		synctest.Wait()
		start := time.Now()
		s.node.Close()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Close took %v", waited)
		}
	})
}

func TestANodeThatWasNeverStartedAnswersItsCallsWhenItIsClosed(t *testing.T) {
	t.Parallel()
	node, err := redisnode.New(redisnode.Config{Addr: "127.0.0.1:1"})
	must(t, err)
	answered := make(chan *engine.Answer, 1)
	node.Send(&engine.Call{Op: &engine.Names{}, Done: func(a *engine.Answer) { answered <- a }})
	node.Close()
	if a := <-answered; !errors.Is(a.Err, engine.ErrClosed) {
		t.Errorf("got %v", a.Err)
	}
}

func TestDoneIsNeverCalledFromWithinSend(t *testing.T) {
	t.Parallel()
	node, err := redisnode.New(redisnode.Config{Addr: "127.0.0.1:1"})
	must(t, err)
	node.Close()
	var mu sync.Mutex
	mu.Lock()
	answered := make(chan error, 1)
	node.Send(&engine.Call{Op: &engine.Names{}, Done: func(a *engine.Answer) {
		mu.Lock()
		defer mu.Unlock()
		answered <- a.Err
	}})
	mu.Unlock()
	if err := <-answered; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestTheServerIsLookedAtAtEveryConnectAndEverySecond(t *testing.T) {
	bubble(t, func(t *testing.T, s *subject, w *wire) {
		before := s.seen()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if seen := s.seen() - before; seen != 10 {
			t.Errorf("looked at %d times in 10.5 s", seen)
		}
		before = s.seen()
		w.cut()
		synctest.Wait()
		s.await("a new connection", func() bool { return s.links == 2 })
		s.mu.Lock()
		defer s.mu.Unlock()
		p := s.probes[before]
		if p.Time == 0 || p.RunID == "" || p.Version != "Redis 7.0.15" || p.Record.Cluster != cluster || !slices.Equal(p.Record.Known, []int64{1, 1, 1}) {
			t.Errorf("saw %+v", p)
		}
	})
}
