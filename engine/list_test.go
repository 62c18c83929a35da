package engine_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

func TestSemaphoresAreListedByPages(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		names := []string{"a", "b/1", "b/2", "b/ä", "b:\U0001F600", "c"}
		for _, name := range names {
			if _, _, err := r1.Put(t.Context(), name, engine.Definition{Limit: 1}, engine.Condition{}, "test"); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			prefix string
			count  int
			want   string
		}{
			{"", 10, "a b/1 b/2 b/ä b:\U0001F600 c"},
			{"", 4, "a b/1 b/2 b/ä|b:\U0001F600 c"},
			{"b/", 2, "b/1 b/2|b/ä"},
			{"b/", 3, "b/1 b/2 b/ä"},
			{"nothing", 3, ""},
		} {
			var pages []string
			for after, first := "", true; first || after != ""; first = false {
				list, next, err := r1.Semaphores(t.Context(), c.prefix, after, c.count)
				if err != nil {
					t.Fatal(err)
				}
				var page []string
				for _, sem := range list {
					page = append(page, sem.Name)
				}
				if len(page) > 0 || first {
					pages = append(pages, strings.Join(page, " "))
				}
				after = next
			}
			if got := strings.Join(pages, "|"); got != c.want {
				t.Errorf("%q by %d: %q; want %q", c.prefix, c.count, got, c.want)
			}
		}
	})
}

func TestLeasesAreListedOldestFirstAndWithoutTheirCapability(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		r1.declare(engine.Definition{Limit: 5, MinHold: time.Minute})
		anna := engine.HolderInfo{Holder: "anna", Principal: "p", Address: "10.0.0.1", Via: "http"}
		first := r1.acquire(engine.Ask{Permits: 2, Holder: anna})
		time.Sleep(3 * time.Second)
		second := r2.acquire(engine.Ask{TTL: engine.Never})
		gone := r2.acquire(engine.Ask{})
		r2.release(gone, 0)
		got, err := r2.Leases(t.Context(), db)
		if err != nil || len(got) != 3 {
			t.Fatalf("listed: %+v, %v", got, err)
		}
		want := []engine.LeaseInfo{
			{
				ID: first.ID, Semaphore: db, Weight: 2, Slots: first.Slots, Fence: first.Fence, HolderInfo: anna,
				GrantedAt: time.Now().Add(-3 * time.Second), Age: 3 * time.Second, ExpiresIn: 27 * time.Second,
			},
			{ID: second.ID, Semaphore: db, Weight: 1, Slots: second.Slots, Fence: second.Fence, GrantedAt: time.Now(), ExpiresIn: engine.Never},
			{ID: gone.ID, Semaphore: db, Weight: 1, Slots: gone.Slots, Cooling: true, ExpiresIn: time.Minute},
		}
		for i := range got {
			if !got[i].GrantedAt.Equal(want[i].GrantedAt) {
				t.Errorf("granted at %v; want %v", got[i].GrantedAt, want[i].GrantedAt)
			}
			got[i].GrantedAt = want[i].GrantedAt
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("listed %+v; want %+v", got[i], want[i])
			}
		}
		if _, err := r1.Leases(t.Context(), "other"); !errors.Is(err, engine.ErrUnknownSemaphore) {
			t.Errorf("of an unknown semaphore: %v", err)
		}
	})
}
