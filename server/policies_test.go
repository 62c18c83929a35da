package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server/client"
)

// servePolicies is serve with a host of policies.
func servePolicies(t *testing.T, change ...func(*Config)) *served {
	t.Helper()
	s := serve(t, append([]func(*Config){withPolicies(t)}, change...)...)
	s.awaitReady(t)
	return s
}

// withPolicies brings a host of policies on the server's engine.
func withPolicies(t *testing.T) func(*Config) {
	return func(cfg *Config) {
		h, err := policies.Open(policies.Config{
			Store: policies.OnNodes(cfg.Engine), Bindings: PolicyBindings(cfg.Engine), Engine: policies.Interpreter, Directory: filepath.Join(t.TempDir(), "code"),
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policies = h
	}
}

// awaitReady waits until requests should be sent here.
func (s *served) awaitReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s.rest("GET", "/readyz", "", nil).Code == http.StatusOK {
			return
		}
	}
	t.Fatal("it is not ready: ", s.rest("GET", "/readyz", "", nil).Body)
}

// rest asks the server without a connection between.
func (s *served) rest(method, target, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	maps.Copy(r.Header, header)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// guest is a module of the examples.
func guest(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "policies", "guests", "c", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// expect fails the test unless an answer has a status, and these texts in its body.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s is not in %s", text, w.Body)
		}
	}
	if w.Code != status {
		t.Errorf("%d, want %d: %s", w.Code, status, w.Body)
	}
}

func TestAPolicyWeighsRequestsOverREST(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201, `"here":"ready"`, `"abi":1`, `"used_by":[]`)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":"gold"}`, nil), 201,
		`"policy":{"name":"gold","on_fault":"deny","timeout":"50ms","isolation":"pooled","mode":"enforce"}`)
	expect(t, s.rest("PATCH", "/v1/semaphores/db", `{"policy":{"timeout":"500ms"}}`, nil), 200, `"timeout":"500ms"`, `"name":"gold"`)

	w := s.rest("POST", "/v1/semaphores/db/acquire", `{"permits":2}`, nil)
	expect(t, w, 200, `"requested":2`, `"weight":4`, `"ttl_ms":5000`, `"policy":{"name":"gold","generation":1}`)
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", `{"permits":2,"attributes":{"tier":"gold"}}`, nil), 200, `"weight":2`, `"ttl_ms":30000`)
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "attr.tier=gold", nil), 200, `"weight":1`)
	time.Sleep(200 * time.Millisecond) // what it sees may be that old
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "", nil), 403, `"kind":"denied_by_policy"`, `"reason":"less than a quarter is free"`)
	expect(t, s.rest("GET", "/v1/semaphores/db/leases", "", nil), 200, `"weight":4`, `"policy":{"name":"gold","generation":1}`)
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", `{"permits":9,"attributes":{"tier":"gold"}}`, nil), 422,
		`"kind":"weight_exceeds_limit"`, `"requested":9`, `"weight":9`, `"limit":8`)

	const others = "permits=8&wait=0&ttl=5s&holder=h&priority=1&key=k&attr.tier=gold"
	var form strings.Builder
	for n := range policies.AttributesMax - 1 {
		fmt.Fprintf(&form, "&attr.a%d=x", n)
	}
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", others+form.String(), nil), 423, "no_permit")
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", others+form.String()+"&attr.one=more", nil), 400, "65 of them, at most 64", `"field":"attributes"`)

	expect(t, s.rest("PATCH", "/v1/semaphores/db", `{"policy":null}`, nil), 200)
	if w := s.rest("GET", "/v1/semaphores/db", "", nil); strings.Contains(w.Body.String(), "policy") {
		t.Errorf("it is still bound: %s", w.Body)
	}
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "", nil), 200, `"weight":1`)
}

func TestAPolicyWeighsRequestsOverTheChannelAndTheHoldStream(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":{"name":"gold","timeout":"500ms"}}`, nil), 201)
	channel, err := s.client.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	hold, err := channel.Acquire(t.Context(), "db", client.Ask{Permits: 3})
	if err != nil || hold.Lease.Weight != 6 {
		t.Fatalf("%v, %v", hold, err)
	}
	time.Sleep(200 * time.Millisecond)
	if _, err := channel.Acquire(t.Context(), "db", client.Ask{Permits: 1, Wait: -1}); err != nil && !isKind(err, "denied_by_policy") && !isKind(err, "no_permit") {
		t.Error(err)
	}
	w := s.rest("POST", "/v1/semaphores/db/hold", "permits=9&attr.tier=gold", nil)
	expect(t, w, 422, "weight_exceeds_limit")
}

