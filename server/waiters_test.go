package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/server/client"
)

func TestWhoWaitsIsListedInOrder(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Permits: 2}); err != nil {
		t.Fatal(err)
	}
	for i, ask := range []engine.Ask{{Permits: 2, Priority: -1}, {Permits: 1}, {Permits: 1, Priority: 5}} {
		ask.Wait, ask.Holder = time.Minute, engine.HolderInfo{Holder: fmt.Sprint("w", i), Principal: "anonymous", Via: "http"}
		go func() {
			_, _ = s.engine.Acquire(t.Context(), "db", ask) // the end of the test ends it
		}()
		for len(s.waiters(t, 10)) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	want := map[string]any{}
	if err := json.Unmarshal([]byte(`{"replica":"*","others":[],"items":[
		{"id":"*","holder":"w2","principal":"anonymous","via":"http","weight":1,"priority":5,"waiting_ms":"*","present":true},
		{"id":"*","holder":"w1","principal":"anonymous","via":"http","weight":1,"priority":0,"waiting_ms":"*","present":true},
		{"id":"*","holder":"w0","principal":"anonymous","via":"http","weight":2,"priority":-1,"waiting_ms":"*","present":true}]}`), &want); err != nil {
		t.Fatal(err)
	}
	w := s.request("GET", "/v1/semaphores/db/waiters", "")
	if got := members(t, w); w.Code != 200 || !alike(got, want) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if first := s.waiters(t, 1); len(first) != 1 {
		t.Errorf("of one asked for came %v", first)
	}
	if w := s.request("GET", "/v1/semaphores/none/waiters", ""); w.Code != 404 {
		t.Errorf("of no semaphore: %d %s", w.Code, w.Body)
	}
}

func TestAPlaceThatIsKeptIsListedAsThatOfOneWhoIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		s.mustAcquire(t)
		if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "k", Holder: "anna", Wait: time.Second}); !isKind(err, client.NoPermit) {
			t.Fatal(err)
		}
		go func() {
			_, _ = s.client.Acquire(t.Context(), "db", client.Ask{Holder: "berta", Wait: 20 * time.Second}) // refused at last
		}()
		synctest.Wait()
		for _, want := range []string{"anna false, berta true, ", "berta true, "} {
			var got strings.Builder
			for _, w := range s.waiters(t, 10) {
				w := w.(map[string]any)
				fmt.Fprint(&got, w["holder"], " ", w["present"], ", ")
			}
			if got.String() != want {
				t.Errorf("%q, want %q", got.String(), want)
			}
			if sem, err := s.client.Semaphore(t.Context(), "db"); err != nil || sem.Status.Waiting != 1 { // who is away is not counted
				t.Errorf("%+v, %v", sem.Status, err)
			}
			time.Sleep(engine.PlaceKept)
		}
		time.Sleep(20 * time.Second)
	})
}

// waiters returns the first count of those who wait for db.
func (s *served) waiters(t *testing.T, count int) []any {
	t.Helper()
	return members(t, s.request("GET", fmt.Sprint("/v1/semaphores/db/waiters?count=", count), ""))["items"].([]any)
}
