package server

import (
	"bufio"
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/server/client"
)

// rounds of a race. One round takes about a millisecond; make bench-leave plays 100,000.
var rounds = flag.Int("rounds", 500, "how often each race is run")

// cutListener accepts connections that a test can cut at the server's end.
type cutListener struct {
	net.Listener
	accepted chan *cutConn
}

func (l *cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cut := &cutConn{Conn: c}
	l.accepted <- cut
	return cut, nil
}

// cutConn takes a write whole, or fails it when it was cut before.
type cutConn struct {
	net.Conn
	mu  sync.Mutex
	off bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(b)
}

func (c *cutConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	_ = c.Close() // what was written before arrives
}

// A grant that is told over plain HTTP is held exactly if its answer could be written: whatever the moment at which the
// connection breaks, the answer arrives whole or nothing is held.
func TestAnAnswerThatCannotBeWrittenLeavesNothingHeld(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &cutListener{inner, make(chan *cutConn)}
	cutting := &http.Server{Handler: s.Server, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cutting.Serve(l) }() // until it is closed
	arrived := 0
	for range *rounds {
		if cutAtTheGrant(t, s, l) {
			arrived++
		}
		eventually(t, "nothing is held", func() bool { return s.inUse(t) == 0 })
	}
	t.Logf("%d of %d answers arrived before the cut", arrived, *rounds)
	if err := cutting.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// cutAtTheGrant lets a request wait for a permit, and cuts its connection at about the moment at which it is
// granted. It reports whether the answer arrived; then it has released the lease.
func cutAtTheGrant(t *testing.T, s *served, l *cutListener) bool {
	t.Helper()
	before, err := s.engine.Acquire(t.Context(), "db", engine.Ask{})
	if err != nil || before.Refusal != nil {
		t.Fatal(err, before.Refusal)
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	far := <-l.accepted
	if _, err := io.WriteString(conn, "POST /v1/semaphores/db/acquire?wait=1m HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool {
		sem, err := s.engine.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.Waiting == 1
	})
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := s.engine.Release(context.Background(), "db", before.Lease.Capability, 0); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() {
		time.Sleep(rand.N(400 * time.Microsecond)) // about as long as a grant takes
		far.cut()
	})
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	both.Wait()
	if err != nil {
		return false
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // there is nothing behind it
	if err != nil || response.StatusCode != 200 {
		t.Errorf("%s %q, %v", response.Status, body, err)
		return false
	}
	if _, err := s.engine.Release(t.Context(), "db", strings.TrimSpace(string(body)), 0); err != nil {
		t.Error(err)
	}
	return true
}

func TestAClientThatLeavesWhileItWaitsLeavesTheLine(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	holder, err := s.client.Acquire(t.Context(), "db", client.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	for range *rounds / 10 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.client.Acquire(ctx, "db", client.Ask{Wait: time.Minute})
			done <- err
		}()
		waiting := func(n int) func() bool {
			return func() bool {
				sem, err := s.client.Semaphore(t.Context(), "db")
				return err == nil && sem.Status.Waiting == n
			}
		}
		eventually(t, "it waits", waiting(1))
		cancel()
		if err := <-done; err == nil {
			t.Error("granted")
		}
		eventually(t, "nobody waits", waiting(0))
	}
	if _, err := s.client.Release(t.Context(), "db", holder.Capability, 0); err != nil {
		t.Error(err)
	}
	if got := s.inUse(t); got != 0 {
		t.Errorf("%d in use", got)
	}
}

// A client that closes its sending half only must not be told 200.
func TestAHalfClosedClientIsNotToldThatItHoldsSomething(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /v1/semaphores/db/acquire?wait=1m HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestADisconnectAtTheInstantOfTheGrantLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	for range *rounds {
		before, err := s.engine.Acquire(t.Context(), "db", engine.Ask{Wait: 10 * time.Second})
		if err != nil || before.Refusal != nil {
			t.Fatal(err, before.Refusal)
		}
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"1m"}`)
		eventually(t, "it waits", func() bool { // the frame that says so comes later
			sem, err := s.engine.Semaphore(t.Context(), "db")
			return err == nil && sem.Status.Waiting == 1
		})
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := s.engine.Release(context.Background(), "db", before.Lease.Capability, 0); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			time.Sleep(rand.N(200 * time.Microsecond)) // about as long as a grant takes
			_ = w.Close()                              // as a client that dies
		})
		both.Wait()
	}
	eventually(t, "nothing is held", func() bool { return s.inUse(t) == 0 })
}

func TestACancelAtTheInstantOfTheGrantLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	ch, err := s.client.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	granted := 0
	for range *rounds {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(400*time.Microsecond))
		hold, err := ch.Acquire(ctx, "db", client.Ask{})
		cancel()
		if err == nil {
			granted++
			if err := hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d of %d were granted before the cancel", granted, *rounds)
	eventually(t, "nothing is held", func() bool { return s.inUse(t) == 0 })
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}

func TestChunkedBodiesAreReadAndLimited(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for n, want := range map[int]int{0: 200, bodyMax: 413} {
		body := io.MultiReader(strings.NewReader("create=1&holder="), strings.NewReader(strings.Repeat("x", n+1)))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/semaphores/db/acquire", io.NopCloser(body))
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("%d bytes: %s", n, response.Status)
		}
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}
}
