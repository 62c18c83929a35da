package redisnode_test

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/quorum"
	"github.com/permitd/permitd/engine/redisnode"
)

// stall asks a server for the longest time that a script took since the last reset.
func stall(t *testing.T, server *redistest.Server) time.Duration {
	t.Helper()
	entries, err := admin(t, server).SlowLogGet(t.Context(), 1000).Result()
	must(t, err)
	longest := time.Duration(0)
	for _, entry := range entries {
		if entry.Args[0] == "evalsha" {
			longest = max(longest, entry.Duration)
		}
	}
	return longest
}

// stallMax is far above what any call takes, and far below what a node may be silent for.
const stallMax = 400 * time.Millisecond

func TestTenThousandSlotsAreTakenAndFreedInOneCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: engine.LimitMax})

	var apart quorum.Slots // every other slot
	for i := range engine.WeightMax {
		apart = append(apart, quorum.Span{First: 2 * i, Last: 2 * i})
	}
	mend := &engine.Mend{
		Semaphore: db, Lease: "apart", By: "apartby", Owner: engine.Owner{Nonce: "owner"}, Slots: apart, TTL: 30 * time.Second, New: true,
		Until: time.Now().Add(time.Hour).UnixMicro(),
	}
	s.want(engine.SaysMended, s.do(mend))
	heavy := func(lease string, start int) *engine.Claim {
		claim := s.claim(db, lease)
		claim.Weight, claim.Start = engine.WeightMax, start
		return claim
	}
	between := s.want(engine.SaysGranted, s.do(heavy("between", 0))).Slots
	if between.Len() != engine.WeightMax || between.Overlaps(apart) || between[len(between)-1].Last != 2*engine.WeightMax-1 {
		t.Errorf("got %d slots up to %v", between.Len(), between[len(between)-1])
	}
	side := s.want(engine.SaysGranted, s.do(heavy("side by side", 500_000)))
	if !side.Slots.Equal(quorum.Slots{{First: 500_000, Last: 509_999}}) {
		t.Errorf("got %s", side.Slots)
	}
	wrapped := s.want(engine.SaysGranted, s.do(heavy("wrapped", engine.LimitMax-100))).Slots
	if !wrapped.Equal(quorum.Slots{{First: 20_000, Last: 29_899}, {First: engine.LimitMax - 100, Last: engine.LimitMax - 1}}) {
		t.Errorf("got %s", wrapped)
	}
	s.want(engine.SaysRenewed, s.do(s.renew(db, "side by side", side)))
	if r := s.find(db, "between"); !r.Slots.Equal(between) {
		t.Errorf("found %d slots", r.Slots.Len())
	}
	for _, lease := range []string{"apart", "between", "side by side", "wrapped"} {
		s.want(engine.SaysReleased, s.do(s.release(db, lease)))
	}
	if free := s.do(s.claim(db, "L")).Free; free != engine.LimitMax-1 {
		t.Errorf("%d are free", free)
	}
	if longest := stall(t, server); longest > stallMax {
		t.Errorf("a call took %v", longest)
	}
}

func TestTenThousandLeasesThatEndAtOnceStallNobody(t *testing.T) {
	t.Parallel()
	const count = 10_000
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: count})
	var ops []engine.Op
	for i := range count {
		mend := &engine.Mend{
			Semaphore: db, Lease: id(i), By: "by", Slots: quorum.OneSlot(i), TTL: 5 * time.Second, New: true, Info: "info",
			Until: time.Now().Add(time.Hour).UnixMicro(),
		}
		ops = append(ops, mend)
	}
	answered := s.send(ops...)
	for range ops {
		s.want(engine.SaysMended, s.answer(answered))
	}
	place := s.waits(db)
	lapsed := time.Now().Add(5 * time.Second)
	if a := s.want(engine.SaysFull, s.do(s.claim(db, "early"))); a.NextEnd == 0 || a.NextEnd > 5*time.Second {
		t.Errorf("the next end is in %v", a.NextEnd)
	}
	time.Sleep(time.Until(lapsed))

	calls := 0
	for more := true; more; calls++ {
		a := s.want(engine.SaysDone, s.do(&engine.Find{Semaphore: db, Lease: "L"}))
		more = a.More
	}
	if calls < count/engine.NodeLimits.DropLeases {
		t.Errorf("all were dropped in %d calls", calls)
	}
	a := s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
	if a.Free != count-1 {
		t.Errorf("%d are free", a.Free)
	}
	if w := s.wake(db); w.Order != place.Order {
		t.Errorf("woken: %+v", w)
	}
	if longest := stall(t, server); longest > stallMax {
		t.Errorf("a call took %v", longest)
	}
}
