package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/localnode"
	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server/client"
)

func TestMain(m *testing.M) {
	policies.CompileIfAsked()
	goleak.VerifyTestMain(m)
}

// served is a server of a test, with the engine behind it and a client of it.
type served struct {
	*Server
	engine *engine.Engine
	url    string
	client *client.Client
	dial   dialer // nil: over TCP
}

// serve starts a server on a node in memory, on a port of loopback. It is stopped with the test.
func serve(t *testing.T, change ...func(*Config)) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, nil, nil, change...)
}

// serveInBubble is serve in a bubble of synctest: connections are pipes, and clocks are the bubble's.
func serveInBubble(t *testing.T) *served {
	t.Helper()
	l := newPipes()
	s := serveOn(t, l, l.dial, enginetest.Now())
	time.Sleep(time.Second) // no node's clock shows 0
	return s
}

// serveOn starts a server on a listener that dial reaches; now is the clock of the engine and its node, nil the machine's.
func serveOn(t *testing.T, l net.Listener, dial dialer, now func() time.Duration, change ...func(*Config)) *served {
	t.Helper()
	node, err := localnode.Open(localnode.Config{Dir: localnode.Memory, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return serveNodes(t, []engine.Node{node}, l, dial, now, change...)
}

// serveNodes is serveOn for other nodes.
func serveNodes(t *testing.T, nodes []engine.Node, l net.Listener, dial dialer, now func() time.Duration, change ...func(*Config)) *served {
	t.Helper()
	meter, nodes := NewNodeMeter(nodes)
	engineCfg := engine.Config{Nodes: nodes, Now: now, Meter: meter}
	if now == nil {
		engineCfg.NodeTimeout = 10 * time.Second // other tests may keep the machine busy
	}
	e, err := engine.Open(engineCfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Engine: e, Version: "test", LocalOnly: true, NodeMeter: meter}
	for _, c := range change {
		c(&cfg)
	}
	s := &served{Server: New(cfg), engine: e, url: "http://" + l.Addr().String(), dial: dial}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100}
	if s.client, err = client.New(client.Config{URL: s.url, HTTP: &http.Client{Transport: transport}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-ended; err != nil {
			t.Error("serve:", err)
		}
	})
	return s
}

// replicas starts n servers on three nodes, in a bubble, each on its own ways to the nodes.
func replicas(t *testing.T, n int, faults enginetest.Faults) (list []*served, ways []enginetest.Replica) {
	t.Helper()
	cluster := enginetest.NewCluster(t, 3)
	cluster.Form()
	for range n {
		way := cluster.Replica(faults)
		l := newPipes()
		list, ways = append(list, serveNodes(t, way.Nodes(), l, l.dial, cluster.Now)), append(ways, way)
	}
	return list, ways
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// pipes is a listener whose connections are made in memory, for bubbles.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.accept <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7707} }

// request asks the handler itself, without a connection. Headers are "Name: value".
func (s *served) request(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7707", "127.0.0.1:50000"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// declare makes a semaphore.
func (s *served) declare(t *testing.T, name string, limit int) {
	t.Helper()
	if _, err := s.client.Put(t.Context(), name, client.Definition{Limit: limit}, 0); err != nil {
		t.Fatal(err)
	}
}

// inUse reads how many permits of the semaphore db are in leases.
func (s *served) inUse(t *testing.T) int {
	t.Helper()
	sem, err := s.client.Semaphore(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	return sem.Status.InUse
}

// eventually waits for what goroutines of the server are about to do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// logLines collects what is logged.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

var _ http.Handler = (*Server)(nil)
