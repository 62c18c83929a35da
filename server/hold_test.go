package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

// held is a hold stream as a test reads it.
type held struct {
	t     *testing.T
	lines *bufio.Scanner
	leave context.CancelFunc
	*http.Response
}

// holds opens a hold stream; its client leaves with the test.
func (s *served) holds(t *testing.T, query string, headers ...string) *held {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/semaphores/db/hold?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	transport := &http.Transport{DialContext: s.dial}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	h := &held{t, bufio.NewScanner(response.Body), leave, response}
	t.Cleanup(func() {
		leave()
		_ = response.Body.Close() // it was cut
		transport.CloseIdleConnections()
	})
	return h
}

// line reads the next line; "" at the end.
func (h *held) line() string {
	if !h.lines.Scan() {
		return ""
	}
	return h.lines.Text()
}

// expect reads lines up to a frame of this type, which must be the next but for waiting and alive.
func (h *held) expect(want string) map[string]any {
	h.t.Helper()
	for {
		line := h.line()
		var f map[string]any
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			h.t.Fatalf("%q instead of %s: %v", line, want, err)
		}
		if err := checkFrame("server", f); err != nil {
			h.t.Errorf("%s: %v", line, err)
		}
		if _, tied := f["ref"]; tied {
			h.t.Errorf("a ref in %s", line)
		}
		switch f["type"] {
		case want:
			return f
		case "waiting", "alive":
		default:
			h.t.Fatalf("%s instead of %s", line, want)
		}
	}
}

func TestAHoldStreamHoldsAsLongAsItsClientIsThere(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	first := s.holds(t, "holder=anna&ttl=3s")
	f := first.expect("granted")
	if f["holder"] != "anna" || f["semaphore"] != "db" || f["ttl_ms"] != 3000.0 || !strings.HasPrefix(f["lease"].(string), f["id"].(string)) {
		t.Errorf("%v", f)
	}
	h := first.Header
	if first.StatusCode != 200 || h.Get("Content-Type") != "application/x-ndjson" || h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", h)
	}
	if leases, err := s.client.Leases(t.Context(), "db"); err != nil || len(leases) != 1 || leases[0].Via != "hold" {
		t.Errorf("%+v, %v", leases, err)
	}
	second := s.holds(t, "wait=1h")
	if f := second.expect("waiting"); f["ahead"] != 0.0 {
		t.Errorf("%v", f)
	}
	if f := first.expect("renewed"); len(f["leases"].([]any)) != 1 {
		t.Errorf("%v", f)
	}
	first.leave()
	lease := second.expect("granted")["lease"].(string)
	if _, err := s.client.Release(t.Context(), "db", lease, 0); err != nil {
		t.Error(err)
	}
	second.leave()
	eventually(t, "nothing is held", func() bool { return s.inUse(t) == 0 })
}

func TestAHoldStreamInTextIsForScripts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		if _, err := s.client.Put(t.Context(), "db", client.Definition{Limit: 1, HoldMax: "65s"}, 0); err != nil {
			t.Fatal(err)
		}
		h := s.holds(t, "ttl=60s", "Accept: text/plain")
		word, lease, _ := strings.Cut(h.line(), " ")
		if id, mac, found := strings.Cut(lease, "."); word != "granted" || !found || len(id) != 16 || mac == "" {
			t.Errorf("%s %s", word, lease)
		}
		var words []string
		start := time.Now()
		for line := h.line(); line != ""; line = h.line() {
			fields := strings.Fields(line)
			words = append(words, fields[0])
			if quiet := time.Since(start); quiet > aliveAfter+time.Millisecond {
				t.Errorf("nothing was heard for %v before %s", quiet, line)
			}
			start = time.Now()
			if fields[0] == "lost" && line != "lost expired" || fields[0] == "expiring" && fields[2] != "hold_max" {
				t.Error(line)
			}
		}
		if got := strings.Join(words, " "); !strings.HasPrefix(got, "alive renewed alive renewed alive renewed alive") || !contains(got, "expiring") || words[len(words)-1] != "lost" {
			t.Error(got)
		}
	})
}

