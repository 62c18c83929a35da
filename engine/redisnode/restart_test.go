package redisnode_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

// serving starts a node on a real server that is formed, with a lease L on the semaphore.
func serving(t *testing.T, options ...redistest.Option) (*subject, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, options...)
	s := open(t, redisnode.Config{Addr: server.Addr()}).formed()
	s.define(db, engine.Value{Limit: 5})
	s.want(engine.SaysGranted, s.retry(s.claim(db, "L")))
	return s, server
}

// staysOut fails the test unless calls of the usual kind keep failing for this reason.
func (s *subject) staysOut(reason string) {
	s.Helper()
	for range 3 {
		looks := s.seen()
		a := s.do(s.claim(db, "M"))
		if !errors.Is(a.Err, engine.ErrOut) || !strings.Contains(a.Err.Error(), reason) {
			s.Fatalf("%q, %v; want out, %q", a.Says, a.Err, reason)
		}
		s.awaitProbe(looks, "another look", refused)
	}
}

func TestARedisThatRestartsWithItsFileStaysOutAndSaysWhy(t *testing.T) {
	t.Parallel()
	s, server := serving(t, redistest.AOF)
	looks := s.seen()
	server.Kill()
	_ = s.awaitDown() // that it is down is what counts
	if a := s.do(s.claim(db, "M")); !errors.Is(a.Err, engine.ErrDown) {
		t.Errorf("meanwhile: %v", a.Err)
	}
	server.Restart()
	p := s.awaitProbe(looks, "a refusal", refused)
	if p.Record == nil || p.Record.Cluster != cluster || p.Record.RunID == p.RunID || p.Fatal || !p.Durable {
		t.Errorf("saw %+v", p)
	}
	s.staysOut("restarted")
	if !s.log.says("restarted") {
		t.Error("the log does not say so")
	}
	// It is reached all the same by those who may take it back.
	freeze := &engine.Freeze{Token: engine.Ballot{Counter: 2, Replica: me}, Was: p.Record.Token, Cluster: cluster, RunID: p.RunID}
	if r := s.want(engine.SaysDone, s.do(freeze)).Node; r.RunID != p.RunID || r.State != engine.StateFrozen {
		t.Errorf("frozen as %+v", r)
	}
	s.staysOut("frozen")
}

func TestARedisThatRestartsWithoutItsFileIsBlank(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	looks := s.seen()
	server.Restart()
	p := s.awaitProbe(looks, "a look", func(p engine.Probe) bool { return p.Record == nil })
	if p.Refusal != nil || p.Durable || p.Advice != "appendonly yes" {
		t.Errorf("saw %+v", p)
	}
	if a := s.want(engine.SaysOut, s.do(s.claim(db, "M"))); a.Reason != "no record" {
		t.Errorf("out for the reason %q", a.Reason)
	}
}

func TestFlushAllIsSeenByTheMissingRecord(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	looks := s.seen()
	must(t, admin(t, server).FlushAll(t.Context()).Err())
	if a := s.want(engine.SaysOut, s.do(s.claim(db, "M"))); a.Reason != "no record" {
		t.Errorf("out for the reason %q", a.Reason)
	}
	s.awaitProbe(looks, "a look", func(p engine.Probe) bool { return p.Record == nil })
}

func TestAReplicaIsAMistakeAndOneThatIsAMasterAgainDoesNotCount(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	looks := s.seen()
	must(t, admin(t, server).ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	// What is sent before the next look is refused by the server itself, and makes the node look.
	if a := s.do(s.claim(db, "M")); !errors.Is(a.Err, redisnode.ErrReadOnly) && !errors.Is(a.Err, engine.ErrOut) {
		t.Errorf("%q, %v", a.Says, a.Err)
	}
	if p := s.awaitProbe(looks, "a refusal", refused); !p.Fatal || !strings.Contains(p.Refusal.Error(), "replica") {
		t.Errorf("saw %+v", p)
	}
	s.staysOut("replica")
	if a := s.do(&engine.Commit{}); !errors.Is(a.Err, engine.ErrOut) {
		t.Errorf("commit: %v", a.Err)
	}
	looks = s.seen()
	must(t, admin(t, server).ReplicaOf(t.Context(), "NO", "ONE").Err())
	if p := s.awaitProbe(looks, "a master", func(p engine.Probe) bool { return !p.Fatal }); p.Refusal == nil || p.RunID != p.Record.RunID {
		t.Errorf("saw %+v", p)
	}
	s.staysOut("replica meanwhile")
}

func TestANodeThatGetsAReplicaGoesOn(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	replid := func() string {
		text := admin(t, server).Info(t.Context(), "replication").Val()
		_, id, _ := strings.Cut(text, "master_replid:")
		id, _, _ = strings.Cut(id, "\r\n")
		return id
	}
	before := replid()
	host, port, _ := net.SplitHostPort(server.Addr())
	must(t, admin(t, redistest.Start(t)).ReplicaOf(t.Context(), host, port).Err())
	for deadline := time.Now().Add(within); replid() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no replica attached")
		}
	}
	looks := s.seen()
	if p := s.awaitProbe(looks, "a look", anyProbe); p.Refusal != nil {
		t.Errorf("it is refused: %v", p.Refusal)
	}
	s.want(engine.SaysGranted, s.do(s.claim(db, "M")))
}

func TestAPausedServerCostsItsCallsTheNodeTimeoutAndNoMore(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	server.Pause()
	start := time.Now()
	a := s.do(s.claim(db, "M"))
	if waited := time.Since(start); !errors.Is(a.Err, engine.ErrTimeout) || waited < 400*time.Millisecond || waited > 5*time.Second {
		t.Errorf("%v after %v", a.Err, waited)
	}
	_ = s.awaitDown() // that it is down is what counts
	server.Resume()
	s.want(engine.SaysGranted, s.retry(s.claim(db, "N")))
	// What the closed connection had still in its buffers may have run before it was closed, never after: L and N, and M only
	// if it came first.
	if m := s.find(db, "M"); m != nil && m.Fence > s.find(db, "N").Fence {
		t.Error("the call ran after one of the next connection")
	}
}

func TestACallThatTheServerKillsIsLostAndTheNextOneIsNot(t *testing.T) {
	t.Parallel()
	s, server := serving(t)
	must(t, admin(t, server).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	s.await("a new connection", func() bool { return s.links == 2 })
	s.want(engine.SaysGranted, s.retry(s.claim(db, "M")))
}
