package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/server/client"
)

// wire is a lease channel as a test drives it, frame by frame.
type wire struct {
	*websocket.Conn
	t *testing.T
}

// frameWait bounds how long a test waits for a frame.
const frameWait = 30 * time.Second

// open opens a channel and reads the welcome frame.
func (s *served) open(t *testing.T) *wire {
	t.Helper()
	w := s.openRaw(t)
	w.expect("welcome")
	return w
}

func (s *served) openRaw(t *testing.T, protocols ...string) *wire {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols, NetDialContext: s.dial}
	conn, response, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", nil)
	if err != nil {
		t.Fatal(err, response)
	}
	t.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	return &wire{conn, t}
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if err := w.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...)); err != nil {
		w.t.Fatal(err)
	}
}

// next reads a frame. Those that come by themselves are passed over unless they are asked for.
func (w *wire) next(want string) map[string]any {
	w.t.Helper()
	for {
		if err := w.SetReadDeadline(time.Now().Add(frameWait)); err != nil {
			w.t.Fatal(err)
		}
		var f map[string]any
		if err := w.ReadJSON(&f); err != nil {
			w.t.Fatalf("instead of %s: %v", want, err)
		}
		if err := checkFrame("server", f); err != nil { // whatever a test is about
			w.t.Errorf("%v: %v", f, err)
		}
		_, answers := f["ref"]
		if f["type"] == want || f["type"] != "waiting" && f["type"] != "alive" && (f["type"] != "renewed" || answers) {
			return f
		}
	}
}

// expect reads a frame of this type.
func (w *wire) expect(want string) map[string]any {
	w.t.Helper()
	f := w.next(want)
	if f["type"] != want {
		w.t.Fatalf("%v instead of %s", f, want)
	}
	return f
}

// closed reads until the connection ends and returns the code.
func (w *wire) closed() int {
	w.t.Helper()
	for {
		if err := w.SetReadDeadline(time.Now().Add(frameWait)); err != nil {
			w.t.Fatal(err)
		}
		if _, _, err := w.ReadMessage(); err != nil {
			if e, ok := errors.AsType[*websocket.CloseError](err); ok {
				return e.Code
			}
			w.t.Fatalf("no close frame: %v", err)
		}
	}
}