func TestRefusalsBeforeWaitingKeepTheirStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{}); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]struct {
		status int
		kind   string
	}{
		"/v1/semaphores/db/hold?wait=0":         {423, "no_permit"},
		"/v1/semaphores/db/hold?wait=50ms":      {423, "no_permit"},
		"/v1/semaphores/db/hold?permits=2":      {422, "weight_exceeds_limit"},
		"/v1/semaphores/none/hold":              {404, "unknown_semaphore"},
		"/v1/semaphores/db/hold?ttl=0":          {400, "bad_request"},
		"/v1/semaphores/db/hold?ttl=2h":         {400, "bad_request"},
		"/v1/semaphores/db/hold?wait=25h":       {400, "bad_request"},
		"/v1/semaphores/db/hold?grace=1":        {400, "bad_request"},
		"/v1/semaphores/db/hold?wait=1s&wait=1": {400, "bad_request"},
	} {
		if w := s.request("POST", target, ""); w.Code != want.status || members(t, w)["kind"] != want.kind {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := s.request("GET", "/v1/semaphores/db/hold", ""); w.Code != 405 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	h := s.holds(t, "wait=400ms")
	h.expect("waiting")
	if f := h.expect("refused"); f["kind"] != "no_permit" || f["status"] != 423.0 || f["in_use"] != 1.0 {
		t.Errorf("%v", f)
	}
	if line := h.line(); line != "" {
		t.Errorf("after the end: %s", line)
	}
}

func TestAHoldStreamEndsWithItsLease(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	h := s.holds(t, "")
	id := h.expect("granted")["id"].(string)
	if w := s.request("DELETE", "/v1/semaphores/db/leases/"+id, ""); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if f := h.expect("lost"); f["id"] != id || f["reason"] != "broken" {
		t.Errorf("%v", f)
	}
	if line := h.line(); line != "" {
		t.Errorf("after the end: %s", line)
	}
}

func TestARestartLeavesTheLeaseOfAHoldStreamToItsTTL(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	h := s.holds(t, "")
	h.expect("granted")
	waiter := s.holds(t, "wait=1h")
	waiter.expect("waiting")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if f := waiter.expect("refused"); f["kind"] != "draining" {
		t.Errorf("%v", f)
	}
	if f := h.expect("draining"); f["reconnect_after_ms"].(float64) < 500 {
		t.Errorf("%v", f)
	}
	if line := h.line(); line != "" || h.lines.Err() != nil {
		t.Errorf("after the end: %s %v", line, h.lines.Err())
	}
}

func TestATokenThatIsTakenAwayEndsAHoldStream(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t, fileOfTokens)
	s := serve(t, func(c *Config) { c.Tokens = tokens })
	s.request("PUT", "/v1/semaphores/db", "limit=1", "Authorization: Bearer ops-token")
	h := s.holds(t, "", "Authorization: Bearer ci-token")
	h.expect("granted")
	if err := tokens.Replace([]byte(withoutCI)); err != nil {
		t.Fatal(err)
	}
	if f := h.expect("error"); f["kind"] != "unauthenticated" {
		t.Errorf("%v", f)
	}
	if w := s.request("POST", "/v1/semaphores/db/acquire", "wait=10s", "Authorization: Bearer ops-token"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The body is read to its end first: until then the server would not see the client leave.
func TestAClientThatLeavesAfterABodyIsSeen(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/semaphores/db/hold", io.NopCloser(bytes.NewReader([]byte(`{"wait":"5s"}`))))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is held", func() bool { return s.inUse(t) == 1 })
	leave()
	_ = response.Body.Close() // it was cut
	eventually(t, "it is released", func() bool { return s.inUse(t) == 0 })
	transport.CloseIdleConnections()
}
