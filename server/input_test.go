package server

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/server/client"
)

// Bad input beyond the tables of rest_test.go, decode_test.go, name_test.go and channel_test.go. Whatever comes, the count stays.

// raw sends bytes over a connection of their own and returns the first answer to them; 0: there is none.
func (s *served) raw(t *testing.T, request string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(frameWait)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(reader, nil)
	}
	if err != nil {
		return 0, ""
	}
	text, _ := io.ReadAll(response.Body) // as far as it came
	return response.StatusCode, string(text)
}

func TestRequestsThatFewClientsSendAreServedOrRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	const post = "POST /v1/semaphores/db/acquire HTTP/1.1\r\nHost: localhost\r\n"
	for _, test := range []struct {
		name, request string
		status        int
		says          string
	}{
		{"HTTP/1.0", "POST /v1/semaphores/db/acquire HTTP/1.0\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nttl=1s", 200, `"ttl_ms":1000`},
		{"HTTP/1.0 without a host", "GET /healthz HTTP/1.0\r\n\r\n", 421, "wrong_host"},
		{"Expect: 100-continue", post + "Expect: 100-continue\r\nContent-Length: 6\r\n\r\nttl=1s", 200, `"ttl_ms":1000`},
		{"another expectation", post + "Expect: a miracle\r\nContent-Length: 6\r\n\r\nttl=1s", 417, ""},
		{"JSON cut in half", post + "Content-Length: 12\r\n\r\n{\"permits\":1", 400, "not valid JSON"},
		{"two lengths", post + "Content-Length: 0\r\nContent-Length: 6\r\n\r\nttl=1s", 400, ""},
		{"a length and chunks", post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, `"lease"`},
		{"another transfer coding", post + "Transfer-Encoding: gzip\r\n\r\n", 501, ""},
		{"compressed", post + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 415, "unsupported_encoding"},
		{"compressed by nothing", post + "Content-Encoding: identity\r\nContent-Length: 6\r\n\r\nwait=0", 423, "no_permit"},
		{"wait=30", post + "Content-Length: 7\r\n\r\nwait=30", 400, `"field":"wait"`},
		{"ttl below 1 s", post + "Content-Length: 9\r\n\r\nttl=999ms", 400, `"field":"ttl"`},
		{"ttl above ttl_max", post + "Content-Length: 6\r\n\r\nttl=2h", 400, `"field":"ttl"`},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, ""},
		{"no HTTP", "\x16\x03\x01\x02\x00\r\n\r\n", 0, ""},
		{"a dot, resolved by nobody", "GET /v1/semaphores/. HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "unknown_semaphore"},
		{"two dots", "GET /v1/semaphores/.. HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "unknown_semaphore"},
		{"two dots, escaped", "GET /v1/semaphores/%2e%2e HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "unknown_semaphore"},
	} {
		status, body := s.raw(t, test.request)
		if test.name == "no HTTP" && status == 400 {
			status = 0 // told or not, it is closed
		}
		if status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s", test.name, status, body)
		}
		if strings.HasPrefix(test.name, "a length") {
			eventually(t, "the short leases are over", func() bool { return s.inUse(t) <= 1 })
			s.mustAcquire(t)
		}
	}
}

func TestACompressedBodyIsRefusedByItsHeaderAlone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte("permits=1")) // to memory
	_ = z.Close()
	if w := s.request("POST", "/v1/semaphores/db/acquire", b.String(), "Content-Encoding: gzip"); w.Code != 415 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.request("POST", "/v1/semaphores/db/acquire", b.String()); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := s.inUse(t); got != 0 {
		t.Errorf("%d in use", got)
	}
}

func TestOnlyItsHolderCanReleaseOrRenewALease(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	s.declare(t, "other", 2)
	mine, hers := s.mustAcquire(t), s.mustAcquire(t)
	_, mac, _ := strings.Cut(mine.Capability, ".")
	changed := []byte(mine.Capability)
	for i := range changed {
		was := changed[i]
		changed[i] = 'x'
		if was == 'x' {
			changed[i] = 'y'
		}
		s.mustNotKnow(t, "db", string(changed))
		changed[i] = was
	}
	for _, made := range []string{hers.ID, hers.ID + ".", hers.ID + "." + mac, "." + mac, mac, strings.ToUpper(mine.Capability), mine.Capability + " ", " " + mine.Capability} {
		s.mustNotKnow(t, "db", made)
	}
	s.mustNotKnow(t, "other", mine.Capability) // it is a lease of db
	if got := s.inUse(t); got != 2 {
		t.Errorf("%d in use", got)
	}
}

func (s *served) mustNotKnow(t *testing.T, semaphore, capability string) {
	t.Helper()
	if _, err := s.client.Release(t.Context(), semaphore, capability, 0); !isKind(err, "unknown_lease") {
		t.Errorf("release of %q: %v", capability, err)
	}
	if _, err := s.client.Renew(t.Context(), semaphore, capability, 0); !isKind(err, "unknown_lease") {
		t.Errorf("renewal of %q: %v", capability, err)
	}
}