func TestWelcomeSaysWhoServesWhom(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.openRaw(t, "permitd.v1")
	f := w.expect("welcome")
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"type":"welcome","version":"test","replica":"`+s.engine.Replica()+`","principal":"anonymous",
		"scopes":["lease","operate","read"],"alive_ms":15000,"limits":{"frame_bytes":32768,"requests":10000,"watches":100,"wait_ms":86400000}}`), &want); err != nil {
		t.Fatal(err)
	}
	if !alike(f, want) || w.Subprotocol() != "permitd.v1" {
		t.Errorf("%v %q", f, w.Subprotocol())
	}
}

func TestSubprotocolsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.openRaw(t, "other", "permitd.v1").expect("welcome")
	s.openRaw(t).expect("welcome")
	dialer := websocket.Dialer{Subprotocols: []string{"permitd.v2"}}
	conn, response, err := dialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", nil)
	if err == nil {
		t.Fatal("opened", conn.Close())
	}
	if response.StatusCode != http.StatusBadRequest || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Error(response.Status, response.Header)
	}
}

func TestALeaseIsGrantedRenewedAndReleasedOverTheChannel(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db","permits":2,"create":{"limit":2},"holder":"anna"}`)
	granted := w.expect("granted")
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"type":"granted","ref":"1","lease":"*","id":"*","semaphore":"db","requested":2,"weight":2,"slots":"0-1","fence":"*",
		"holder":"anna","ttl_ms":30000,"validity_ms":"*","renew_after_ms":10000,"replayed":false}`), &want); err != nil {
		t.Fatal(err)
	}
	if !alike(granted, want) {
		t.Errorf("%v", granted)
	}
	lease, id := granted["lease"].(string), granted["id"].(string)
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
	if f := w.expect("waiting"); f["ref"] != "2" || f["ahead"] != 0.0 {
		t.Errorf("%v", f)
	}
	w.send(`{"type":"renew","ref":"3","lease":"%s","ttl":"1m"}`, lease)
	renewed := w.expect("renewed")
	leases := renewed["leases"].([]any)
	if l := leases[0].(map[string]any); renewed["ref"] != "3" || len(leases) != 1 || l["id"] != id || l["validity_ms"].(float64) < 50_000 {
		t.Errorf("%v", renewed)
	}
	w.send(`{"type":"release","ref":"4","lease":"%s","keep":1}`, lease)
	answers := map[any]map[string]any{}
	for range 2 { // the grant of 2 and the release, whichever is told first
		f := w.next("")
		answers[f["type"]] = f
	}
	if f := answers["released"]; f["ref"] != "4" || f["id"] != id || f["state"] != "held" || f["weight"] != 1.0 || f["cooling_ms"] != 0.0 {
		t.Errorf("%v", answers)
	}
	if f := answers["granted"]; f["ref"] != "2" || f["slots"] != "1" {
		t.Errorf("%v", answers)
	}
	for ref := range 3 {
		w.send(`{"type":"release","ref":"r%d","lease":"%s"}`, ref, lease)
		if f := w.expect("released"); f["state"] != "released" || f["weight"] != 0.0 {
			t.Errorf("%v", f)
		}
	}
	if got := s.inUse(t); got != 1 {
		t.Errorf("%d in use", got)
	}
}

func TestSixFramesBeforeTheWelcomeAreAllAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.openRaw(t)
	for i := range 6 {
		w.send(`{"type":"acquire","ref":"%d","semaphore":"db","create":{"limit":6}}`, i)
	}
	w.expect("welcome")
	refs := map[any]bool{}
	for range 6 {
		refs[w.expect("granted")["ref"]] = true
	}
	if len(refs) != 6 || s.inUse(t) != 6 {
		t.Errorf("%v", refs)
	}
}

func TestFramesThatCannotBeServedLeaveTheConnectionAsItIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"held","semaphore":"db"}`)
	lease := w.expect("granted")["lease"]
	s.request("POST", "/v1/semaphores/db/acquire", "wait=0")
	w.send(`{"type":"acquire","ref":"waits","semaphore":"db"}`)
	w.expect("waiting")
	for _, test := range []struct{ frame, answer, kind, field string }{
		{`[1]`, "error", "bad_frame", ""},
		{`"x"`, "error", "bad_frame", ""},
		{`null`, "error", "bad_frame", ""},
		{`{}`, "error", "bad_frame", ""},
		{`{"type":"ping"}`, "error", "bad_frame", ""},
		{`{"type":"ping","ref":""}`, "error", "bad_frame", ""},
		{`{"type":"ping","ref":1}`, "error", "bad_frame", ""},
		{`{"type":"ping","ref":"` + strings.Repeat("é", 65) + `"}`, "error", "bad_frame", ""},
		{`{"type":"ping","ref":"waits"}`, "error", "duplicate_ref", ""},
		{`{"type":"acquire","ref":"waits","semaphore":"db"}`, "error", "duplicate_ref", ""},
		{`{"ref":"x"}`, "refused", "bad_request", "type"},
		{`{"ref":"x","type":"take"}`, "refused", "bad_request", "type"},
		{`{"ref":"x","type":7}`, "refused", "bad_request", "type"},
		{`{"ref":"x","type":"watch","topic":"weather"}`, "refused", "bad_request", "topic"},
		{`{"ref":"x","type":"watch"}`, "refused", "bad_request", "topic"},
		{`{"ref":"x","type":"watch","topic":"semaphore:"}`, "refused", "bad_request", "topic"},
		{`{"ref":"x","type":"watch","topic":"semaphore:a\u0000"}`, "refused", "bad_request", "topic"},
		{`{"ref":"x","type":"unwatch","topic":"nodes"}`, "unwatched", "", ""},
		{`{"ref":"x","type":"take","semaphore":"db","lease":"x"}`, "refused", "bad_request", "type"},
		{`{"ref":"x","type":"acquire","semaphore":"db","grace":"11m"}`, "refused", "bad_request", "grace"},
		{`{"ref":"x","type":"acquire","semaphore":"db","key":"k/"}`, "refused", "bad_request", "key"},
		{`{"ref":"x","type":"acquire","semaphore":"db","ticket":"t"}`, "refused", "bad_ticket", ""},
		{`{"ref":"x","type":"attach","semaphore":"db"}`, "refused", "bad_request", "lease"},
		{`{"ref":"x","type":"attach","lease":"` + lease.(string) + `"}`, "refused", "bad_request", "semaphore"},
		{`{"ref":"x","type":"attach","semaphore":"db","lease":"` + lease.(string) + `x"}`, "refused", "unknown_lease", ""},
		{`{"ref":"x","type":"attach","semaphore":"db","lease":"` + lease.(string) + `","wait":"1s"}`, "refused", "bad_request", "wait"},
		{`{"ref":"x","type":"acquire","semaphore":"db","Permits":1}`, "refused", "bad_request", "Permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":1,"permits":1}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":null}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":"3"}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":0}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":-1}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":1.5}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":1e308}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":9223372036854775807}`, "refused", "bad_request", "permits"},
		{`{"ref":"x","type":"acquire","semaphore":"db","permits":3}`, "refused", "weight_exceeds_limit", ""},
		{`{"ref":"x","type":"acquire","semaphore":"db","ttl":0}`, "refused", "bad_request", "ttl"},
		{`{"ref":"x","type":"acquire","semaphore":"db","ttl":30}`, "refused", "bad_request", "ttl"},
		{`{"ref":"x","type":"acquire","semaphore":"db","wait":"25h"}`, "refused", "bad_request", "wait"},
		{`{"ref":"x","type":"acquire"}`, "refused", "bad_request", "semaphore"},
		{`{"ref":"x","type":"acquire","semaphore":"a\u0000b"}`, "refused", "bad_request", "semaphore"},
		{`{"ref":"x","type":"acquire","semaphore":"` + strings.Repeat("x", 201) + `"}`, "refused", "bad_request", "semaphore"},
		{`{"ref":"x","type":"acquire","semaphore":"none"}`, "refused", "unknown_semaphore", ""},
		{`{"ref":"x","type":"acquire","semaphore":"db","wait":0}`, "refused", "no_permit", ""},
		{`{"ref":"x","type":"acquire","semaphore":"db","wait":"50ms"}`, "refused", "no_permit", ""},
		{`{"ref":"x","type":"release"}`, "refused", "bad_request", "lease"},
		{`{"ref":"x","type":"release","lease":7}`, "refused", "bad_request", "lease"},
		{`{"ref":"x","type":"release","lease":"aaaaaaaaaaaaaaaa.bbbb"}`, "refused", "unknown_lease", ""},
		{`{"ref":"x","type":"release","lease":"` + lease.(string) + `x"}`, "refused", "unknown_lease", ""},
		{`{"ref":"x","type":"release","lease":"` + lease.(string) + `","keep":2}`, "refused", "bad_request", "keep"},
		{`{"ref":"x","type":"release","lease":"` + lease.(string) + `","semaphore":"db"}`, "refused", "bad_request", "semaphore"},
		{`{"ref":"x","type":"renew","lease":"aaaaaaaaaaaaaaaa.bbbb"}`, "refused", "unknown_lease", ""},
		{`{"ref":"x","type":"renew","lease":"` + lease.(string) + `","ttl":0}`, "refused", "bad_request", "ttl"},
		{`{"ref":"x","type":"renew","lease":"` + lease.(string) + `","ttl":"2h"}`, "refused", "bad_request", "ttl"},
		{`{"ref":"x","type":"cancel","of":7}`, "refused", "bad_request", "of"},
		{`{"ref":"x","type":"ping","extra":1}`, "refused", "bad_request", "extra"},
		{`{"ref":"x","type":"cancel","of":"nobody"}`, "cancelled", "", ""},
		{`{"ref":"x","type":"ping"}`, "pong", "", ""},
	} {
		w.send("%s", test.frame)
		f := w.next(test.answer)
		kind, _ := f["kind"].(string)
		field, _ := f["field"].(string)
		if f["type"] != test.answer || kind != test.kind || field != test.field {
			t.Errorf("%.80s: %v", test.frame, f)
		}
		if ref, given := f["ref"]; test.answer != "error" && ref != "x" || given && test.kind == "bad_frame" {
			t.Errorf("%.80s: %v", test.frame, f)
		}
	}
	if got := s.inUse(t); got != 2 {
		t.Errorf("%d in use: the lease should have stayed", got)
	}
}

