package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/server/client"
)

// members reads a JSON object.
func members(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
	return m
}

func TestAllThatIsFreeIsTakenOrNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 5)
	s.mustAcquire(t)
	const acquire = "/v1/semaphores/db/acquire"
	for _, body := range []string{"permits=all_free", `{"permits":"all_free","wait":0}`} {
		w := s.request("POST", acquire, body)
		got := members(t, w)
		if w.Code != 200 || got["weight"] != 4.0 || got["requested"] != 4.0 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
		if w := s.request("POST", acquire, body); w.Code != 423 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
		s.request("POST", "/v1/semaphores/db/release", "lease="+got["lease"].(string))
	}
	if w := s.request("POST", acquire, "permits=all_free&wait=5s"); w.Code != 400 || members(t, w)["field"] != "wait" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db","permits":"all_free"}`)
	f := w.expect("granted")
	if f["weight"] != 4.0 {
		t.Errorf("%v", f)
	}
	w.send(`{"type":"release","ref":"2","lease":"%s"}`, f["lease"])
	w.expect("released")
	if l, err := s.client.Acquire(t.Context(), "db", client.Ask{Permits: client.AllFree}); err != nil || l.Weight != 4 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestAcquireRenewAndReleaseOverREST(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	lease, err := s.client.Acquire(ctx, "db", client.Ask{Permits: 2, TTL: time.Minute, Holder: "anna", Create: &client.Definition{Limit: 3}})
	if err != nil {
		t.Fatal(err)
	}
	id, mac, _ := strings.Cut(lease.Capability, ".")
	if id != lease.ID || len(id) != 16 || mac == "" || lease.Semaphore != "db" || lease.Requested != 2 || lease.Weight != 2 ||
		lease.Fence < 1 || lease.Holder != "anna" || lease.TTL != time.Minute || lease.RenewAfter != 20*time.Second ||
		lease.Validity <= 50*time.Second || lease.Validity >= time.Minute {
		t.Errorf("%+v", lease)
	}
	if got := s.inUse(t); got != 2 {
		t.Errorf("%d in use", got)
	}
	renewed, err := s.client.Renew(ctx, "db", lease.Capability, 2*time.Minute)
	if err != nil || renewed.ID != lease.ID || renewed.Validity <= time.Minute || renewed.Slots != lease.Slots || renewed.Fence != lease.Fence {
		t.Errorf("%+v, %v", renewed, err)
	}
	part, err := s.client.Release(ctx, "db", lease.Capability, 1)
	if err != nil || part != (client.Released{ID: lease.ID, Held: true, Weight: 1}) {
		t.Errorf("%+v, %v", part, err)
	}
	for range 3 { // as often as one likes
		released, err := s.client.Release(ctx, "db", lease.Capability, 0)
		if err != nil || released != (client.Released{ID: lease.ID}) {
			t.Errorf("%+v, %v", released, err)
		}
	}
	if got := s.inUse(t); got != 0 {
		t.Errorf("%d in use", got)
	}
	if _, err := s.client.Renew(ctx, "db", lease.Capability, 0); !isKind(err, "lease_released") {
		t.Error(err)
	}
}

// isKind reports whether an error of the client is a problem of this kind.
func isKind(err error, kind string) bool {
	p, ok := err.(*client.Problem)
	return ok && p.Kind == kind
}

