package redisnode_test

import (
	"errors"
	"regexp"
	"strconv"
	"testing"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/quorum"
	"github.com/permitd/permitd/engine/redisnode"
)

// scriptsRun is how many scripts a server has executed.
func scriptsRun(t *testing.T, server *redistest.Server) int {
	t.Helper()
	text, err := admin(t, server).Info(t.Context(), "commandstats").Result()
	must(t, err)
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	must(t, err)
	return n
}

func TestAReleaseAndTheClaimThatFollowsAreOneScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr()}).formed()
	s.define(db, engine.Value{Limit: 1})
	s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	before := scriptsRun(t, server)
	answered := s.send(s.release(db, "L"), s.claim(db, "M"), s.claim(db, "N"), &engine.Line{Semaphore: db, Replica: me})
	s.want(engine.SaysReleased, s.answer(answered))
	if a := s.want(engine.SaysGranted, s.answer(answered)); !a.Slots.Equal(quorum.OneSlot(0)) {
		t.Errorf("M has %v", a.Slots)
	}
	s.want(engine.SaysFull, s.answer(answered))
	s.want(engine.SaysDone, s.answer(answered))
	if n := scriptsRun(t, server) - before; n != 1 {
		t.Errorf("%d scripts", n)
	}
}

func TestOneScriptFindsWhatItHasDoneWithALease(t *testing.T) {
	t.Parallel()
	s := open(t, redisnode.Config{Addr: redistest.Start(t).Addr()}).formed()
	s.define(db, engine.Value{Limit: 1})
	again := s.claim(db, "L")
	again.By = "another"
	answered := s.send(s.claim(db, "L"), again, s.release(db, "L"), s.release(db, "L"), s.claim(db, "L"), again)
	for _, says := range []engine.Says{
		engine.SaysGranted, engine.SaysExists, engine.SaysReleased, engine.SaysReleased, engine.SaysGone, engine.SaysGranted,
	} {
		s.want(says, s.answer(answered))
	}
	if found := s.find(db, "L"); found == nil || found.By != "another" {
		t.Errorf("found %+v", found)
	}
}

func TestOfWhatOneScriptExecutesEachIsLateByItself(t *testing.T) {
	t.Parallel()
	s := open(t, redisnode.Config{Addr: redistest.Start(t).Addr()}).formed()
	s.define(db, engine.Value{Limit: 3})
	now := s.want(engine.SaysDone, s.do(&engine.Line{Semaphore: db, Replica: me})).Time
	answered := make(chan *engine.Answer, 3)
	var calls []*engine.Call
	for i, at := range []int64{now - engine.NodeLimits.Late.Microseconds() - 1, now, now + 60_000_000} {
		calls = append(calls, &engine.Call{Header: s.header, At: at, Op: s.claim(db, id(i)), Done: func(a *engine.Answer) { answered <- a }})
	}
	s.node.Send(calls...)
	for _, says := range []engine.Says{engine.SaysLate, engine.SaysGranted, engine.SaysLate} {
		s.want(says, s.answer(answered))
	}
}

func TestWhoIsOutIsOutForAllThatOneScriptExecutes(t *testing.T) {
	t.Parallel()
	s := open(t, redisnode.Config{Addr: redistest.Start(t).Addr()}).formed()
	s.define(db, engine.Value{Limit: 3})
	s.header = &engine.Header{Cluster: "another", Known: s.header.Known, Index: 1}
	answered := s.send(s.claim(db, "L"), s.claim(db, "M"))
	s.want(engine.SaysOut, s.answer(answered))
	s.want(engine.SaysOut, s.answer(answered))
}

func TestWhereMemoryIsUsedUpReleasesDoNotFailTwiceForTheClaimsBesideThem(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr()}).formed()
	s.define(db, engine.Value{Limit: 1})
	s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	must(t, admin(t, server).ConfigSet(t.Context(), "maxmemory", "1").Err())
	answered := s.send(s.release(db, "L"), s.claim(db, "M"))
	for range 2 {
		if a := s.answer(answered); !errors.Is(a.Err, redisnode.ErrMemory) {
			t.Errorf("said %q, %v", a.Says, a.Err)
		}
	}
	answered = s.send(s.release(db, "L"), s.claim(db, "M"))
	s.want(engine.SaysReleased, s.answer(answered))
	if a := s.answer(answered); !errors.Is(a.Err, redisnode.ErrMemory) {
		t.Errorf("said %q, %v", a.Says, a.Err)
	}
}
