package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/server/client"
)

// hashOf is how a file of tokens has a token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// entry is one of a file of tokens, whose token is its name with "-token".
func entry(name, scopes, semaphores, more string) string {
	return fmt.Sprintf("- name: %s\n  sha256: %s\n  scopes: [%s]\n  semaphores: [%s]\n%s", name, hashOf(name+"-token"), scopes, semaphores, more)
}

var (
	fileOfTokens = entry("ops", "lease, operate, read", `"*"`, "") + entry("ci", "lease", `"ci/*", db`, "  priority_max: 5\n") +
		entry("eye", "read", `"ci/*"`, "") + entry("boss", "operate", `"*"`, "")
	withoutCI = entry("ops", "lease, operate, read", `"*"`, "")
)

func newTokens(t *testing.T, text string) *Tokens {
	t.Helper()
	tokens, err := NewTokens([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestAFileOfTokensIsReadStrictly(t *testing.T) {
	t.Parallel()
	good := entry("a", "lease", `"*"`, "")
	for text, says := range map[string]string{
		"":                                    "empty",
		"# nothing":                           "empty",
		"x":                                   "cannot unmarshal",
		"- name: a\n  token: secret":          "field token not found",
		entry("a", "lease", "", ""):           "it must name 1 to 100 semaphores",
		entry("a", "", "x", ""):               "scopes",
		entry("a", "lease, lease", "x", ""):   "scopes",
		entry("a", "lease, admin", "x", ""):   "scopes",
		entry("anonymous", "lease", "x", ""):  "anonymous",
		entry(`"a\nb"`, "lease", "x", ""):     "name",
		good + good:                           "entry 2: its sha256 is that of another",
		"- name: a\n  sha256: 12":             "sha256",
		strings.Repeat("#", TokensBytesMax+1): "more than",
		good + "  priority_max: 101":          "priority_max",
		"- name: a\n- name: b":                "entry 2",
		strings.Repeat("- name: a\n", 1001):   "at most 1000",
		strings.Replace(good, "a", "a: b", 1): "yaml:",
		good + "  priority_max: high":         "cannot unmarshal",
		strings.Replace(good, hashOf("a-token"), strings.Repeat("g", 64), 1): "sha256",
	} {
		if _, err := NewTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
	for text, n := range map[string]int{"[]": 0, good: 1, fileOfTokens: 4} {
		if tokens, err := NewTokens([]byte(text)); err != nil || tokens.Count() != n {
			t.Errorf("%.80q: %v", text, err)
		}
	}
	tokens := newTokens(t, good)
	if tokens.Replace([]byte("x")) == nil || tokens.of("a-token") == nil {
		t.Error("a file that cannot be read replaced the tokens")
	}
}

func TestGlobsNameSemaphores(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		glob, fits, fitsNot string
	}{
		{"*", " a /x 🔒 ", ""},
		{"ci/*", "ci/ ci/a ci/a/b", "ci cia/b xci/a"},
		{"a?c", "abc aéc a/c a🔒c", "ac abbc"},
		{"a*b*c", "abc aXbXc abbc abcbc", "ab acb abcd"},
		{"*x", "x axx", "xa"},
		{"[a]", "[a]", "a"},
		{"é*", "é éa", "e"},
		{"*?", "a ab", ""},
	} {
		for text := range strings.SplitSeq(test.fits, " ") {
			if (text != "" || test.glob == "*") && !globMatches(test.glob, text) {
				t.Errorf("%s does not fit %q", test.glob, text)
			}
		}
		for text := range strings.SplitSeq(test.fitsNot, " ") {
			if text != "" && globMatches(test.glob, text) {
				t.Errorf("%s fits %q", test.glob, text)
			}
		}
	}
}

func TestATokenAllowsWhatItsScopesAndGlobsSay(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens, c.LocalOnly = newTokens(t, fileOfTokens), false })
	as := func(name string) string { return "Authorization: Bearer " + name + "-token" }
	s.request("PUT", "/v1/semaphores/ci%2Fx", "limit=9", as("ops"))
	s.request("PUT", "/v1/semaphores/db", "limit=9", as("ops"))
	for _, test := range []struct {
		method, target, body, who string
		status                    int
		kind                      string
	}{
		{"GET", "/v1/semaphores/db", "", "", 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: Bearer", 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: Bearer ops", 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: Basic b3BzLXRva2Vu", 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: Bearer " + hashOf("ops-token"), 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: Bearer " + strings.Repeat("x", 2000), 401, "unauthenticated"},
		{"GET", "/v1/semaphores?token=ops-token", "", "", 401, "unauthenticated"},
		{"GET", "/v1/semaphores/db", "", "Authorization: bearer ops-token", 200, ""},
		{"POST", "/v1/semaphores/db/acquire", "", "", 401, "unauthenticated"},
		{"POST", "/v1/semaphores/db/acquire", "", as("ci"), 200, ""},
		{"POST", "/v1/semaphores/ci%2Fx/acquire", "", as("ci"), 200, ""},
		{"POST", "/v1/semaphores/-/acquire?name=ci/x", "", as("ci"), 200, ""},
		{"POST", "/v1/semaphores/other/acquire", "create=1", as("ci"), 403, "forbidden"},
		{"POST", "/v1/semaphores/db/acquire", "ttl=0", as("ci"), 403, "forbidden"},
		{"POST", "/v1/semaphores/db/acquire", "ttl=0", as("ops"), 200, ""},
		{"POST", "/v1/semaphores/db/acquire", "", as("eye"), 403, "forbidden"},
		{"POST", "/v1/semaphores/db/acquire", "", as("boss"), 403, "forbidden"},
		{"GET", "/v1/semaphores/ci%2Fx", "", as("eye"), 200, ""},
		{"GET", "/v1/semaphores/ci%2Fx/leases", "", as("eye"), 200, ""},
		{"GET", "/v1/semaphores/ci%2Fx/waiters", "", as("eye"), 200, ""},
		{"GET", "/v1/semaphores/db", "", as("eye"), 403, "forbidden"},
		{"GET", "/v1/semaphores/db/leases", "", as("eye"), 403, "forbidden"},
		{"GET", "/v1/semaphores/ci%2Fx", "", as("ci"), 403, "forbidden"},
		{"GET", "/v1/nodes", "", as("eye"), 200, ""},
		{"GET", "/v1/nodes", "", as("ci"), 403, "forbidden"},
		{"GET", "/metrics", "", "", 401, "unauthenticated"},
		{"GET", "/metrics", "", as("eye"), 200, ""},
		{"GET", "/healthz", "", "", 200, ""},
		{"GET", "/readyz", "", "", 200, ""},
		{"GET", "/problems", "", "", 200, ""},
		{"PUT", "/v1/semaphores/x", "limit=1", as("ci"), 403, "forbidden"},
		{"PUT", "/v1/semaphores/x", "limit=1", as("boss"), 201, ""},
		{"PATCH", "/v1/semaphores/x", "limit=2", as("eye"), 403, "forbidden"},
		{"PATCH", "/v1/semaphores/x", "limit=2", as("boss"), 200, ""},
		{"DELETE", "/v1/semaphores/db/leases/aaaaaaaaaaaaaaaa", "", as("ci"), 403, "forbidden"},
		{"DELETE", "/v1/semaphores/db/leases/aaaaaaaaaaaaaaaa", "", as("boss"), 404, "unknown_lease"},
		{"DELETE", "/v1/semaphores/x", "", as("ci"), 403, "forbidden"},
		{"DELETE", "/v1/semaphores/x", "", as("boss"), 204, ""},
		{"GET", "/v1/nowhere", "", "", 404, "not_found"},
	} {
		w := s.request(test.method, test.target, test.body, test.who)
		if known := "this token is not known"; test.status == 401 && strings.Contains(w.Body.String(), known) != strings.HasPrefix(test.who, "Authorization: Bearer ") {
			t.Errorf("%s as %.60q: %s", test.target, test.who, w.Body)
		}
		if w.Code != test.status || test.kind != "" && members(t, w)["kind"] != test.kind {
			t.Errorf("%s %s %q by %.40s: %d %.300s", test.method, test.target, test.body, test.who, w.Code, w.Body)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (test.status == 401) {
			t.Errorf("%s %s by %.40s: WWW-Authenticate: %s", test.method, test.target, test.who, challenge)
		}
		if strings.Contains(w.Body.String(), "-token") {
			t.Errorf("a token is told: %s", w.Body)
		}
	}
	for who, want := range map[string]int{"ops": 2, "eye": 1} {
		if got := members(t, s.request("GET", "/v1/semaphores", "", as(who)))["items"].([]any); len(got) != want {
			t.Errorf("%s sees %v", who, got)
		}
		for _, l := range members(t, s.request("GET", "/v1/leases", "", as(who)))["items"].([]any) {
			if semaphore := l.(map[string]any)["semaphore"]; who == "eye" && semaphore != "ci/x" {
				t.Errorf("%s sees a lease of %s", who, semaphore)
			}
		}
	}
}

func TestALeaseIsRenewedAndReleasedWithoutAToken(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens = newTokens(t, fileOfTokens) })
	ci := "Authorization: Bearer ci-token"
	s.request("PUT", "/v1/semaphores/db", "limit=1", "Authorization: Bearer ops-token")
	got := members(t, s.request("POST", "/v1/semaphores/db/acquire", "", ci))
	lease := got["lease"].(string)
	if got["holder"] != "ci@127.0.0.1" {
		t.Errorf("%v", got)
	}
	for _, test := range []struct {
		verb, body, who string
		status          int
	}{
		{"renew", "lease=" + lease, "", 200},
		{"renew", "ttl=0&lease=" + lease, "", 403},
		{"renew", "ttl=0&lease=" + lease, ci, 403},
		{"renew", "lease=" + lease, "Authorization: Bearer wrong", 200},
		{"release", "lease=" + strings.Replace(lease, ".", ".0", 1), ci, 404},
		{"release", "lease=" + lease, "", 200},
	} {
		if w := s.request("POST", "/v1/semaphores/db/"+test.verb, test.body, test.who); w.Code != test.status {
			t.Errorf("%s %s: %d %s", test.verb, test.who, w.Code, w.Body)
		}
	}
}

func TestAPriorityIsCappedByTheToken(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens = newTokens(t, fileOfTokens) })
	ops, ci := "Authorization: Bearer ops-token", "Authorization: Bearer ci-token"
	s.request("PUT", "/v1/semaphores/db", "limit=1", ops)
	lease := members(t, s.request("POST", "/v1/semaphores/db/acquire", "ttl=1m", ci))["lease"].(string)
	done := make(chan int, 1)
	go func() { done <- s.request("POST", "/v1/semaphores/db/acquire", "priority=100&wait=1m", ci).Code }()
	eventually(t, "it waits with the largest priority that its token has", func() bool {
		items := members(t, s.request("GET", "/v1/semaphores/db/waiters", "", ops))["items"].([]any)
		return len(items) == 1 && items[0].(map[string]any)["priority"] == 5.0
	})
	s.request("POST", "/v1/semaphores/db/release", "lease="+lease)
	if code := <-done; code != 200 {
		t.Error(code)
	}
}