func TestAPolicyWeighsAllThatIsFree(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/weights", guest(t, "weights"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db",
		`{"limit":6,"policy":{"name":"weights","config":"attribute tier\ngold 1\nsilver 2\nbad 0\n","timeout":"500ms"}}`, nil), 201)
	const acquire = "/v1/semaphores/db/acquire"
	all := func(tier string) *httptest.ResponseRecorder {
		return s.rest("POST", acquire, "permits=all_free&attr.tier="+tier, nil)
	}
	expect(t, all("bad"), 403, `"kind":"denied_by_policy"`, `"reason":"not admitted"`)
	expect(t, all("silver"), 422, `"kind":"weight_exceeds_limit"`, `"requested":6`, `"weight":12`, `"limit":6`)
	expect(t, s.rest("POST", acquire, "permits=4&attr.tier=gold", nil), 200, `"weight":4`)
	expect(t, all("silver"), 423, `"kind":"no_permit"`, `"in_use":4`) // 2 are free and weigh 4
	expect(t, all("gold"), 200, `"requested":2`, `"weight":2`)
	expect(t, all("gold"), 423, `"in_use":6`)
	expect(t, all("bad"), 403)
	expect(t, s.rest("PATCH", "/v1/semaphores/db", `{"limit":3}`, nil), 200)
	expect(t, all("gold"), 423, `"limit":3`, `"in_use":6`, "6 permits are in use, and the limit is 3 by now")
	expect(t, all("none"), 423, `"in_use":6`) // the policy has no opinion
}

func TestABindingThatCanNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/weights", guest(t, "weights"), nil), 201)
	const db = "/v1/semaphores/db"
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":"none"}`, nil), 422, `"kind":"unknown_policy"`)
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":{"name":"weights","config":"no table"}}`, nil), 422, `"kind":"invalid_definition"`, `"field":"policy.config"`)
	for field, value := range map[string]string{"on_fault": `"allow"`, "isolation": `"none"`, "mode": `"off"`, "timeout": `"1s"`} {
		expect(t, s.rest("PUT", db, `{"limit":8,"policy":{"name":"weights","config":"attribute tier\n* 2\n","`+field+`":`+value+`}}`, nil), 422,
			`"field":"policy.`+field+`"`)
	}
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":{"nam":"weights"}}`, nil), 400, `"field":"policy.`)
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":{"config":"x"}}`, nil), 400, `"field":"policy.name"`)
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":7}`, nil), 400, `"field":"policy"`)
	expect(t, s.rest("POST", db+"/acquire", `{"create":{"limit":1,"policy":"weights"}}`, nil), 400, `"field":"create.policy"`)
	expect(t, s.rest("PUT", db, `{"limit":8,"policy":{"name":"weights","config":"attribute tier\n* 2\n"}}`, nil), 201)
	read := s.rest("GET", db, "", nil).Body.String()
	definition := read[strings.Index(read, `"definition":`)+len(`"definition":`) : strings.Index(read, `,"status"`)]
	expect(t, s.rest("PUT", db, definition, nil), 200, `"rev":1`) // what was read can be put back
	expect(t, s.rest("PUT", "/v1/policies/weights", guest(t, "gold"), nil), 200, `"rev":2`)
	expect(t, s.rest("DELETE", "/v1/policies/weights", "", nil), 409, `"kind":"policy_in_use"`, `"used_by":["db"]`)
}

func TestAPolicyInShadowIsComparedAndDoesNothing(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":{"name":"gold","mode":"shadow","timeout":"500ms"}}`, nil), 201)
	w := s.rest("POST", "/v1/semaphores/db/acquire", `{"permits":2,"holder":"anna"}`, nil)
	expect(t, w, 200, `"weight":2`, `"ttl_ms":30000`)
	if strings.Contains(w.Body.String(), "policy") {
		t.Errorf("%s", w.Body)
	}
	expect(t, s.rest("GET", "/v1/policies/gold", "", nil), 200, `"differences":[{`, `"semaphore":"db"`, `"holder":"anna"`, `"weight":4`)
	expect(t, s.rest("GET", "/metrics", "", nil), 200, `permitd_policy_shadow_differences_total{policy="gold"} 1`)
}

