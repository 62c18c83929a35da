package redisnode_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

func TestErrorsOfTheServerAreToldApartAndNamedInTheLog(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"READONLY You can't write against a read only replica.":                     redisnode.ErrReadOnly,
		"LOADING Redis is loading the dataset in memory":                            redisnode.ErrLoading,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is 'no'.": redisnode.ErrMasterDown,
		"OOM command not allowed when used memory > 'maxmemory'.":                   redisnode.ErrMemory,
		"MISCONF Redis is configured to save RDB snapshots":                         redisnode.ErrDisk,
		"NOAUTH Authentication required.":                                           redisnode.ErrNoAuth,
		"NOPERM this user has no permissions to run the 'evalsha' command":          redisnode.ErrNoPerm,
		"ERR something else": redisnode.ErrOther,
	} {
		first, _, _ := strings.Cut(text, " ")
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, mini := openMini(t, redisnode.Config{})
				s.formed()
				s.define(db, engine.Value{Limit: 1})
				looks := s.seen()
				mini.Fail("EVALSHA", text)
				a := s.do(s.claim(db, "L"))
				if !errors.Is(a.Err, engine.ErrBroken) || !errors.Is(a.Err, want) {
					t.Errorf("got %v", a.Err)
				}
				if first != "ERR" && !s.log.says(first) {
					t.Errorf("the log does not name it")
				}
				mini.Fail("EVALSHA", "")
				time.Sleep(100 * time.Millisecond)
				hints := want == redisnode.ErrReadOnly || want == redisnode.ErrLoading || want == redisnode.ErrMasterDown
				if again := s.seen() > looks; again != (hints || want == redisnode.ErrNoAuth) {
					t.Errorf("looked at again: %v", again)
				}
				time.Sleep(time.Second)
				s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
			})
		})
	}
}

func TestAServerThatIsStillLoadingIsDownUntilItHasLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini := redistest.NewMini()
		defer mini.Close()
		mini.Fail("HGETALL", "LOADING Redis is loading the dataset in memory")
		s := open(t, redisnode.Config{Addr: "127.0.0.1", Dialer: mini.Dialer})
		if err := s.awaitDown(); !errors.Is(err, redisnode.ErrLoading) {
			t.Errorf("told %v", err)
		}
		if a := s.do(&engine.Names{Count: 1}); !errors.Is(a.Err, engine.ErrDown) || !errors.Is(a.Err, redisnode.ErrLoading) {
			t.Errorf("got %v", a.Err)
		}
		mini.Fail("HGETALL", "")
		s.formed()
	})
}

func TestAnErrorThatComesAgainAndAgainIsLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, mini := openMini(t, redisnode.Config{})
		s.formed()
		mini.Fail("EVALSHA", "OOM command not allowed")
		for range 250 {
			s.do(&engine.Names{Count: 1})
			time.Sleep(100 * time.Millisecond)
		}
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		if times := strings.Count(s.log.text.String(), "it answers with an error"); times != 3 {
			t.Errorf("logged %d times in 25 s", times)
		}
	})
}

func TestLostScriptsAreLoadedAgainAfterALook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: 10})
	looks := s.seen()
	must(t, admin(t, server).ScriptFlush(t.Context()).Err())
	if a := s.do(s.claim(db, "L")); !errors.Is(a.Err, redisnode.ErrNoScript) || !s.log.says("NOSCRIPT") {
		t.Errorf("got %v", a.Err)
	}
	s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	if s.seen() == looks {
		t.Error("loaded without a look")
	}
}

func TestScriptsThatAreLostUnderLoadCostCallsButNoOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: 100_000})
	client := admin(t, server)

	const count = 3000
	var all sync.WaitGroup
	var mu sync.Mutex
	last, granted, lost := -1, 0, 0
	for i := range count {
		all.Add(1)
		s.node.Send(&engine.Call{Header: s.header, Op: s.claim(db, id(i)), Done: func(a *engine.Answer) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.Err == nil && a.Says == engine.SaysGranted && a.Slots.First() > last:
				last = a.Slots.First()
				granted++
			case errors.Is(a.Err, redisnode.ErrNoScript):
				lost++
			default:
				t.Errorf("%v %q %s after %d", a.Err, a.Says, a.Slots, last)
			}
		}})
		if i%500 == 250 {
			must(t, client.ScriptFlush(t.Context()).Err())
		}
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	all.Wait()
	if granted+lost != count || granted == 0 || lost == 0 {
		t.Errorf("%d granted, %d lost", granted, lost)
	}
	s.want(engine.SaysGranted, s.retry(s.claim(db, "L")))
}

func TestAServerThatLostItsScriptsInARestartGetsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, mini := openMini(t, redisnode.Config{})
		s.formed()
		s.define(db, engine.Value{Limit: 1})
		mini.SetInfo("run_id", "another")
		mini.Fail("EVALSHA", "NOSCRIPT No matching script.") // as after a restart of a proxy's server
		if a := s.do(s.claim(db, "L")); !errors.Is(a.Err, redisnode.ErrNoScript) {
			t.Errorf("got %v", a.Err)
		}
		mini.Fail("EVALSHA", "")
		if a := s.do(s.claim(db, "L")); !errors.Is(a.Err, engine.ErrOut) || !strings.Contains(a.Err.Error(), "restarted") {
			t.Errorf("got %v", a.Err)
		}
		if !s.log.says("it does not count") {
			t.Error("the log says nothing")
		}
	})
}

func TestADamagedRecordOfALeaseIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: 1})
	s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	must(t, admin(t, server).HSet(t.Context(), "permitd:sem:1:db", "lease:L", "nonsense").Err())
	if a := s.do(s.claim(db, "L")); !errors.Is(a.Err, engine.ErrBroken) {
		t.Errorf("%q, %v", a.Says, a.Err)
	}
	s.want(engine.SaysUndefined, s.do(s.claim("another", "L")))
}

func TestAServerWhoseCertificateNobodyTrustsIsNotSpokenTo(t *testing.T) {
	t.Parallel()
	certificate := selfSigned(t)
	mini, err := miniredis.RunTLS(certificate)
	must(t, err)
	t.Cleanup(mini.Close)
	s := open(t, redisnode.Config{Addr: "rediss://" + mini.Addr()})
	if err := s.awaitDown(); !strings.Contains(err.Error(), "certificate") {
		t.Errorf("told %v", err)
	}
}

func TestAPortWhereNobodyListensIsDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := listener.Addr().String()
	must(t, listener.Close())
	s := open(t, redisnode.Config{Addr: addr})
	if err := s.awaitDown(); !strings.Contains(err.Error(), "refused") {
		t.Errorf("told %v", err)
	}
	if a := s.do(&engine.Names{Count: 1}); !errors.Is(a.Err, engine.ErrDown) {
		t.Errorf("got %v", a.Err)
	}
}