// openAs opens a channel with a token, as a browser sends it or as programs do.
func (s *served) openAs(t *testing.T, token string, browser bool) *wire {
	t.Helper()
	dialer, header := websocket.Dialer{Subprotocols: []string{channelProtocol}}, http.Header{}
	if browser {
		dialer.Subprotocols = append(dialer.Subprotocols, tokenProtocol+base64.RawURLEncoding.EncodeToString([]byte(token)))
	} else {
		header.Set("Authorization", "Bearer "+token)
	}
	conn, response, err := dialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", header)
	if err != nil {
		t.Fatal(err, response)
	}
	t.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	if conn.Subprotocol() != channelProtocol {
		t.Errorf("the subprotocol is %q", conn.Subprotocol())
	}
	return &wire{conn, t}
}

func TestAChannelIsOpenedWithATokenAndEachFrameNeedsItsScope(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens = newTokens(t, fileOfTokens) })
	for _, browser := range []bool{true, false} {
		w := s.openAs(t, "ci-token", browser)
		f := w.expect("welcome")
		if scopes := fmt.Sprint(f["scopes"]); f["principal"] != "ci" || scopes != "[lease]" {
			t.Errorf("%v", f)
		}
		w.send(`{"type":"acquire","ref":"1","semaphore":"ci/a","create":{"limit":9}}`)
		w.expect("granted")
		w.send(`{"type":"acquire","ref":"2","semaphore":"other","create":{"limit":9}}`)
		if f := w.expect("refused"); f["kind"] != "forbidden" || f["status"] != 403.0 {
			t.Errorf("%v", f)
		}
		w = s.openAs(t, "eye-token", browser)
		w.expect("welcome")
		w.send(`{"type":"acquire","ref":"1","semaphore":"ci/a"}`)
		if f := w.expect("refused"); f["kind"] != "forbidden" {
			t.Errorf("%v", f)
		}
		for _, token := range []string{"", "wrong"} {
			if code := s.openAs(t, token, browser).closed(); code != 4401 {
				t.Errorf("%q: closed with %d", token, code)
			}
		}
	}
	if code := s.openRaw(t).closed(); code != 4401 {
		t.Errorf("closed with %d", code)
	}
	dialer := websocket.Dialer{Subprotocols: []string{tokenProtocol + "b3BzLXRva2Vu"}}
	if _, response, err := dialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", nil); err == nil || response.StatusCode != 400 {
		t.Error("a browser would not take an answer without a subprotocol")
	}
}