// A frame whose header announces more than a frame may have is refused before any of it has come.
func TestAFrameThatIsAnnouncedTooLargeIsClosedAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, header := range map[string][]byte{
		"one byte more":    {0x81, 0x80 | 126, 0x80, 0x01, 1, 2, 3, 4},
		"33 KiB":           {0x81, 0x80 | 126, 0x84, 0x00, 1, 2, 3, 4},
		"a terabyte":       {0x81, 0x80 | 127, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4},
		"in two fragments": append([]byte{0x01, 0x80 | 1, 0, 0, 0, 0, '{'}, 0x80, 0x80|126, 0x80, 0x00, 1, 2, 3, 4),
		"a length below 0": {0x81, 0x80 | 127, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4},
	} {
		w := s.open(t)
		if _, err := w.NetConn().Write(header); err != nil {
			t.Fatal(err)
		}
		if code := w.closed(); code != 1009 {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
}

func TestFramesThatBreakTheProtocolCloseTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	for name, frame := range map[string][]byte{
		"not masked":          {0x81, 2, '{', '}'},
		"reserved bits":       {0xf1, 0x80, 0, 0, 0, 0},
		"an unknown opcode":   {0x83, 0x80, 0, 0, 0, 0},
		"a long control":      {0x89, 0x80 | 126, 0, 200, 0, 0, 0, 0},
		"a continued nothing": {0x80, 0x80, 0, 0, 0, 0},
	} {
		w := s.open(t)
		w.acquire(`"wait":"10s"`)
		if _, err := w.NetConn().Write(frame); err != nil {
			t.Fatal(err)
		}
		if code := w.closed(); code != websocket.CloseProtocolError {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	eventually(t, "what they held is given back", func() bool { return s.inUse(t) == 0 })
}

func TestAConnectionHoldsSoManyLeasesAndNoMore(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", channelRequestsMax+10)
	w := s.open(t)
	const acquire, batch = `{"type":"acquire","ref":"%d","semaphore":"db","ttl":"10m"}`, 100
	for i := 0; i < channelRequestsMax; i += batch {
		for j := range batch {
			w.send(acquire, i+j)
		}
		for range batch {
			w.expect("granted")
		}
	}
	w.send(acquire, channelRequestsMax)
	if f := w.expect("refused"); f["kind"] != "client_limit" || f["status"] != 429.0 {
		t.Errorf("%v", f)
	}
	if got := s.inUse(t); got != channelRequestsMax {
		t.Errorf("%d in use", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is given back", func() bool { return s.inUse(t) == 0 })
}

// What a connection asked for may all be granted at once: its client is told as fast as it reads.
func TestAllThatAConnectionWaitsForMayBeGrantedAtOnce(t *testing.T) {
	t.Parallel()
	const waiters, batch = stormHolders, 500
	s := serve(t)
	if w := s.request("PUT", "/v1/semaphores/db", fmt.Sprintf(`{"limit":%d,"paused":true}`, waiters)); w.Code != 201 {
		t.Fatal(w.Body)
	}
	w := s.open(t)
	for i := range waiters {
		w.send(`{"type":"acquire","ref":"%d","semaphore":"db","wait":"1h"}`, i)
		if i%batch == batch-1 {
			eventually(t, "all wait", func() bool { // nothing is read meanwhile
				sem, err := s.engine.Semaphore(t.Context(), "db")
				return err == nil && sem.Status.Waiting == i+1
			})
		}
	}
	s.request("PATCH", "/v1/semaphores/db", "paused=false")
	for range waiters {
		w.expect("granted")
	}
}

func TestTextsOfRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const db = "/v1/semaphores/db"
	s.request("PUT", db, "limit=1")
	for _, test := range []struct {
		method, target, body, header, says string
	}{
		{"PUT", db, "limit=x", "", "limit must be an integer from 1 to 1000000"},
		{"PUT", db, "limit=1.5", "", "limit must be an integer from 1 to 1000000"},
		{"PUT", db, "limit=0", "", "1000000"},
		{"PUT", db, "limit=1000001", "", "1000000"},
		{"PUT", db, "limit=1&max_waiters=x", "", "max_waiters must be an integer from 1 to 10000000"},
		{"PUT", db, "ttl=1s", "", "limit: is missing"},
		{"PUT", db, "", "", "limit: is missing"},
		{"POST", db + "/acquire", `{"create":{"ttl":"1s"}}`, "", "create.limit: is missing"},
		{"POST", db + "/acquire", `[]`, "", "a JSON body is an object"},
		{"PUT", db, "limit=1", "If-None-Match: *", ""},
		{"PUT", db, "limit=2", "If-None-Match: *", "there is such a semaphore already"},
		{"PUT", db, "limit=2", `If-Match: "7"`, "changed meanwhile"},
	} {
		var headers []string
		if test.header != "" {
			headers = []string{test.header}
		}
		w := s.request(test.method, test.target, test.body, append(headers, "Accept: text/plain")...)
		if !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s: %d %s", test.method, test.body, w.Code, w.Body)
		}
	}
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{}); err != nil {
		t.Fatal(err)
	}
	s.request("PATCH", db, "paused=true")
	if w := s.request("POST", db+"/acquire", "wait=0", "Accept: text/plain"); !strings.Contains(w.Body.String(), "the semaphore is paused") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
