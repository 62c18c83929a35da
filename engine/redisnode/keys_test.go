package redisnode_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

// still starts a node on a miniredis whose clock stands still unless it is moved.
func still(t *testing.T) (s *subject, mini *redistest.Mini, pass func(time.Duration)) {
	t.Helper()
	s, mini = openMini(t, redisnode.Config{NodeTimeout: within})
	now := time.Now().Truncate(time.Second)
	mini.SetTime(now)
	s.formed()
	s.define(db, engine.Value{Limit: 10_000})
	return s, mini, func(d time.Duration) {
		now = now.Add(d)
		mini.SetTime(now)
	}
}

func TestTombstonesBarAnAttemptForTheirTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	s, _, pass := still(t)
	for name, test := range map[string]struct {
		change func(*engine.Release)
		life   time.Duration
	}{
		"short":              {func(*engine.Release) {}, time.Minute},
		"as told":            {func(r *engine.Release) { r.Left = 10 * time.Minute }, 10 * time.Minute},
		"an hour at most":    {func(r *engine.Release) { r.Left = engine.Never }, time.Hour},
		"of a give-back":     {func(r *engine.Release) { r.Left, r.Why = engine.Never, engine.WhyGivenBack }, time.Minute},
		"of a break":         {func(r *engine.Release) { r.Left, r.Why = 2*time.Minute, engine.WhyBroken }, 2 * time.Minute},
		"of a cleaned lease": {func(r *engine.Release) { r.Left, r.Why = 2*time.Minute, engine.WhyCleaned }, time.Minute},
	} {
		release := s.release(db, name)
		test.change(release)
		s.want(engine.SaysReleased, s.do(release))
		pass(test.life - time.Microsecond)
		s.want(engine.SaysGone, s.do(s.claim(db, name)))
		pass(time.Microsecond)
		s.want(engine.SaysGranted, s.do(s.claim(db, name)))
		s.want(engine.SaysReleased, s.do(s.release(db, name)))
	}
}

func TestTombstonesDoNotPileUp(t *testing.T) {
	t.Parallel()
	s, mini, pass := still(t)
	fields := func(kind string) (n int) {
		for _, generation := range []string{"0", "1"} {
			keys, _ := mini.HKeys("permitd:gone:1:" + kind + ":" + generation)
			n += len(keys)
		}
		return n
	}
	for i := range 500 {
		release := s.release(db, fmt.Sprint("short", i))
		s.want(engine.SaysReleased, s.do(release))
		release = s.release(db, fmt.Sprint("long", i))
		release.Left = time.Hour
		s.want(engine.SaysReleased, s.do(release))
		pass(time.Minute)
		if short, long := fields("short"), fields("long"); short > 3 || long > 122 {
			t.Fatalf("after %d minutes there are %d short ones and %d long ones", i+1, short, long)
		}
	}
}

func TestAllTombstonesOfALeaseStayTogether(t *testing.T) {
	t.Parallel()
	s, _, pass := still(t)
	bury := func(by string, left time.Duration) {
		release := s.release(db, "L")
		release.By, release.Left = by, left
		s.want(engine.SaysReleased, s.do(release))
	}
	bury("1", 0)
	pass(50 * time.Second)
	bury("2", 30*time.Minute) // moves the first to the long ones
	pass(5 * time.Second)
	bury("3", 0)
	bury("1", 0) // again
	pass(10 * time.Second)
	var got []string
	for _, tomb := range s.want(engine.SaysDone, s.do(&engine.Find{Semaphore: db, Lease: "L"})).Tombstones {
		got = append(got, fmt.Sprint(tomb.By, " ", tomb.Left))
	}
	if want := []string{"1 50s", "2 29m45s", "3 50s"}; !slices.Equal(got, want) {
		t.Errorf("found %q; want %q", got, want)
	}
}

func TestAClockThatIsSetBackLosesNoTombstone(t *testing.T) {
	t.Parallel()
	s, _, pass := still(t)
	s.want(engine.SaysReleased, s.do(s.release(db, "L")))
	pass(-time.Hour)
	for i := range 100 {
		s.want(engine.SaysReleased, s.do(s.release(db, id(i))))
		pass(time.Second)
		s.want(engine.SaysGone, s.do(s.claim(db, "L")))
	}
}

func TestNothingIsLeftOfWhatWasDropped(t *testing.T) {
	t.Parallel()
	s, mini, pass := still(t)
	before := mini.Keys()
	for i := range 20 {
		name := fmt.Sprint("once ", i)
		s.define(name, engine.Value{Limit: 2, MinHold: time.Second})
		s.want(engine.SaysGranted, s.do(s.claim(name, "L")))
		s.waits(name)
		s.want(engine.SaysReleased, s.do(s.release(name, "L")))
		ballot := s.define(name, engine.Value{Deleted: true})
		drop := &engine.Drop{Kind: engine.RegisterSemaphore, Name: name, Ballot: ballot}
		s.want(engine.SaysNo, s.do(drop)) // it cools, and somebody waits
		pass(2 * time.Second)
		s.want(engine.SaysDone, s.do(drop))
	}
	left := slices.DeleteFunc(mini.Keys(), func(key string) bool {
		return slices.Contains(before, key) || strings.HasPrefix(key, "permitd:gone:")
	})
	if len(left) > 0 {
		t.Errorf("there are still %q", left)
	}
}
