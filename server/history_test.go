package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

// column reads a column of the history of db.
func column[T any](t *testing.T, s *served, name string) []T {
	t.Helper()
	w := s.request("GET", "/v1/history?semaphore=db", "")
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	var list []T
	for _, v := range members(t, w)[name].([]any) {
		list = append(list, v.(T))
	}
	return list
}

func TestTheLastMinutesOfASemaphoreAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 3)
		if got := column[float64](t, s, "limit"); len(got) != 1 || got[0] != 3 { // it never opens blank
			t.Errorf("%v", got)
		}
		for range 2 {
			if _, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: 7 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			_, _ = s.client.Acquire(t.Context(), "db", client.Ask{Permits: 2, Wait: client.NoWait}) // refused
		}
		time.Sleep(16 * time.Second)
		for name, want := range map[string]string{
			"in_use": "[0 2 0 0]", "limit": "[3 3 3 3]", "waiting": "[0 0 0 0]", "oldest_wait_ms": "[0 0 0 0]", "grants": "[0 2 0 0]", "refusals": "[0 3 0 0]",
		} {
			if got := fmt.Sprint(column[float64](t, s, name)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		at := column[string](t, s, "at")
		first, err1 := time.Parse(time.RFC3339, at[1])
		second, err2 := time.Parse(time.RFC3339, at[2])
		if err1 != nil || err2 != nil || second.Sub(first) != historyEvery {
			t.Errorf("%v", at)
		}
		time.Sleep(15 * time.Minute)
		if got := column[string](t, s, "at"); len(got) != historyLength || got[0] <= at[3] {
			t.Errorf("%d samples from %s on", len(got), got[0])
		}
		time.Sleep(16 * time.Minute) // nobody asked
		if got := column[string](t, s, "at"); len(got) != 1 {
			t.Errorf("%d samples of what nobody asked for", len(got))
		}
	})
}

func TestAHistoryIsOfASemaphoreThatThereIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for target, status := range map[string]int{"": 400, "?semaphore=none": 404, "?semaphore=": 400, "?semaphore=a%00": 400, "?semaphore=x&y=1": 400} {
		if w := s.request("GET", "/v1/history"+target, ""); w.Code != status {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for i := range historyMax + 5 {
		s.history.count(fmt.Sprint(i), true)
	}
	if len(s.history.past) > historyMax {
		t.Errorf("%d are remembered", len(s.history.past))
	}
	s.declare(t, "db", 1)
	if got := column[string](t, s, "at"); len(got) > 1 { // there is no room for it
		t.Errorf("%v", got)
	}
}