func TestATokenThatIsTakenAwayEndsItsChannelsAndWhatTheyHold(t *testing.T) {
	t.Parallel()
	tokens := newTokens(t, fileOfTokens)
	s := serve(t, func(c *Config) { c.Tokens = tokens })
	ops, ci := s.openAs(t, "ops-token", false), s.openAs(t, "ci-token", true)
	ops.expect("welcome")
	ci.expect("welcome")
	ci.send(`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":1}}`)
	ci.expect("granted")
	ops.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
	ops.expect("waiting")
	if err := tokens.Replace([]byte(withoutCI)); err != nil {
		t.Fatal(err)
	}
	if code := ci.closed(); code != 4401 {
		t.Errorf("closed with %d", code)
	}
	ops.expect("granted")
	if w := s.request("POST", "/v1/semaphores/db/acquire", "", "Authorization: Bearer ci-token"); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
	if err := tokens.Replace([]byte(entry("ops", "read", `"*"`, ""))); err != nil { // it stays, and may less
		t.Fatal(err)
	}
	eventually(t, "the channel may acquire no more", func() bool {
		ops.send(`{"type":"acquire","ref":"2","semaphore":"db","wait":0}`)
		return ops.expect("refused")["kind"] == "forbidden"
	})
}

func TestTheClientBringsItsToken(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens = newTokens(t, fileOfTokens) })
	if _, err := s.client.Semaphore(t.Context(), "db"); !isKind(err, "unauthenticated") {
		t.Error(err)
	}
	c, err := client.New(client.Config{URL: s.url, Token: "ops-token"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "db", client.Definition{Limit: 1}, 0); err != nil {
		t.Error(err)
	}
	ch, err := c.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ch.Welcome().Principal != "ops" {
		t.Errorf("%+v", ch.Welcome())
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}