func TestWhatAPolicyFailsAtIsDeniedAndTold(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/bad", guest(t, "gold"), nil), 201)
	// A module that answers -2, which means nothing, to whoever asks for seven permits, and 1 to others.
	bad := "\x00asm\x01\x00\x00\x00" +
		"\x01\x0c\x02\x60\x00\x00\x60\x04\x7e\x7e\x7e\x7e\x01\x7e" + "\x03\x03\x02\x00\x01" + "\x05\x03\x01\x00\x01" +
		"\x07\x26\x03" + "\x06memory\x02\x00" + "\x0epermitd_abi_v1\x00\x00" + "\x08evaluate\x00\x01" +
		"\x0a\x12\x02\x02\x00\x0b\x0d\x00\x42\x01\x42\x7e\x20\x00\x42\x07\x51\x45\x1b\x0b"
	w := s.rest("PUT", "/v1/policies/bad", bad, nil)
	expect(t, w, 200, `"rev":2`)
	if w.Code != 200 {
		t.FailNow()
	}
	const db = "/v1/semaphores/db"
	expect(t, s.rest("PUT", db, `{"limit":1000}`, nil), 201)
	for onFault, want := range map[string]struct {
		status int
		text   string
	}{
		"deny": {403, `"kind":"policy_fault"`}, "unavailable": {503, `"kind":"policy_unavailable"`}, "allow_requested": {200, `"weight":7`},
	} {
		expect(t, s.rest("PATCH", db, `{"policy":{"name":"bad","timeout":"500ms","on_fault":"`+onFault+`"}}`, nil), 200)
		w := s.rest("POST", db+"/acquire", "permits=7", nil)
		expect(t, w, want.status, want.text)
	}
	expect(t, s.rest("GET", "/metrics", "", nil), 200, `permitd_policy_faults_total{kind="bad_result",policy="bad"} 3`, `permitd_policy_generation{policy="bad"} 2`)
	list, _, _ := s.events.after(0)
	faults := 0
	for _, e := range list {
		if e.Type == eventPolicyFault && e.Policy == "bad" && e.Generation == 2 && e.Semaphore == "db" && strings.Contains(e.Reason, "bad_result") {
			faults++
		}
	}
	if faults == 0 || faults > 3 {
		t.Errorf("%d events of %+v", faults, list)
	}
}

func TestPoliciesAreUploadedListedRevertedAndDeleted(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	const policy = "/v1/policies/a%2Fb"
	gold, weights := guest(t, "gold"), guest(t, "weights")
	expect(t, s.rest("PUT", policy+"?dry_run=true", gold, nil), 200, `"name":"a/b"`, `"sha256":"`)
	expect(t, s.rest("GET", policy, "", nil), 404, `"kind":"not_found"`)
	expect(t, s.rest("PUT", policy, gold, http.Header{"If-Match": {`"1"`}}), 412, "rev_mismatch")
	w := s.rest("PUT", policy, gold, http.Header{"If-None-Match": {"*"}})
	expect(t, w, 201, `"rev":1`, `"evaluate_ns"`)
	sum := members(t, w)["sha256"].(string)
	if w.Header().Get("ETag") != `"1"` {
		t.Errorf("ETag %s", w.Header().Get("ETag"))
	}
	expect(t, s.rest("PUT", policy, gold, nil), 200, `"rev":1`) // again
	expect(t, s.rest("PUT", policy, weights, http.Header{"If-Match": {`"1"`}}), 200, `"rev":2`)
	expect(t, s.rest("PUT", policy, `{"sha256":"`+sum+`"}`, nil), 200, `"rev":3`, `"sha256":"`+sum+`"`)
	expect(t, s.rest("PUT", policy, `{"sha256":"00"}`, nil), 404)
	expect(t, s.rest("PUT", policy, `{"sha256":7}`, nil), 400)
	expect(t, s.rest("PUT", "/v1/policies/z", weights, nil), 201)
	expect(t, s.rest("GET", "/v1/policies?count=1", "", nil), 200, `"name":"a/b"`, `"next":"a/b"`)
	expect(t, s.rest("GET", "/v1/policies?after=a%2Fb", "", nil), 200, `"name":"z"`, `"next":null`)
	expect(t, s.rest("GET", "/v1/policies", "", http.Header{"Accept": {"text/plain"}}), 200, "a/b\t3\t"+sum+"\tready\t0\n")
	expect(t, s.rest("DELETE", policy, "", http.Header{"If-Match": {`"2"`}}), 412)
	for range 2 {
		expect(t, s.rest("DELETE", policy, "", nil), 204)
	}
	expect(t, s.rest("DELETE", "/v1/policies/other", "", nil), 404)
	acts := map[string]int{}
	list, _, _ := s.events.after(0)
	for _, e := range list {
		acts[e.Type]++
	}
	if acts[actPolicyPut] != 4 || acts[actPolicyDeleted] != 1 {
		t.Errorf("events: %v", acts)
	}
}

func TestWhatIsNoPolicyIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	const policy = "/v1/policies/p"
	expect(t, s.rest("PUT", policy, "\x00asm\x0d\x00\x01\x00", nil), 422, `"kind":"invalid_module"`, `"stage":"header"`, `"got":"`, `"want":"`, `"hint":"`)
	expect(t, s.rest("PUT", policy, "hello", nil), 422, `"stage":"header"`)
	expect(t, s.rest("PUT", policy, "", nil), 422, `"stage":"header"`)
	expect(t, s.rest("PUT", policy, "\x00asm"+strings.Repeat("x", policies.ModuleMax), nil), 413, `"kind":"too_large"`)
	chunked := httptest.NewRequest("PUT", "http://localhost"+policy, &endless{left: 9 << 20})
	chunked.ContentLength, chunked.RemoteAddr = -1, "127.0.0.1:1"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, chunked)
	expect(t, w, 413, `"kind":"too_large"`)
	expect(t, s.rest("PUT", "/v1/policies/"+strings.Repeat("n", 201), guest(t, "gold"), nil), 400, `"field":"name"`)
	expect(t, s.rest("PUT", policy+"?x=1", guest(t, "gold"), nil), 400, `"field":"x"`)
}

// endless is a body of so many bytes, told of by nobody.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	e.left -= n
	if n == 0 {
		return 0, os.ErrClosed
	}
	return n, nil
}

func TestAPolicyIsAskedForATry(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	const evaluate = "/v1/policies/gold/evaluate"
	expect(t, s.rest("POST", evaluate, `{"requested":2,"limit":10,"available":9,"attributes":{"tier":"x"}}`, nil), 200,
		`"decision":"allow"`, `"weight":4`, `"ttl_ms":5000`, `"evaluate_ns":`, `"generation":1`)
	expect(t, s.rest("POST", evaluate, "requested=2&attr.tier=gold", nil), 200, `"weight":2`, `"priority":10`)
	expect(t, s.rest("POST", evaluate, `{"limit":10,"available":1}`, nil), 200, `"decision":"deny"`, `"reason":"less than a quarter is free"`)
	expect(t, s.rest("POST", evaluate, `{"attributes":{"permitd.client":"x"}}`, nil), 400, `"field":"attributes"`)
	expect(t, s.rest("POST", evaluate, `{"attributes":{"k":1}}`, nil), 400, `"field":"attributes.k"`)
	expect(t, s.rest("POST", "/v1/policies/none/evaluate", "", nil), 404)
	expect(t, s.rest("GET", "/metrics", "", nil), 200, `permitd_policy_evaluations_total{outcome="allow",policy="gold"} 0`)
}

func TestARequestWhosePolicyIsNotHereIsToldSo(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8}`, nil), 201)
	// Another replica has bound it to a policy that this one has not heard of yet.
	def := engine.Definition{Limit: 8, Policy: engine.Binding{Policy: "elsewhere"}}
	if _, _, err := s.engine.Put(t.Context(), "db", def, engine.Condition{}, "test"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "wait=0", nil), 503, `"kind":"policy_unavailable"`)
	}
	for end := time.Now().Add(20 * time.Second); s.rest("GET", "/readyz", "", nil).Code == 200; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is ready without the policy of a semaphore")
		}
	}
	expect(t, s.rest("GET", "/readyz", "", nil), 503, `"kind":"policy_unavailable"`, `\"elsewhere\"`)
	def.Policy.Mode = "shadow" // then nothing depends on it
	if _, _, err := s.engine.Put(t.Context(), "db", def, engine.Condition{}, "test"); err != nil {
		t.Fatal(err)
	}
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "wait=0", nil), 200, `"weight":1`)
	// What was in force may stay while other fields change.
	expect(t, s.rest("PATCH", "/v1/semaphores/db", `{"limit":9}`, nil), 200, `"limit":9`, `"name":"elsewhere"`)
	expect(t, s.rest("PUT", "/v1/policies/elsewhere", guest(t, "gold"), nil), 201, `"used_by":["db"]`)
	s.awaitReady(t)
}

