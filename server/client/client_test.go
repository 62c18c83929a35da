package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// against returns a client of a server that answers as h does.
func against(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	c, err := New(Config{URL: server.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c
}

func TestOnlyHTTPIsSpoken(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "here", "127.0.0.1:7707/x", "ftp://x", "http://", "http://[", "unix:///x"} {
		if _, err := New(Config{URL: url}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	if c, err := New(Config{URL: "127.0.0.1:7707"}); err != nil || c.base.String() != "http://127.0.0.1:7707" {
		t.Errorf("an address alone: %v, %v", c, err)
	}
}

func TestNamesAndParametersArriveAsGiven(t *testing.T) {
	t.Parallel()
	var target, body string
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		target, body = r.Method+" "+r.RequestURI+" "+r.Header.Get("If-Match"), string(text)
		_, _ = io.WriteString(w, `{"id":"a","lease":"a.b","validity_ms":1500,"state":"held","weight":1,"cooling_ms":20,"items":[],"next":null}`)
	})
	ctx := t.Context()
	for _, test := range []struct {
		call         func() error
		target, body string
	}{
		{func() error {
			_, err := c.Acquire(ctx, "team/db%2F", Ask{Permits: 2, Wait: time.Minute, TTL: Forever, Holder: "h", Priority: -1, Create: &Definition{Limit: 3}})
			return err
		}, "POST /v1/semaphores/team%2Fdb%252F/acquire ", `{"permits":2,"wait":"1m0s","ttl":"0","holder":"h","priority":-1,"create":{"limit":3}}`},
		{func() error { _, err := c.Acquire(ctx, "..", Ask{Wait: NoWait}); return err }, "POST /v1/semaphores/-/acquire?name=.. ", `{"wait":"0"}`},
		{func() error { _, err := c.Release(ctx, "db", "a.b", 1); return err }, "POST /v1/semaphores/db/release ", `{"lease":"a.b","keep":1}`},
		{func() error { _, err := c.Renew(ctx, "db", "a.b", 0); return err }, "POST /v1/semaphores/db/renew ", `{"lease":"a.b"}`},
		{func() error { _, err := c.Put(ctx, "db", Definition{Limit: 1}, 7); return err }, `PUT /v1/semaphores/db "7"`, `{"limit":1}`},
		{func() error { return c.Delete(ctx, "-", 0) }, "DELETE /v1/semaphores/-?name=- ", ``},
		{func() error { _, err := c.Leases(ctx, "."); return err }, "GET /v1/semaphores/-/leases?name=.&count=1000 ", ``},
		{func() error { _, err := c.Leases(ctx, "db"); return err }, "GET /v1/semaphores/db/leases?count=1000 ", ``},
		{func() error { _, _, err := c.Semaphores(ctx, "a b", "c", 5); return err }, "GET /v1/semaphores?after=c&count=5&prefix=a+b ", ``},
	} {
		if err := test.call(); err != nil || target != test.target || body != test.body {
			t.Errorf("%q %s, %v, want %q %s", target, body, err, test.target, test.body)
		}
	}
	released, err := c.Release(ctx, "db", "a.b", 1)
	if err != nil || released != (Released{ID: "a", Held: true, Weight: 1, Cooling: 20 * time.Millisecond}) {
		t.Errorf("%+v, %v", released, err)
	}
	lease, err := c.Renew(ctx, "db", "a.b", time.Second)
	if err != nil || lease.Validity != 1500*time.Millisecond || lease.Capability != "a.b" {
		t.Errorf("%+v, %v", lease, err)
	}
}

func TestProblemsKeepTheirWords(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(423)
		_, _ = io.WriteString(w, `{"kind":"no_permit","detail":"none is free","status":423,"limit":3,"in_use":3,"waiting":2,"ahead":1}`)
	})
	_, err := c.Acquire(t.Context(), "db", Ask{})
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Kind != NoPermit || p.Status != 423 || p.Limit != 3 || p.InUse != 3 || p.Waiting != 2 || p.Ahead != 1 ||
		p.RetryAfter != 7*time.Second || p.Error() != "no_permit: none is free" {
		t.Errorf("%+v", err)
	}
}

func TestWhatPermitdDidNotSayIsToldAsSuch(t *testing.T) {
	t.Parallel()
	for answer, status := range map[string]int{"<html>": 502, "{}": 500, "": 404, "[]": 400} {
		c := against(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		})
		p, ok := errors.AsType[*Problem](c.Ready(t.Context()))
		if !ok || p.Kind != "unexpected" || p.Status != status {
			t.Errorf("%q: %+v", answer, p)
		}
		if _, err := c.Dial(t.Context()); err == nil {
			t.Errorf("%q was taken for a channel", answer)
		}
	}
	c := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if _, err := c.Semaphore(t.Context(), "db"); err == nil {
		t.Error("<html> was taken for a semaphore")
	}
}

func TestWhoeverStopsWaitingHearsSo(t *testing.T) {
	t.Parallel()
	c := against(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Acquire(ctx, "db", Ask{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestALeaseWhoseValidityIsOverIsNotRevivedByARenewalReadLate(t *testing.T) {
	t.Parallel()
	ch := &Channel{holds: map[string]*Hold{}}
	late, early := newHold(ch, Lease{ID: "late", Validity: -time.Millisecond}), newHold(ch, Lease{ID: "early", Validity: time.Minute})
	ch.holds["late"], ch.holds["early"] = late, early
	var frame serverFrame
	if err := json.Unmarshal([]byte(`{"leases":[{"id":"late","validity_ms":60000},{"id":"early","validity_ms":120000}]}`), &frame); err != nil {
		t.Fatal(err)
	}
	ch.renewed(frame)
	if late.Valid() != 0 || late.Reason() == "" {
		t.Errorf("valid for %v, %q", late.Valid(), late.Reason())
	}
	if v := early.Valid(); v < time.Minute {
		t.Errorf("the other is valid for %v", v)
	}
}