func TestAfterCancelNothingIsHeld(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
	w.expect("granted")
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
	w.expect("waiting")
	for _, test := range []struct{ of, was string }{{"2", "waiting"}, {"2", "unknown"}, {"1", "granted"}, {"1", "unknown"}} {
		w.send(`{"type":"cancel","ref":"c","of":"%s"}`, test.of)
		if f := w.expect("cancelled"); f["ref"] != "c" || f["of"] != test.of || f["was"] != test.was {
			t.Errorf("%v, want %v", f, test)
		}
	}
	eventually(t, "all is given back", func() bool { return s.inUse(t) == 0 })
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`) // the ref is free again
	w.expect("granted")
}

func TestARefMayBeUsedAgainOnceItIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	w := s.open(t)
	var leases []any
	for range 2 {
		w.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
		leases = append(leases, w.expect("granted")["lease"])
	}
	w.send(`{"type":"cancel","ref":"c","of":"1"}`) // means the newer
	w.expect("cancelled")
	eventually(t, "one is left", func() bool { return s.inUse(t) == 1 })
	w.send(`{"type":"release","ref":"r","lease":"%s"}`, leases[0])
	w.expect("released")
}

func TestADisconnectEndsWhatTheConnectionHoldsAndWaitsFor(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*wire) error{
		"clean": func(w *wire) error {
			return w.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second))
		},
		"going away": func(w *wire) error {
			return w.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1001, ""), time.Now().Add(time.Second))
		},
		"without a close frame": func(w *wire) error { return w.Close() },
		"by a reset": func(w *wire) error {
			return errors.Join(w.NetConn().(*net.TCPConn).SetLinger(0), w.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			s.declare(t, "db", 3)
			w, other := s.open(t), s.open(t)
			w.send(`{"type":"acquire","ref":"1","semaphore":"db","permits":2}`)
			w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
			w.expect("granted")
			w.expect("granted")
			w.send(`{"type":"acquire","ref":"3","semaphore":"db","permits":3,"wait":"24h"}`)
			w.expect("waiting")
			other.send(`{"type":"acquire","ref":"1","semaphore":"db","permits":3,"wait":"1h"}`)
			if f := other.expect("waiting"); f["ahead"] != 1.0 {
				t.Errorf("%v", f)
			}
			if err := leave(w); err != nil {
				t.Fatal(err)
			}
			if f := other.expect("granted"); f["slots"] != "0-2" {
				t.Errorf("%v", f)
			}
		})
	}
}

func TestClosesThatTheClientShouldMend(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	for _, test := range []struct {
		name        string
		messageType int
		text        string
		code        int
	}{
		{"binary", websocket.BinaryMessage, `{"type":"ping","ref":"1"}`, 4400},
		{"no JSON", websocket.TextMessage, `{"type":`, 4400},
		{"nothing", websocket.TextMessage, ``, 4400},
		{"trailing data", websocket.TextMessage, `{"type":"ping","ref":"1"} {}`, 4400},
		{"not UTF-8", websocket.TextMessage, "{\"type\":\"ping\",\"ref\":\"\xff\"}", 4400},
		{"too big", websocket.TextMessage, `{"type":"ping","ref":"1"` + strings.Repeat(" ", frameMax) + `}`, 1009},
		{"far too big", websocket.TextMessage, strings.Repeat("x", 1<<20), 1009},
	} {
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"10s"}`)
		w.expect("granted")
		if err := w.WriteMessage(test.messageType, []byte(test.text)); err != nil {
			t.Fatal(test.name, err)
		}
		if code := w.closed(); code != test.code {
			t.Errorf("%s: closed with %d", test.name, code)
		}
	}
	eventually(t, "what they held is given back", func() bool { return s.inUse(t) == 0 })
	w := s.open(t)
	w.send(`{"type":"ping","ref":"1"%s}`, strings.Repeat(" ", frameMax-len(`{"type":"ping","ref":"1"}`)))
	w.expect("pong") // the largest frame
}

func TestTooManyRequestsOfOneConnectionAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	go func() {
		for i := range channelRequestsMax + 1 {
			_ = w.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"acquire","ref":"%d","semaphore":"db","wait":"1h"}`, i)) // the reader notices
		}
	}()
	for {
		f := w.next("refused")
		if f["type"] == "granted" {
			continue
		}
		if f["type"] != "refused" || f["kind"] != "client_limit" || f["status"] != 429.0 {
			t.Errorf("%v", f)
		}
		break
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody waits and nothing is held", func() bool {
		sem, err := s.client.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.Waiting == 0 && sem.Status.InUse == 0
	})
}

func TestARestartTellsItsChannelsAndLeavesTheirLeases(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"db"}`)
	w.expect("granted")
	w.send(`{"type":"acquire","ref":"2","semaphore":"db"}`)
	w.expect("waiting")
	waiting := make(chan int, 1)
	go func() { waiting <- s.request("POST", "/v1/semaphores/db/acquire", "wait=1m").Code }()
	eventually(t, "both wait", func() bool {
		sem, err := s.engine.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.Waiting == 2
	})
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	if f := w.expect("refused"); f["ref"] != "2" || f["kind"] != "draining" {
		t.Errorf("%v", f)
	}
	w.expect("draining")
	if code := w.closed(); code != 1012 {
		t.Errorf("closed with %d", code)
	}
	if code := <-waiting; code != 503 {
		t.Errorf("the waiting request got %d", code)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestBeyondTheConnectionsThatMayBeOpenOthersAreTurnedAway(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.MaxConnections = 2 })
	first, second := s.open(t), s.open(t)
	third := s.openRaw(t)
	if code := third.closed(); code != 1013 {
		t.Errorf("closed with %d", code)
	}
	if err := s.client.Ready(t.Context()); !isKind(err, "too_many_connections") {
		t.Error(err)
	}
	s.client.Close()
	for _, w := range []*wire{first, second, third} {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "there is room again", func() bool { return s.client.Ready(t.Context()) == nil })
}

func TestALeaseOfAChannelMayBeReleasedOverREST(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ch, err := s.client.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hold, err := ch.Acquire(t.Context(), "db", client.Ask{Create: &client.Definition{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Release(t.Context(), "db", hold.Capability, 0); err != nil {
		t.Fatal(err)
	}
	again, err := ch.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait})
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Release(t.Context()); err != nil { // as often as one likes, and the new lease stays
		t.Error(err)
	}
	if got := s.inUse(t); got != 1 || again.Valid() <= 0 {
		t.Errorf("%d in use", got)
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}