func TestARequestThatIsMadeAgainIsNotWeighedAgain(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":{"name":"gold","timeout":"500ms"}}`, nil), 201)
	ask := `{"permits":4,"key":"one"}`
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", ask, nil), 200, `"weight":8`, `"replayed":false`)
	time.Sleep(200 * time.Millisecond) // the policy would deny it now
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", ask, nil), 200, `"weight":8`, `"replayed":true`, `"policy":{"name":"gold","generation":1}`)
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", `{"permits":4,"key":"two"}`, nil), 403, "denied_by_policy")
	expect(t, s.rest("GET", "/metrics", "", nil), 200, `permitd_policy_evaluations_total{outcome="allow",policy="gold"} 1`,
		`permitd_policy_evaluations_total{outcome="deny",policy="gold"} 1`)
}

func TestALostOrBrokenLeaseTellsWhichPolicyWeighedIt(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":{"name":"gold","timeout":"500ms"}}`, nil), 201)
	channel, err := s.client.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = channel.Close() }()
	hold, err := channel.Acquire(t.Context(), "db", client.Ask{Permits: 3})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s.rest("DELETE", "/v1/semaphores/db/leases/"+hold.Lease.ID, "", nil), 200, `"weight":6`)
	want := map[string]bool{actBroken: false, eventLost: false}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && (!want[actBroken] || !want[eventLost]); time.Sleep(5 * time.Millisecond) {
		list, _, _ := s.events.after(0)
		for _, e := range list {
			if e.Lease == hold.Lease.ID && e.Policy == "gold" && e.Generation == 1 && e.Weight == 6 {
				want[e.Type] = true
			}
		}
	}
	if !want[actBroken] || !want[eventLost] {
		list, _, _ := s.events.after(0)
		t.Errorf("%v: %+v", want, list)
	}
}

func TestPoliciesAndWhatTheyWeighAreWatched(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	w := s.open(t)
	w.send(`{"type":"watch","ref":"1","topic":"policies"}`)
	if items := w.state("1", "policies", 1, true)["items"].([]any); len(items) != 0 {
		t.Errorf("%v", items)
	}
	expect(t, s.rest("PUT", "/v1/policies/gold", guest(t, "gold"), nil), 201)
	expect(t, s.rest("PUT", "/v1/semaphores/db", `{"limit":8,"policy":"gold"}`, nil), 201)
	for seq := 2; ; seq++ {
		f := w.state("1", "policies", seq, false)
		p := f["items"].([]any)[0].(map[string]any)
		if p["name"] != "gold" || p["rev"] != 1.0 || p["used_by"] != nil || seq > 5 {
			t.Fatalf("%v", f)
		}
		if p["here"] == "ready" && p["users"] == 1.0 {
			break
		}
	}
	w.send(`{"type":"unwatch","ref":"2","topic":"policies"}`)
	w.expect("unwatched")
	expect(t, s.rest("POST", "/v1/semaphores/db/acquire", "ttl=1h&attr.tier=gold", nil), 200)
	w.send(`{"type":"watch","ref":"3","topic":"semaphore:db"}`)
	w.state("3", "semaphore:db", 1, true)
	time.Sleep(2 * topicEvery)
	w.send(`{"type":"ping","ref":"4"}`)
	w.expect("pong") // a lease that a policy weighed does not look changed each time
}

func TestATokenSeesOnlyItsSemaphoresAmongThoseThatUseAPolicy(t *testing.T) {
	t.Parallel()
	who := &principal{name: "ci", scopes: []string{scopeOperate}, globs: []string{"ci/*"}}
	st := policies.Status{UsedBy: []string{"ci/a", "db"}, Differences: []policies.Difference{{Semaphore: "db"}, {Semaphore: "ci/a"}}}
	who.hide(&st)
	if len(st.UsedBy) != 1 || st.UsedBy[0] != "ci/a" || len(st.Differences) != 1 || st.Differences[0].Semaphore != "ci/a" {
		t.Errorf("%+v", st)
	}
}
