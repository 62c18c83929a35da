package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

func TestEveryErrorOfTheEngineHasItsProblem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status int
		kind   string
		extra  string
	}{
		{engine.ErrUnknownSemaphore, 404, "unknown_semaphore", `{"detail":"there is no such semaphore; declare it (PUT), or ask for a permit with create"}`},
		{engine.ErrQuorumUnavailable, 503, "quorum_unavailable", `{}`},
		{engine.ErrNotConfirmed, 503, "quorum_unavailable", `{"detail":"not confirmed by a quorum yet; the server keeps trying"}`},
		{engine.ErrInProgress, 503, "quorum_unavailable", `{}`},
		{engine.ErrDraining, 503, "draining", `{}`},
		{engine.ErrTooManyWaiters, 429, "too_many_waiters", `{}`},
		{engine.ErrRevMismatch, 412, "rev_mismatch", `{}`},
		{engine.ErrSemaphoreInUse, 409, "semaphore_in_use", `{"detail":"the semaphore has holders; break=true breaks their leases"}`},
		{engine.ErrUnknownLease, 404, "unknown_lease", `{}`},
		{engine.ErrLeaseExpired, 410, "lease_expired", `{}`},
		{engine.ErrLeaseReleased, 410, "lease_released", `{}`},
		{engine.ErrLeaseBroken, 410, "lease_broken", `{}`},
		{&engine.WeightError{Requested: 3, Weight: 6, Limit: 5}, 422, "weight_exceeds_limit", `{"requested":3,"weight":6,"limit":5}`},
		{
			&engine.DefinitionConflict{Yours: engine.Definition{Limit: 1}, Existing: engine.Definition{Limit: 2, TTL: time.Minute}}, 409, "definition_conflict",
			`{"yours":{"limit":1,"ttl":"0s","ttl_max":"0s","max_waiters":0,"min_hold":"0s","hold_max":"0s","priority_step":"0s","paused":false,"description":""},
			"existing":{"limit":2,"ttl":"1m","ttl_max":"0s","max_waiters":0,"min_hold":"0s","hold_max":"0s","priority_step":"0s","paused":false,"description":""}}`,
		},
		{&engine.InvalidError{Field: "ttl", Detail: "must be 1s to 1h"}, 400, "bad_request", `{"field":"ttl"}`},
		{invalidDefinition(&engine.InvalidError{Field: "ttl", Detail: "must be 1s to 1h"}), 422, "invalid_definition", `{"field":"ttl"}`},
		{noPermit(engine.Refusal{Limit: 3, InUse: 3, RetryAfter: 1500 * time.Millisecond}), 423, "no_permit", `{"limit":3,"in_use":3,"waiting":0,"ahead":0,"retry_after_ms":1500}`},
		{
			noPermit(engine.Refusal{Limit: 1, Resting: 33400 * time.Millisecond, RetryAfter: 34 * time.Second}), 423, "no_permit",
			`{"limit":1,"in_use":0,"waiting":0,"ahead":0,"retry_after_ms":34000,"detail":"0 of 1 permits are in use and 0 wait; ` +
				`nothing is granted for another 33s, until leases that the nodes may have forgotten have ended"}`,
		},
		{
			noPermit(engine.Refusal{Limit: 2, InUse: 5, Waiting: 1, RetryAfter: time.Second}), 423, "no_permit", `{"limit":2,"in_use":5,"waiting":1,"ahead":0,` +
				`"retry_after_ms":1000,"detail":"5 permits are in use, and the limit is 2 by now: nothing is granted until fewer are; 1 wait"}`,
		},
		{echo.ErrNotFound, 404, "not_found", `{}`},
		{echo.ErrMethodNotAllowed, 405, "method_not_allowed", `{}`},
		{echo.ErrTeapot, 500, "internal", `{}`},
		{errors.New("a secret of the inside"), 500, "internal", `{}`},
	} {
		p := problemOf(fmt.Errorf("wrapped: %w", test.err))
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(test.extra), &want)); err != nil {
			t.Fatal(err)
		}
		for _, common := range []string{"type", "title", "status", "kind", "detail"} {
			if got[common] == nil || got[common] == "" {
				t.Errorf("%v: no %s in %s", test.err, common, text)
			}
			if want[common] == nil {
				delete(got, common)
			}
		}
		if p.Status != test.status || p.Kind != test.kind || !alike(got, want) {
			t.Errorf("%v: %s", test.err, text)
		}
	}
}

// 1,000 refusals in a second must not come back together, and curl takes 0 as absent.
func TestRetryAfterIsJitteredAndWithinItsBounds(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{0, time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, time.Hour} {
		seen := map[int]bool{}
		for range 1000 {
			after := noPermit(engine.Refusal{RetryAfter: hint}).retryAfter()
			if after < 1 || after > 30 {
				t.Fatalf("%v: %d", hint, after)
			}
			seen[after] = true
		}
		if hint >= 10*time.Second && len(seen) < 5 {
			t.Errorf("%v: only %d values", hint, len(seen))
		}
	}
	if p := problemOf(engine.ErrLeaseExpired); p.retryAfter() != 0 {
		t.Error("an expired lease does not come back")
	}
	if p := problemOf(engine.ErrDraining); p.retryAfter() == 0 {
		t.Error("a draining server does")
	}
}

func TestAPanicIsAnsweredAndItsStackLogged(t *testing.T) {
	t.Parallel()
	var logged logLines
	s := serve(t, func(c *Config) { c.Log = logged.logger() })
	s.echo.GET("/panic", func(echo.Context) error { panic("a broken invariant") })
	w := s.request(http.MethodGet, "/panic", "")
	got := members(t, w)
	if w.Code != 500 || got["kind"] != "internal" || got["request_id"] != w.Header().Get("X-Request-Id") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if text := logged.String(); !contains(text, "a broken invariant", "problem_test.go", got["request_id"].(string)) || contains(w.Body.String(), "invariant") {
		t.Errorf("%s\n%s", text, w.Body)
	}
}

func TestTheLogHearsOfInternalErrorsOnly(t *testing.T) {
	t.Parallel()
	var logged logLines
	s := serve(t, func(c *Config) { c.Log = logged.logger() })
	s.request(http.MethodGet, "/nowhere", "")
	s.request(http.MethodPost, "/v1/semaphores/db/acquire", "x=1")
	if logged.String() != "" {
		t.Error(logged.String())
	}
}

func TestTextIsAskedForByWhatComesFirst(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": true, "TEXT/PLAIN;q=0.9": true, "application/json, text/plain": false,
		"text/plain, application/json": true, "text/html, text/plain": true, "application/problem+json,text/plain": false, "text/plainish": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		if wantsText(r) != want {
			t.Errorf("%q", accept)
		}
	}
}
