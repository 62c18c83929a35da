package redisnode_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

func TestNamesMayHaveAnyBytes(t *testing.T) {
	t.Parallel()
	t.Run("on a miniredis", func(t *testing.T) {
		t.Parallel()
		s, _ := openMini(t, redisnode.Config{NodeTimeout: within})
		anyNames(s.formed())
	})
	t.Run("on Redis", func(t *testing.T) {
		t.Parallel()
		anyNames(open(t, redisnode.Config{Addr: redistest.Start(t).Addr(), NodeTimeout: within}).formed())
	})
}

func anyNames(s *subject) {
	names := []string{
		"", "a", "a:b", "a:sem:b", "node", "{a}", "a\x00b", "\x00", "a\nb", "a\r\nb", " a ", "a,b", "%d%s", "*", "é", "🎫", "\xff\xfe", "-1",
		strings.Repeat("x", engine.NameMax), strings.Repeat("\xff", engine.NameMax),
	}
	identifiers := []string{"L", "L M", "L,M", "L\x00", "é", "%s", "!20"}
	for i, name := range names {
		info := "a holder\x00 \n,é"
		s.define(name, engine.Value{Limit: len(identifiers), Data: info})
		for _, lease := range identifiers {
			claim := s.claim(name, lease)
			claim.Info = info
			s.want(engine.SaysGranted, s.do(claim))
			r := s.find(name, lease)
			if r == nil || r.Lease != lease || r.By != lease+"by" || r.Owner.Nonce != "owner" || r.Info != info {
				s.Fatalf("%q: found %+v", name, r)
			}
		}
		page := s.want(engine.SaysDone, s.do(&engine.View{Semaphore: name, Count: 100})).View
		var leases []string
		for _, l := range page.Leases {
			leases = append(leases, l.Lease)
		}
		if slices.Sort(leases); !slices.Equal(leases, slices.Sorted(slices.Values(identifiers))) || page.Value.Data != info {
			s.Errorf("%q: viewed %q, %q", name, leases, page.Value.Data)
		}
		place := s.waits(name)
		slot := i % len(identifiers)
		s.want(engine.SaysReleased, s.do(s.release(name, identifiers[slot])))
		if w := s.wake(name); w.Order != place.Order || w.Node != 1 || w.Slot != slot || w.Free != 1 {
			s.Errorf("%q: woken by %+v", name, w)
		}
	}
	got := s.want(engine.SaysDone, s.do(&engine.Names{Count: 1000})).Names
	slices.Sort(names)
	if !slices.Equal(got, names) {
		s.Errorf("names %q", got)
	}
}