func TestTheAnswersHaveTheShapeOfTheAPI(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const db = "/v1/semaphores/db"
	for _, test := range []struct {
		name, method, target, body string
		status                     int
		want                       string // a JSON object; "*" stands for any value
	}{
		{
			"declared", "PUT", db, `{"limit":10,"description":"d"}`, 201,
			`{"name":"db","rev":1,"declared":true,"changed_at":"*","changed_by":"anonymous","definition":{"limit":10,"ttl":"30s","ttl_max":"1h",
			"max_waiters":100000,"min_hold":"0s","hold_max":"0s","priority_step":"10s","paused":false,"description":"d"},
			"status":{"in_use":0,"cooling":0,"available":10,"over_committed":0,"waiting":0,"oldest_wait_ms":0,"granted_total":0,"stalled":false}}`,
		},
		{
			"granted", "POST", db + "/acquire", `permits=2&holder=anna`, 200,
			`{"lease":"*","id":"*","semaphore":"db","requested":2,"weight":2,"slots":"*","fence":"*","holder":"anna","ttl_ms":30000,
			"validity_ms":"*","renew_after_ms":10000,"replayed":false}`,
		},
		{
			"granted until released", "POST", db + "/acquire", `{"ttl":0}`, 200,
			`{"lease":"*","id":"*","semaphore":"db","requested":1,"weight":1,"slots":"*","fence":"*","holder":"anonymous@127.0.0.1","replayed":false}`,
		},
		{
			"refused", "POST", db + "/acquire", `permits=8&wait=0`, 423,
			`{"type":"/problems#no_permit","title":"*","status":423,"kind":"no_permit","detail":"*","limit":10,"in_use":3,"waiting":0,"ahead":0,"retry_after_ms":"*"}`,
		},
		{
			"too heavy", "POST", db + "/acquire", `permits=11`, 422,
			`{"type":"/problems#weight_exceeds_limit","title":"*","status":422,"kind":"weight_exceeds_limit","detail":"*","requested":11,"weight":11,"limit":10}`,
		},
		{
			"listed", "GET", "/v1/semaphores", "", 200, `{"items":"*","next":null}`,
		},
		{
			"nodes", "GET", "/v1/nodes", "", 200,
			`{"quorum":1,"items":[{"node":"*","index":0,"state":"up","since":"*","era":"*","clock_offset_ms":"*","latency_ms":"*"}]}`,
		},
		{"healthy", "GET", "/healthz", "", 200, `{"status":"ok","version":"test"}`},
		{"ready", "GET", "/readyz", "", 200, `{"status":"ready","quorum":1,"voting":1,"nodes":1}`},
	} {
		w := s.request(test.method, test.target, test.body)
		var want map[string]any
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(test.name, err)
		}
		if got := members(t, w); w.Code != test.status || !alike(got, want) {
			t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
		}
	}
	w := s.request("GET", db+"/leases", "")
	items := members(t, w)["items"].([]any)
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"id":"*","semaphore":"db","weight":2,"slots":"*","fence":"*","holder":"anna","principal":"anonymous",
		"address":"127.0.0.1","via":"http","state":"held","granted_at":"*","age_ms":"*","expires_in_ms":"*"}`), &want); err != nil {
		t.Fatal(err)
	}
	if len(items) != 2 || !alike(items[0], want) {
		t.Errorf("%s", w.Body)
	}
}

// alike compares what JSON says; "*" in want stands for anything.
func alike(got, want any) bool {
	if want == "*" {
		return true
	}
	g, ok1 := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	if ok1 && ok2 {
		for name := range w {
			if v, there := g[name]; !there || !alike(v, w[name]) {
				return false
			}
		}
		return len(g) == len(w)
	}
	gl, ok1 := got.([]any)
	wl, ok2 := want.([]any)
	if ok1 && ok2 && len(gl) == len(wl) {
		for i := range gl {
			if !alike(gl[i], wl[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func TestADefinitionAsReadCanBePutBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.request("PUT", "/v1/semaphores/db", `{"limit":3,"ttl":"90s","ttl_max":"1h30m","min_hold":"250ms","hold_max":"12h","priority_step":"0s"}`)
	s.request("PUT", "/v1/semaphores/db", `limit=3&ttl=90s&ttl_max=1h30m&min_hold=250ms&hold_max=12h&paused=true&description=x`)
	before := s.request("GET", "/v1/semaphores/db", "")
	definition, err := json.Marshal(members(t, before)["definition"])
	if err != nil {
		t.Fatal(err)
	}
	if w := s.request("PUT", "/v1/semaphores/db", string(definition)); w.Code != 200 || w.Header().Get("ETag") != before.Header().Get("ETag") {
		t.Errorf("%d %s, before %s", w.Code, w.Body, before.Body)
	}
}

func TestConditionsOfAChange(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const db = "/v1/semaphores/db"
	for i, test := range []struct {
		method, body, header string
		status               int
		etag                 string
	}{
		{"PUT", "limit=1", `If-Match: "1"`, 412, ""},
		{"PUT", "limit=1", `If-None-Match: *`, 201, `"1"`},
		{"PUT", "limit=2", `If-None-Match: *`, 412, ""},
		{"PUT", "limit=2", `If-Match: "1"`, 200, `"2"`},
		{"PUT", "limit=2", `If-Match: "1"`, 200, `"2"`}, // sent again, it answers as the first time
		{"PUT", "limit=3", `If-Match: "1"`, 412, ""},
		{"PUT", "limit=3", `If-Match: 2`, 400, ""},
		{"PUT", "limit=3", `If-Match: W/"2"`, 400, ""},
		{"PUT", "limit=3", `If-Match: *`, 400, ""},
		{"PUT", "limit=3", `If-Match: "1", "2"`, 400, ""},
		{"PUT", "limit=3", `If-Match: "02"`, 400, ""},
		{"PUT", "limit=3", `If-None-Match: "2"`, 400, ""},
		{"PATCH", "limit=2", `If-Match: "1"`, 200, `"2"`},
		{"PATCH", "limit=3", `If-Match: "1"`, 412, ""},
		{"PATCH", "limit=3", `If-Match: "9"`, 412, ""},
		{"PATCH", "limit=3", `If-Match: 2`, 400, ""},
		{"PATCH", "limit=3", `If-None-Match: *`, 400, ""},
		{"GET", "", "", 200, `"2"`},
		{"HEAD", "", "", 200, `"2"`},
		{"DELETE", "", `If-None-Match: *`, 400, ""},
		{"DELETE", "", `If-Match: "1"`, 412, ""},
		{"DELETE", "", `If-Match: "2"`, 204, ""},
		{"DELETE", "", `If-Match: "2"`, 204, ""},
		{"DELETE", "", "", 404, ""},
		{"PATCH", "limit=3", "", 404, ""},
		{"GET", "", "", 404, ""},
	} {
		headers := []string{"X-Nothing: 1"}
		if test.header != "" {
			headers = append(headers, test.header)
		}
		w := s.request(test.method, db, test.body, headers...)
		if w.Code != test.status || test.etag != "" && w.Header().Get("ETag") != test.etag {
			t.Errorf("%d: %s %s %s: %d %s %s", i, test.method, test.body, test.header, w.Code, w.Header().Get("ETag"), w.Body)
		}
	}
	w := s.request("PUT", db, "limit=3", `If-Match: "1"`, `If-None-Match: *`)
	if w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestEveryRefusalIsAProblem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const db = "/v1/semaphores/db"
	s.declare(t, "db", 2)
	s.request("POST", "/v1/semaphores/made/acquire", "create=1")
	for _, test := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
		kind, field                string
	}{
		{"no such path", "GET", "/v2", "", nil, 404, "not_found", ""},
		{"no such path below", "POST", db + "/take", "", nil, 404, "not_found", ""},
		{"no such method", "PATCH", "/v1/nodes", "", nil, 405, "method_not_allowed", ""},
		{"acquire by GET", "GET", db + "/acquire", "", nil, 405, "method_not_allowed", ""},
		{"no such semaphore", "GET", "/v1/semaphores/none", "", nil, 404, "unknown_semaphore", ""},
		{"acquire of no such semaphore", "POST", "/v1/semaphores/none/acquire", "", nil, 404, "unknown_semaphore", ""},
		{"leases of no such semaphore", "GET", "/v1/semaphores/none/leases", "", nil, 404, "unknown_semaphore", ""},
		{"no name", "GET", "/v1/semaphores/", "", nil, 400, "bad_request", "name"},
		{"no name before acquire", "POST", "/v1/semaphores//acquire", "", nil, 400, "bad_request", "name"},
		{"a control character", "PUT", "/v1/semaphores/a%00b", "limit=1", nil, 400, "bad_request", "name"},
		{"a name too long", "PUT", "/v1/semaphores/" + strings.Repeat("x", 201), "limit=1", nil, 400, "bad_request", "name"},
		{"a dash alone", "GET", "/v1/semaphores/-", "", nil, 400, "bad_request", "name"},
		{"unknown parameter", "POST", db + "/acquire", "prmits=1", nil, 400, "bad_request", "prmits"},
		{"unknown parameter of a read", "GET", db + "?x=1", "", nil, 400, "bad_request", "x"},
		{"unknown parameter of a list", "GET", "/v1/semaphores?x=1", "", nil, 400, "bad_request", "x"},
		{"unknown parameter of the nodes", "GET", "/v1/nodes?x=1", "", nil, 400, "bad_request", "x"},
		{"a count of none", "GET", "/v1/semaphores?count=0", "", nil, 400, "bad_request", "count"},
		{"a count too large", "GET", db + "/leases?count=1001", "", nil, 400, "bad_request", "count"},
		{"a cursor of nobody", "GET", db + "/leases?after=x", "", nil, 400, "bad_request", "after"},
		{"a policy that there is not", "PUT", db, `{"limit":1,"policy":{"name":"x"}}`, nil, 422, "unknown_policy", ""},
		{"no limit", "PUT", db, `{}`, nil, 422, "invalid_definition", "limit"},
		{"a limit of none", "PUT", db, `limit=0`, nil, 422, "invalid_definition", "limit"},
		{"a limit below none", "PUT", db, `limit=-1`, nil, 422, "invalid_definition", "limit"},
		{"a limit too large", "PUT", db, `limit=1000001`, nil, 422, "invalid_definition", "limit"},
		{"a limit of no size", "PUT", db, `limit=9223372036854775807`, nil, 400, "bad_request", "limit"},
		{"a limit in words", "PUT", db, `{"limit":"3"}`, nil, 400, "bad_request", "limit"},
		{"a ttl beyond its maximum", "PUT", db, `{"limit":1,"ttl":"2m","ttl_max":"1m"}`, nil, 422, "invalid_definition", "ttl"},
		{"a ttl of 0", "PUT", db, `{"limit":1,"ttl":0}`, nil, 422, "invalid_definition", "ttl"},
		{"no waiters", "PUT", db, `{"limit":1,"max_waiters":0}`, nil, 422, "invalid_definition", "max_waiters"},
		{"a description too long", "PUT", db, "limit=1&description=" + strings.Repeat("x", 1001), nil, 400, "bad_request", "description"},
		{"an odd flag", "PUT", db, `limit=1&paused=yes`, nil, 400, "bad_request", "paused"},
		{"too heavy", "POST", db + "/acquire", "permits=3", nil, 422, "weight_exceeds_limit", ""},
		{"a ttl beyond the semaphore's", "POST", db + "/acquire", "ttl=2h", nil, 400, "bad_request", "ttl"},
		{"a null", "PUT", db, `{"limit":1,"ttl":null}`, nil, 400, "bad_request", "ttl"},
		{"no limit any more", "PATCH", db, `{"limit":null}`, nil, 422, "invalid_definition", "limit"},
		{"a ttl of 0 in a patch", "PATCH", db, `{"ttl":0}`, nil, 422, "invalid_definition", "ttl"},
		{"a patch of what is not known", "PATCH", db, `{"limt":1}`, nil, 400, "bad_request", "limt"},
		{"a patch that is no object", "PATCH", db, `[{"op":"replace"}]`, nil, 400, "bad_request", ""},
		{"a patch of no semaphore", "PATCH", "/v1/semaphores/none", `{"limit":1}`, nil, 404, "unknown_semaphore", ""},
		{"a deletion of what has holders", "DELETE", "/v1/semaphores/made", "", nil, 409, "semaphore_in_use", ""},
		{"an odd break", "DELETE", db + "?break=1", "", nil, 400, "bad_request", "break"},
		{"a reason in two lines", "DELETE", db + "?reason=a%0Ab", "", nil, 400, "bad_request", "reason"},
		{"a break of nobody's lease", "DELETE", db + "/leases/aaaaaaaaaaaaaaaa", "", nil, 404, "unknown_lease", ""},
		{"a break of no lease", "DELETE", db + "/leases/", "", nil, 404, "not_found", ""},
		{"a break for too long a reason", "DELETE", db + "/leases/aaaaaaaaaaaaaaaa?reason=" + strings.Repeat("x", 201), "", nil, 400, "bad_request", "reason"},
		{"an odd age", "GET", "/v1/leases?older_than=5", "", nil, 400, "bad_request", "older_than"},
		{"a cursor of somewhere else", "GET", "/v1/leases?after=1.x", "", nil, 400, "bad_request", "after"},
		{"another definition", "POST", "/v1/semaphores/made/acquire", "create=2", nil, 409, "definition_conflict", ""},
		{"a key that is none", "POST", db + "/acquire", "", []string{"Idempotency-Key: a/b"}, 400, "bad_request", "key"},
		{"a key twice", "POST", db + "/acquire", "key=1", []string{"Idempotency-Key: 1"}, 400, "bad_request", "key"},
		{"a ticket that is none", "POST", db + "/acquire", "ticket=x", nil, 422, "bad_ticket", ""},
		{"grace that is too long", "POST", db + "/hold", "grace=11m", nil, 400, "bad_request", "grace"},
		{"no lease", "POST", db + "/release", "", nil, 400, "bad_request", "lease"},
		{"no lease to renew", "POST", db + "/renew", "ttl=5s", nil, 400, "bad_request", "lease"},
		{"a lease of nobody", "POST", db + "/release", "lease=aaaaaaaaaaaaaaaa.bbbb", nil, 404, "unknown_lease", ""},
		{"a lease of nobody to renew", "POST", db + "/renew", "lease=x", nil, 404, "unknown_lease", ""},
		{"keep below none", "POST", db + "/release", "lease=x&keep=-1", nil, 400, "bad_request", "keep"},
		{"too large", "POST", db + "/acquire", strings.Repeat("x", bodyMax+1), nil, 413, "too_large", ""},
		{"a compressed body", "POST", db + "/acquire", "\x1f\x8b\x08", []string{"Content-Encoding: gzip"}, 415, "unsupported_encoding", ""},
		{"a form of parts", "POST", db + "/acquire", "--x", []string{"Content-Type: multipart/form-data; boundary=x"}, 400, "bad_request", ""},
		{"another host", "GET", "/healthz", "", []string{"Host: evil.example"}, 421, "wrong_host", ""},
		{"another host that looks local", "GET", "/healthz", "", []string{"Host: localhost.evil.example:7707"}, 421, "wrong_host", ""},
		{"an address that is not local", "GET", "/healthz", "", []string{"Host: 10.0.0.1"}, 421, "wrong_host", ""},
		{"no host", "GET", "/healthz", "", []string{"Host: "}, 421, "wrong_host", ""},
		{"a page of another origin", "POST", db + "/acquire", "", []string{"Origin: http://evil.example"}, 403, "origin_refused", ""},
		{"a page of another site", "POST", db + "/acquire", "", []string{"Sec-Fetch-Site: cross-site"}, 403, "origin_refused", ""},
		{"a channel for a page of another origin", "GET", "/v1/ws", "", []string{"Origin: http://evil.example"}, 403, "origin_refused", ""},
		{"a channel without an upgrade", "GET", "/v1/ws", "", nil, 400, "bad_request", ""},
	} {
		w := s.request(test.method, test.target, test.body, test.headers...)
		got := members(t, w)
		field, _ := got["field"].(string)
		if w.Code != test.status || got["kind"] != test.kind || field != test.field || got["status"] != float64(test.status) {
			t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
		}
		h := w.Header()
		if h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || h.Get("X-Request-Id") == "" ||
			got["title"] == "" || got["type"] != "/problems#"+test.kind {
			t.Errorf("%s: %v %s", test.name, h, w.Body)
		}
		if test.status == 405 && h.Get("Allow") == "" {
			t.Errorf("%s: no Allow", test.name)
		}
		text := s.request(test.method, test.target, test.body, append(test.headers, "Accept: text/plain")...)
		if text.Code != test.status || !strings.HasPrefix(text.Body.String(), test.kind+": ") || strings.Count(text.Body.String(), "\n") != 1 {
			t.Errorf("%s as text: %d %q", test.name, text.Code, text.Body)
		}
	}
	if got := s.inUse(t); got != 0 {
		t.Errorf("%d in use after refusals only", got)
	}
}

func TestLocalNamesAreServed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, host := range []string{"localhost", "LOCALHOST:7707", "localhost.", "a.localhost:1", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:7707"} {
		if w := s.request("GET", "/healthz", "", "Host: "+host); w.Code != 200 {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
	open := serve(t, func(c *Config) { c.LocalOnly = false })
	if w := open.request("GET", "/healthz", "", "Host: permitd.example"); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
}

func TestPagesOfOwnOriginMayAsk(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	for _, header := range []string{"Origin: http://127.0.0.1:7707", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} {
		if w := s.request("POST", "/v1/semaphores/db/acquire", "permits=1&ttl=1s&wait=0", header); w.Code == 403 {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
	}
}

func TestHEADIsServedWhereGETIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	for _, target := range []string{
		"/healthz", "/readyz", "/metrics", "/problems", "/v1/nodes", "/v1/semaphores", "/v1/semaphores/db", "/v1/semaphores/db/leases",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.url+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 200 {
			t.Errorf("%s: %d", target, response.StatusCode)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Who has only the address finds the documents.
func TestTheRootLeadsToTheDocs(t *testing.T) {
	t.Parallel()
	w := serve(t).request("GET", "/", "")
	if w.Code != http.StatusFound || w.Header().Get("Location") != "/docs" || !strings.Contains(w.Body.String(), "/docs") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestPlainTextIsForScripts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const db, text = "/v1/semaphores/db", "Accept: text/plain"
	s.declare(t, "db", 3)
	if w := s.request("GET", "/v1/semaphores", "", text); w.Body.String() != "db\t3\t0\t0\t3\t0\t1\n" {
		t.Errorf("%q", w.Body)
	}
	w := s.request("POST", db+"/acquire", "permits=2&holder=anna", text)
	lease := strings.TrimSuffix(w.Body.String(), "\n")
	if id, mac, found := strings.Cut(lease, "."); w.Code != 200 || !found || len(id) != 16 || mac == "" || strings.ContainsAny(lease, " \n") {
		t.Fatalf("%d %q", w.Code, w.Body)
	}
	row := strings.Split(s.request("GET", db+"/leases", "", text).Body.String(), "\t")
	if len(row) != 9 || row[0] != "db" || !strings.HasPrefix(lease, row[1]) || row[2] != "2" || row[4] != "anna" || row[5] != "held" || row[8] != "http\n" {
		t.Errorf("%q", row)
	}
	if w := s.request("POST", db+"/renew", "lease="+lease, text); w.Code != 200 || !strings.HasPrefix(w.Body.String(), "renewed 2") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := s.request("POST", db+"/release", "keep=1&lease="+lease, text); w.Body.String() != "held\n" {
		t.Errorf("%q", w.Body)
	}
	if w := s.request("POST", db+"/release", "lease="+lease, text); w.Body.String() != "released\n" {
		t.Errorf("%q", w.Body)
	}
	if w := s.request("GET", "/v1/nodes", "", text); w.Body.String() != ":memory:\tup\t\n" {
		t.Errorf("%q", w.Body)
	}
	for target, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n", db: "db\t3\t0\t0\t3\t0\t1\n"} {
		if w := s.request("GET", target, "", text); w.Body.String() != want || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %q", target, w.Body)
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, name := range []string{"a", "b/1", "b/2", "b/3", "c"} {
		s.declare(t, name, 3)
	}
	var got []string
	pages, after := 0, ""
	for {
		list, next, err := s.client.Semaphores(t.Context(), "b/", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, sem := range list {
			got = append(got, sem.Name)
		}
		if after = next; after == "" {
			break
		}
	}
	if pages != 2 || strings.Join(got, " ") != "b/1 b/2 b/3" {
		t.Errorf("%d pages: %v", pages, got)
	}
	for range 3 {
		if _, err := s.client.Acquire(t.Context(), "a", client.Ask{}); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[any]bool{}
	target := "/v1/semaphores/a/leases?count=1"
	for page := range 3 {
		m := members(t, s.request("GET", target, ""))
		items := m["items"].([]any)
		ids[items[0].(map[string]any)["id"]] = true
		if next, more := m["next"].(string); more != (page < 2) || len(items) != 1 {
			t.Errorf("page %d: %v", page, m)
		} else {
			target = "/v1/semaphores/a/leases?count=1&after=" + next
		}
	}
	if len(ids) != 3 {
		t.Errorf("%v", ids)
	}
}

func TestRequestIDsAreKeptOrMade(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for given, kept := range map[string]bool{"abc-123": true, "": false, "a b": false, strings.Repeat("x", 65): false, "<script>": false} {
		w := s.request("GET", "/healthz", "", "X-Request-Id: "+given)
		if got := w.Header().Get("X-Request-Id"); got == "" || (got == given) != kept {
			t.Errorf("%q: %q", given, got)
		}
	}
	a, b := s.request("GET", "/healthz", ""), s.request("GET", "/healthz", "")
	if a.Header().Get("X-Request-Id") == b.Header().Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

func TestProblemsAreListed(t *testing.T) {
	t.Parallel()
	w := serve(t).request("GET", "/problems", "")
	for _, k := range kinds {
		if !strings.Contains(w.Body.String(), k.name+"\t") {
			t.Errorf("%s is missing", k.name)
		}
	}
}
