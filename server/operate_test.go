package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

func TestAMergePatchChangesWhatItNamesAndNullPutsTheDefaultBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.request("PUT", "/v1/semaphores/db", `{"limit":3,"ttl":"90s","ttl_max":"2h","min_hold":"1s","description":"x","max_waiters":7,"paused":true}`)
	for i, test := range []struct {
		patch, want string // members of the definition
		rev         float64
	}{
		{`{"limit":5}`, `{"limit":5,"ttl":"1m30s","ttl_max":"2h","min_hold":"1s","description":"x","max_waiters":7,"paused":true}`, 2},
		{`{"limit":5}`, `{"limit":5,"ttl":"1m30s","ttl_max":"2h","min_hold":"1s","description":"x","max_waiters":7,"paused":true}`, 2},
		{`{}`, `{"limit":5,"ttl":"1m30s","ttl_max":"2h","min_hold":"1s","description":"x","max_waiters":7,"paused":true}`, 2},
		{``, `{"limit":5,"ttl":"1m30s","ttl_max":"2h","min_hold":"1s","description":"x","max_waiters":7,"paused":true}`, 2},
		{`{"paused":false,"min_hold":0}`, `{"limit":5,"ttl":"1m30s","ttl_max":"2h","min_hold":"0s","description":"x","max_waiters":7,"paused":false}`, 3},
		{`{"ttl":null,"ttl_max":null,"max_waiters":null,"description":null}`, `{"limit":5,"ttl":"30s","ttl_max":"1h","min_hold":"0s","description":"","max_waiters":100000,"paused":false}`, 4},
		{`{"ttl":null}`, `{"limit":5,"ttl":"30s","ttl_max":"1h","min_hold":"0s","description":"","max_waiters":100000,"paused":false}`, 4},
		{`paused=true&description=a+b`, `{"limit":5,"ttl":"30s","ttl_max":"1h","min_hold":"0s","description":"a b","max_waiters":100000,"paused":true}`, 5},
		{`{"paused":null}`, `{"limit":5,"ttl":"30s","ttl_max":"1h","min_hold":"0s","description":"a b","max_waiters":100000,"paused":false}`, 6},
	} {
		w := s.request("PATCH", "/v1/semaphores/db", test.patch)
		got := members(t, w)
		definition := got["definition"].(map[string]any)
		var want map[string]any
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		want["hold_max"], want["priority_step"] = "*", "*"
		if w.Code != 200 || !alike(definition, want) || got["rev"] != test.rev || w.Header().Get("ETag") != etag(int64(test.rev)) {
			t.Errorf("%d: %s: %d %s", i, test.patch, w.Code, w.Body)
		}
	}
}

