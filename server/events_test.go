package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/permitd/permitd/server/client"
)

// follow opens the stream of events; it returns what reads the next one, with its id.
func (s *served) follow(t *testing.T, query string, headers ...string) func() (id string, v map[string]any) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	transport := &http.Transport{}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		leave()
		_ = response.Body.Close() // it was cut
		transport.CloseIdleConnections()
	})
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatal(response.Status, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	return func() (id string, v map[string]any) {
		t.Helper()
		for lines.Scan() {
			field, text, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = text
			case "data":
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
			case "":
				if v != nil {
					return id, v
				}
			}
		}
		return "", nil
	}
}

func TestWhatOperatorsDoIsToldLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var logged logLines
	s := serve(t, func(c *Config) { c.Log = logged.logger() })
	next := s.follow(t, "?semaphore=db")
	s.request("PUT", "/v1/semaphores/other", "limit=1")
	for range 2 { // repeated, it is no second act
		s.request("PUT", "/v1/semaphores/db", "limit=3", "X-Request-Id: the-first")
	}
	s.request("PATCH", "/v1/semaphores/db", "limit=4")
	var ids []string
	var secrets []string
	for range 2 {
		got, err := s.client.Acquire(t.Context(), "db", client.Ask{Holder: "anna", Permits: 2})
		if err != nil {
			t.Fatal(err)
		}
		ids, secrets = append(ids, got.ID), append(secrets, got.Capability)
	}
	for range 2 {
		s.request("DELETE", "/v1/semaphores/db/leases/"+ids[0]+"?reason=db7+is+down", "")
	}
	s.request("DELETE", "/v1/semaphores/db?break=true&reason=old", "")
	for i, want := range []string{
		`{"type":"semaphore_declared","rev":1}`,
		`{"type":"semaphore_changed","rev":2}`,
		`{"type":"lease_broken","lease":"` + ids[0] + `","holder":"anna","weight":2,"reason":"db7 is down"}`,
		`{"type":"lease_broken","lease":"` + ids[1] + `","holder":"anna","weight":2,"reason":"old"}`,
		`{"type":"semaphore_deleted","reason":"old"}`,
	} {
		var m map[string]any
		if err := json.Unmarshal([]byte(want), &m); err != nil {
			t.Fatal(err)
		}
		m["id"], m["at"], m["replica"], m["by"], m["address"], m["semaphore"] = "*", "*", s.engine.Replica(), "anonymous", "127.0.0.1", "db"
		id, got := next()
		if !alike(got, m) || id != got["id"] || !strings.HasPrefix(id, s.engine.Replica()+"-") {
			t.Errorf("%d: %s %v", i, id, got)
		}
	}
	log := logged.String()
	if strings.Count(log, "operator act") != 6 || !contains(log, "act=lease_broken", `reason="db7 is down"`, "request_id=the-first", "by=anonymous", "rev=2") {
		t.Error(log)
	}
	got := scrape(t, s)
	for act, want := range map[string]string{actDeclared: "2", actChanged: "1", actBroken: "2", actDeleted: "1"} {
		if n := got[`permitd_operator_acts_total{act="`+act+`"}`]; n != want {
			t.Errorf("%s: %s", act, n)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(log+fmt.Sprint(got), strings.SplitN(secret, ".", 2)[1]) {
			t.Error("a secret is told")
		}
	}
}

func TestEventsGoOnBehindTheLastThatWasHeardAndAGapIsSaid(t *testing.T) {
	t.Parallel()
	s := serve(t)
	next := s.follow(t, "")
	if _, v := next(); v["type"] != "started" {
		t.Errorf("%v", v)
	}
	if _, v := next(); v["type"] != "node_changed" || v["node"] != ":memory:" || v["state"] != "up" {
		t.Errorf("%v", v)
	}
	for i := range 5 {
		s.declare(t, fmt.Sprint("s", i), 1)
	}
	last := ""
	for range 3 {
		last, _ = next()
	}
	again := s.follow(t, "", "Last-Event-ID: "+last)
	if _, v := again(); v["semaphore"] != "s3" {
		t.Errorf("%v", v)
	}
	for range 2 * eventsMax {
		s.events.add(event{Type: eventTokens})
	}
	for _, test := range []struct {
		id     string
		missed any
	}{
		{last, float64(2*eventsMax + 2 - eventsMax)},
		{"0123456789abcdef-7", nil},
		{s.engine.Replica() + "-99999", nil},
		{"x", nil},
	} {
		behind := s.follow(t, "", "Last-Event-ID: "+test.id)
		if id, v := behind(); id != "" || v["type"] != "gap" || v["missed"] != test.missed {
			t.Errorf("%s: %v", test.id, v)
		}
		first, v := behind()
		if v["semaphore"] != nil {
			t.Errorf("%v", v)
		}
		for range eventsMax - 1 {
			last, _ := behind()
			first = max(first, last)
		}
		s.events.add(event{Type: eventLost, Lease: "x"})
		if _, v := behind(); v["lease"] != "x" {
			t.Errorf("%v", v)
		}
	}
	fresh := s.follow(t, "")
	if _, v := fresh(); v["type"] == "gap" {
		t.Error("nobody misses what was before")
	}
}

func TestEventsOfASemaphoreAreForThoseWhoseTokenNamesIt(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t, fileOfTokens)
	s := serve(t, func(c *Config) { c.Tokens = tokens })
	ops, eye := "Authorization: Bearer ops-token", "Authorization: Bearer eye-token"
	s.request("PUT", "/v1/semaphores/db", "limit=1", ops)
	s.request("PUT", "/v1/semaphores/ci%2Fa", "limit=1", ops)
	next := s.follow(t, "", eye)
	for {
		_, v := next()
		if v["semaphore"] == "db" {
			t.Error("the event of another semaphore is told")
		}
		if v["semaphore"] == "ci/a" {
			break
		}
	}
	for target, status := range map[string]int{"?semaphore=db": 403, "?semaphore=ci/a&x=1": 400} {
		if w := s.request("GET", "/v1/events"+target, "", eye); w.Code != status {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := s.request("HEAD", "/v1/events", "", eye); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if err := tokens.Replace([]byte(withoutCI)); err != nil {
		t.Fatal(err)
	}
	for _, v := next(); v != nil; _, v = next() {
		if v["semaphore"] != nil {
			t.Errorf("%v", v)
		}
	}
}

func TestALossIsAnEvent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
	id := w.expect("granted")["id"].(string)
	next := s.follow(t, "?semaphore=db")
	s.request("DELETE", "/v1/semaphores/db/leases/"+id, "")
	for {
		if _, v := next(); v["type"] == eventLost {
			if v["lease"] != id || v["reason"] != "broken" || v["by"] != "anonymous" {
				t.Errorf("%v", v)
			}
			return
		}
	}
}
