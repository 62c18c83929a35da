package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

func TestNamesOfHostsAreServedAsAllowed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		local           bool
		allow           []string
		serves, serves2 string // hosts
		not             string
	}{
		{true, nil, "localhost:7707", "127.0.0.1", "permitd.example"},
		{true, []string{"Permitd.example"}, "permitd.example:8443", "localhost", "evil.example"},
		{false, []string{"permitd.example"}, "PERMITD.example", "[::1]:7707", "evil.example"},
		{false, nil, "permitd.example", "10.0.0.1:80", ""},
	} {
		s := serve(t, func(c *Config) { c.LocalOnly, c.AllowHosts = test.local, test.allow })
		for _, host := range []string{test.serves, test.serves2} {
			if w := s.request("GET", "/healthz", "", "Host: "+host); w.Code != 200 {
				t.Errorf("%+v: %s: %d", test, host, w.Code)
			}
		}
		if w := s.request("GET", "/healthz", "", "Host: "+test.not); test.not != "" && w.Code != 421 {
			t.Errorf("%+v: %s: %d", test, test.not, w.Code)
		}
	}
}

func TestPagesOfAllowedOriginsMayAsk(t *testing.T) {
	t.Parallel()
	const good, evil = "https://console.example", "https://evil.example"
	s := serve(t, func(c *Config) { c.AllowOrigins = []string{good} })
	s.declare(t, "db", 9)
	const acquire = "/v1/semaphores/db/acquire"
	for origin, allowed := range map[string]bool{good: true, evil: false, "null": false, "https://console.example:444": false, "http://console.example": false} {
		asks := s.request("OPTIONS", acquire, "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
		posts := s.request("POST", acquire, "ttl=1s", "Origin: "+origin, "Sec-Fetch-Site: cross-site")
		reads := s.request("GET", "/v1/semaphores/db", "", "Origin: "+origin)
		for name, w := range map[string]*httptest.ResponseRecorder{"asks": asks, "posts": posts, "reads": reads} {
			h := w.Header()
			if shared := h.Get("Access-Control-Allow-Origin") == origin; shared != allowed || h.Get("Vary") != "Origin" {
				t.Errorf("%s %s: %v", origin, name, h)
			}
			if w.Code < 300 != (allowed || name == "reads") {
				t.Errorf("%s %s: %d %s", origin, name, w.Code, w.Body)
			}
			if exposes := h.Get("Access-Control-Expose-Headers"); allowed && !contains(exposes, "ETag", "Retry-After", "Location", "X-Request-Id", "Permitd-Ticket") {
				t.Errorf("%s %s: %s", origin, name, exposes)
			}
			if h.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("there are no cookies to allow")
			}
		}
		if h := asks.Header(); allowed && (asks.Code != 204 ||
			!contains(h.Get("Access-Control-Allow-Headers"), "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match") ||
			!contains(h.Get("Access-Control-Allow-Methods"), "PUT", "PATCH", "DELETE")) {
			t.Errorf("%d %v", asks.Code, h)
		}
		conn, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", http.Header{"Origin": {origin}})
		if (err == nil) != allowed || !allowed && response.StatusCode != 403 {
			t.Errorf("a channel from %s: %v %v", origin, response, err)
		}
		if err == nil {
			_ = conn.Close() // the server notices
		}
	}
	closed := serve(t)
	if w := closed.request("OPTIONS", acquire, "", "Origin: "+good, "Access-Control-Request-Method: POST"); w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestAddressesAreThoseThatTrustedProxiesTell(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
	for _, test := range []struct {
		remote, forwarded, want string
	}{
		{"192.0.2.7:5000", "", "192.0.2.7"},
		{"192.0.2.7:5000", "198.51.100.1", "192.0.2.7"}, // who is not trusted can tell anything
		{"10.1.1.1:80", "198.51.100.1", "198.51.100.1"},
		{"10.1.1.1:80", "", "10.1.1.1"},
		{"10.1.1.1:80", "6.6.6.6, 198.51.100.1", "198.51.100.1"}, // the client began the header itself
		{"10.1.1.1:80", "198.51.100.1, 10.2.2.2,10.3.3.3", "198.51.100.1"},
		{"10.1.1.1:80", "10.2.2.2", "10.2.2.2"},
		{"10.1.1.1:80", "unknown, 10.2.2.2", "10.2.2.2"},
		{"10.1.1.1:80", "198.51.100.1:4711", "198.51.100.1"},
		{"[fd00::1]:80", "[2001:db8::1]:4711", "2001:db8::1"},
		{"[::ffff:10.1.1.1]:80", "2001:db8::1", "2001:db8::1"},
		{"[::1]:80", "2001:db8::1", "::1"},
		{"@", "2001:db8::1", "@"},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{}}
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		if got := s.clientAddress(r); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestThoseWhoWaitKeepNobodyFromOperating(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.MaxRequests = 1 })
	s.declare(t, "db", 1)
	s.request("POST", "/v1/semaphores/db/acquire", "ttl=1m")
	waited := make(chan int, 1)
	go func() { waited <- s.request("POST", "/v1/semaphores/db/acquire", "wait=1m").Code }()
	eventually(t, "it waits", func() bool {
		return members(t, s.request("GET", "/v1/semaphores/db", ""))["status"].(map[string]any)["waiting"] == 1.0
	})
	if w := s.request("POST", "/v1/semaphores/db/acquire", ""); w.Code != 429 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.request("PATCH", "/v1/semaphores/db", `{"limit":2}`); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if code := <-waited; code != 200 {
		t.Error(code)
	}
}

func TestAPrincipalHasOnlySoManyRequestsUnderWay(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens, c.MaxRequests = newTokens(t, fileOfTokens), 2 })
	ops, ci := "Authorization: Bearer ops-token", "Authorization: Bearer ci-token"
	s.request("PUT", "/v1/semaphores/db", "limit=1", ops)
	lease := members(t, s.request("POST", "/v1/semaphores/db/acquire", "ttl=1m", ci))["lease"].(string)
	codes := make(chan int, 2)
	for range 2 {
		go func() { codes <- s.request("POST", "/v1/semaphores/db/acquire", "wait=1m&ttl=1s", ci).Code }()
	}
	eventually(t, "both wait", func() bool {
		return members(t, s.request("GET", "/v1/semaphores/db", "", ops))["status"].(map[string]any)["waiting"] == 2.0
	})
	w := s.request("POST", "/v1/semaphores/db/acquire", "", ci)
	if got := members(t, w); w.Code != 429 || got["kind"] != "client_limit" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.request("POST", "/v1/semaphores/db/release", "lease="+lease, ci); w.Code != 200 { // giving back is never held up
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range 2 {
		if code := <-codes; code != 200 {
			t.Error(code)
		}
	}
	if n := s.busy.of(asker{"ci", scopeLease}).Load(); n != 0 {
		t.Errorf("%d are under way", n)
	}
}
