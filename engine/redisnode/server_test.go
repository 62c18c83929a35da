package redisnode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/quorum"
	"github.com/permitd/permitd/engine/redisnode"
)

func TestAServerThatEvictsIsAMistake(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--maxmemory-policy", "allkeys-lru"))
	s := open(t, redisnode.Config{Addr: server.Addr()})
	p := s.awaitProbe(0, "a refusal", refused)
	if !p.Fatal || !strings.Contains(p.Refusal.Error(), "allkeys-lru") {
		t.Errorf("saw %+v", p)
	}
	for _, op := range []engine.Op{&engine.Names{Count: 1}, &engine.Freeze{RunID: p.RunID}} {
		if a := s.do(op); !errors.Is(a.Err, engine.ErrOut) {
			t.Errorf("%s: %v", engine.OpName(op), a.Err)
		}
	}
	if n := admin(t, server).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
	must(t, admin(t, server).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	s.awaitProbe(0, "a server as it should be", func(p engine.Probe) bool { return p.Refusal == nil })
	s.formed()
}

func TestPasswordsAreUsedAndNeverShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Password("hunter2"))
	for url, want := range map[string]error{
		"redis://:hunter2@" + server.Addr():         nil,
		"redis://default:hunter2@" + server.Addr():  nil,
		"redis://:hunter22@" + server.Addr():        redisnode.ErrWrongPass,
		"redis://somebody:hunter2@" + server.Addr(): redisnode.ErrWrongPass,
		server.Addr(): redisnode.ErrNoAuth,
	} {
		s := open(t, redisnode.Config{Addr: url, Prefix: "p"})
		if want == nil {
			s.awaitProbe(0, url, anyProbe)
		} else if err := s.awaitDown(); !errors.Is(err, want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: told %v; want %v", url, err, want)
		} else if a := s.do(&engine.Names{Count: 1}); !errors.Is(a.Err, engine.ErrDown) || !errors.Is(a.Err, want) {
			t.Errorf("%s: %v", url, a.Err)
		}
		s.node.Close()
		if s.log.says("hunter2") {
			t.Errorf("%s: the log shows the password", url)
		}
	}
}

func TestAUserWithTooFewRightsIsToldSo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must(t, admin(t, server).Do(t.Context(), "ACL", "SETUSER", "weak", "on", ">pw", "~*", "&*", "+@connection", "+info", "+time", "+hgetall").Err())
	s := open(t, redisnode.Config{Addr: "redis://weak:pw@" + server.Addr()})
	if err := s.awaitDown(); !errors.Is(err, redisnode.ErrNoPerm) || !s.log.says("NOPERM") {
		t.Errorf("told %v", err)
	}
}

func TestAUserNeedsTheKeysAndChannelsOfThePrefixOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must(t, admin(t, server).Do(t.Context(), "ACL", "SETUSER", "permitd", "on", ">pw", "~permitd:*", "&permitd:*", "+@all", "-@admin").Err())
	s := open(t, redisnode.Config{Addr: "redis://permitd:pw@" + server.Addr()}).formed()
	s.define(db, engine.Value{Limit: 1})
	s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	s.waits(db)
	s.want(engine.SaysReleased, s.do(s.release(db, "L")))
	s.wake(db)
	if s.log.says("NOPERM") {
		t.Error("something was not allowed")
	}
}

func TestDatabasesAndPrefixesOfOneServerDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	subjects := []*subject{
		open(t, redisnode.Config{Addr: "redis://" + server.Addr() + "/0"}),
		open(t, redisnode.Config{Addr: "redis://" + server.Addr() + "/1"}),
		open(t, redisnode.Config{Addr: server.Addr(), Prefix: "other"}),
	}
	for i, s := range subjects {
		s.formed()
		s.define(db, engine.Value{Limit: i + 1})
	}
	for i, s := range subjects {
		for slot := range i + 1 {
			s.want(engine.SaysGranted, s.do(s.claim(db, id(slot))))
		}
		s.want(engine.SaysFull, s.do(s.claim(db, "M")))
	}
	keys, err := admin(t, server).Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if !strings.HasPrefix(key, "permitd:") && !strings.HasPrefix(key, "other:") {
			t.Errorf("key %q", key)
		}
	}
}

func TestAFullMemoryStopsClaimsAndNothingElse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr()}).formed()
	ballot := s.define(db, engine.Value{Limit: 10})
	held := s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	s.want(engine.SaysGranted, s.do(s.claim(db, "M")))
	client := admin(t, server)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	s.awaitProbe(0, "a full server", func(p engine.Probe) bool { return p.Full && p.Refusal == nil })

	ballot.Counter++
	for _, op := range []engine.Op{
		s.claim(db, "N"),
		&engine.Mend{
			Semaphore: db, Lease: "N", By: "Nby", Ver: 1, Slots: quorum.OneSlot(5), TTL: time.Minute, Until: held.Time + time.Minute.Microseconds(),
		},
		&engine.Prepare{Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot},
		&engine.Accept{Kind: engine.RegisterSemaphore, Name: db, Ballot: ballot},
	} {
		if a := s.do(op); !errors.Is(a.Err, redisnode.ErrMemory) {
			t.Errorf("%s: %q, %v", engine.OpName(op), a.Says, a.Err)
		}
	}
	for _, test := range []struct {
		says engine.Says
		op   engine.Op
	}{
		{engine.SaysRenewed, s.renew(db, "L", held)},
		{engine.SaysAttached, &engine.Attach{
			Semaphore: db, Lease: "L", By: "Lby", Owner: engine.Owner{Gen: 1, Nonce: "x"}, Slots: held.Slots, Left: time.Minute,
		}},
		{engine.SaysReleased, s.release(db, "M")},
		{engine.SaysReleased, s.release(db, "unknown")},
		{engine.SaysDone, &engine.Line{Semaphore: db, Replica: me}},
		{engine.SaysDone, &engine.Find{Semaphore: db, Lease: "L"}},
		{engine.SaysDone, &engine.View{Semaphore: db, Count: 10}},
		{engine.SaysDone, &engine.Names{Count: 10}},
		{engine.SaysDone, &engine.Peek{Kind: engine.RegisterSemaphore, Name: db}},
		{engine.SaysNo, &engine.Drop{Kind: engine.RegisterSemaphore, Name: db}},
	} {
		s.want(test.says, s.do(test.op))
	}
	looks := s.seen()
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	s.awaitProbe(looks, "room", func(p engine.Probe) bool { return !p.Full })
	s.want(engine.SaysGranted, s.do(s.claim(db, "N")))
	if s.find(db, "M") != nil {
		t.Error("the release did nothing")
	}
}