func TestPatchesOfDifferentFieldsAtOnceAreBothKept(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	answers := make(chan *httptest.ResponseRecorder)
	patches := []string{`{"limit":9}`, `{"description":"x"}`, `{"ttl":"7s"}`, `{"min_hold":"2s"}`}
	for _, patch := range patches {
		go func() { answers <- s.request("PATCH", "/v1/semaphores/db", patch) }()
	}
	for range patches {
		if w := <-answers; w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	sem, err := s.client.Semaphore(t.Context(), "db")
	if d := sem.Definition; err != nil || d.Limit != 9 || d.Description != "x" || d.TTL != "7s" || d.MinHold != "2s" || sem.Rev != 5 {
		t.Errorf("%+v, %v", sem, err)
	}
}

func TestAnOperatorBreaksALeaseWhoeverHoldsIt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "a/b", 3)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"a/b","permits":2}`)
	id := w.expect("granted")["id"].(string)
	lease, err := s.client.Acquire(t.Context(), "a/b", client.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // as often as one likes
		answer := s.request("DELETE", "/v1/semaphores/a%2Fb/leases/"+id+"?reason=db7+is+down", "")
		if answer.Code != 200 || answer.Body.String() != `{"id":"`+id+`","state":"broken","weight":2}`+"\n" {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
	if f := w.expect("lost"); f["id"] != id || f["reason"] != "broken" || f["semaphore"] != "a/b" {
		t.Errorf("%v", f)
	}
	if answer := s.request("DELETE", "/v1/semaphores/-/leases/"+lease.ID+"?name=a/b", "", "Accept: text/plain"); answer.Body.String() != "broken\n" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if _, err := s.client.Renew(t.Context(), "a/b", lease.Capability, 0); !isKind(err, "lease_broken") {
		t.Error(err)
	}
	if sem, err := s.client.Semaphore(t.Context(), "a/b"); err != nil || sem.Status.InUse != 0 {
		t.Errorf("%+v, %v", sem, err)
	}
}

func TestADeletionWithBreakEndsTheLeasesToo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
	w.expect("granted")
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
	w.expect("waiting")
	for range 2 { // a proxy repeats it
		if answer := s.request("DELETE", "/v1/semaphores/db?break=true&reason=old", ""); answer.Code != 204 || answer.Body.Len() > 0 {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
	heard := map[any]any{}
	for range 2 {
		f := w.next("")
		heard[f["type"]] = f["reason"]
		if f["type"] == "refused" {
			heard["refused"] = f["kind"]
		}
	}
	if heard["lost"] != "deleted" || heard["refused"] != "unknown_semaphore" {
		t.Errorf("%v", heard)
	}
	if answer := s.request("GET", "/v1/semaphores/db", ""); answer.Code != 404 {
		t.Errorf("%d", answer.Code)
	}
	s.declare(t, "db", 1)
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); err != nil {
		t.Error(err)
	}
}

// foundLeases reads all pages of a search and returns semaphore:holder of what it found.
func (s *served) foundLeases(t *testing.T, query string) (found []string, pages int) {
	t.Helper()
	for after := ""; ; pages++ {
		w := s.request("GET", "/v1/leases?"+query+after, "")
		if w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
		m := members(t, w)
		for _, item := range m["items"].([]any) {
			l := item.(map[string]any)
			found = append(found, fmt.Sprint(l["semaphore"], ":", l["holder"]))
		}
		next, more := m["next"].(string)
		if !more {
			return found, pages + 1
		}
		after = "&after=" + strings.ReplaceAll(next, " ", "+")
	}
}

func TestLeasesAreFoundAcrossSemaphores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for _, name := range []string{"a", "b.1", "b 2", "c", "empty"} {
			s.declare(t, name, 9)
		}
		acquire := func(semaphore, holder string) {
			if _, err := s.client.Acquire(t.Context(), semaphore, client.Ask{Holder: holder, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		acquire("b.1", "anna")
		acquire("b.1", "bert")
		acquire("c", "anna")
		time.Sleep(time.Minute)
		acquire("a", "anna")
		acquire("b 2", "carl")
		all := []string{"a:anna", "b 2:carl", "b.1:anna", "b.1:bert", "c:anna"}
		for query, want := range map[string][]string{
			"":                                all,
			"semaphore=b.1":                   {"b.1:anna", "b.1:bert"},
			"semaphore=none":                  nil,
			"holder=anna":                     {"a:anna", "b.1:anna", "c:anna"},
			"holder=anna&older_than=1m":       {"b.1:anna", "c:anna"},
			"principal=anonymous":             all,
			"principal=ci":                    nil,
			"semaphore=c&holder=bert":         nil,
			"semaphore=b.1&older_than=1m1s":   nil,
			"semaphore=b.1&older_than=1m0s":   {"b.1:anna", "b.1:bert"},
			"holder=bert&semaphore=b.1":       {"b.1:bert"},
			"principal=anonymous&holder=carl": {"b 2:carl"},
		} {
			for count := 1; count <= 6; count++ {
				found, pages := s.foundLeases(t, fmt.Sprint(query, "&count=", count))
				if !slices.Equal(found, want) || pages != max(1, (len(want)+count-1)/count) {
					t.Errorf("%s by %d: %q in %d pages", query, count, found, pages)
				}
			}
		}
		row := s.request("GET", "/v1/leases?holder=carl", "", "Accept: text/plain").Body.String()
		if !strings.HasPrefix(row, "b 2\t") {
			t.Errorf("%q", row)
		}
	})
}
