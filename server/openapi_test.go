package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/openapi"
)

// document is the embedded one.
var document = sync.OnceValue(func() *openapi3.T {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(openapi.Document)
	if err == nil {
		err = doc.Validate(loader.Context)
	}
	if err != nil {
		panic(err)
	}
	return doc
})

// operation finds what the document says of a request, by its id.
func operation(id string) (path, method string, op *openapi3.Operation) {
	for path, item := range document().Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == id {
				return path, method, op
			}
		}
	}
	return "", "", nil
}

// parameter is one of a path, as the router writes it.
var parameter = regexp.MustCompile(`:([a-z]+)`)

func TestEveryRouteIsDocumentedAndNoOther(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	var routes, documented []string
	for _, r := range s.echo.Routes() {
		if r.Method != http.MethodHead && r.Path != "/v1/semaphores/" { // which only says that a name is missing
			routes = append(routes, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
		}
	}
	for path, item := range document().Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	if !slices.Equal(routes, documented) {
		t.Errorf("routes:\n%s\ndocumented:\n%s", strings.Join(routes, "\n"), strings.Join(documented, "\n"))
	}
}

func TestKindsOfProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	text := string(openapi.Document)
	for _, k := range kinds {
		if !strings.Contains(text, k.name) && !slices.Contains([]int{400, 401, 403, 404, 405, 413, 421, 429, 500, 503}, k.status) {
			t.Errorf("%s", k.name)
		}
	}
}

// documentedRequest is a request that is documented. In target and body, LEASE and ID stand for the lease that was granted last.
type documentedRequest struct {
	id, target, body string
	status           int
	headers          string // "Name: value", one
}

func TestWhatIsDocumentedIsAnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	const db, policy = "/v1/semaphores/db", "/v1/policies/gold"
	s.rest("PUT", "/v1/policies/spare", guest(t, "weights"), nil)
	s.rest("PUT", "/v1/semaphores/denied", `{"limit":1,"policy":{"name":"spare","config":"attribute tier\n* 0\n","timeout":"500ms"}}`, nil)
	requests := []documentedRequest{
		{"put-semaphore", db, `{"limit":3}`, 201, ""},
		{"put-semaphore", db, `{"limit":3,"ttl":"20s","ttl_max":"2h","max_waiters":5,"min_hold":"0s","hold_max":"0s","priority_step":"1s","paused":false,"description":"d"}`, 200, ""},
		{"put-semaphore", db, `{"limit":4}`, 412, `If-Match: "9"`},
		{"put-semaphore", db, `{"limit":4}`, 412, "If-None-Match: *"},
		{"put-semaphore", db, `{"limit":0}`, 422, ""},
		{"put-semaphore", db, `{"limit":"x"}`, 400, ""},
		{"patch-semaphore", db, `{"description":null}`, 200, ""},
		{"patch-semaphore", "/v1/semaphores/none", `{"limit":4}`, 404, ""},
		{"patch-semaphore", db, `{"limit":4}`, 412, `If-Match: "9"`},
		{"patch-semaphore", db, `{"limit":0}`, 422, ""},
		{"get-semaphore", db, "", 200, ""},
		{"get-semaphore", "/v1/semaphores/none", "", 404, ""},
		{"get-semaphore", "/v1/semaphores/-?name=db", "", 200, ""},
		{"list-semaphores", "/v1/semaphores?prefix=d&count=1&after=a", "", 200, ""},
		{"list-semaphores", "/v1/semaphores?count=0", "", 400, ""},
		{"acquire", db + "/acquire", `{"permits":2,"wait":"1s","ttl":"5s","holder":"anna","priority":1}`, 200, ""},
		{"acquire", db + "/acquire", `{"permits":2,"wait":"0"}`, 423, ""},
		{"acquire", db + "/acquire", `{"permits":9}`, 422, ""},
		{"acquire", "/v1/semaphores/none/acquire", ``, 404, ""},
		{"acquire", "/v1/semaphores/made/acquire", `{"create":{"limit":1,"ttl":"9s","ttl_max":"10s","min_hold":"1s","hold_max":"1h","max_waiters":1}}`, 200, ""},
		{"acquire", "/v1/semaphores/made/acquire", `{"create":{"limit":2}}`, 409, ""},
		{"list-leases", "/v1/semaphores/made/leases", "", 200, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"create":7,"ttl":"0"}`, 200, ""},
		{"list-leases", "/v1/semaphores/short/leases?count=1", "", 200, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"ttl":"0"}`, 200, ""},
		{"renew", "/v1/semaphores/short/renew", `{"lease":"LEASE"}`, 200, ""},
		{"renew", "/v1/semaphores/short/renew", `{"lease":"LEASE","ttl":"1m"}`, 200, ""},
		{"release", "/v1/semaphores/short/release", `{"lease":"LEASE"}`, 200, ""},
		{"renew", "/v1/semaphores/short/renew", `{"lease":"LEASE"}`, 410, ""},
		{"renew", "/v1/semaphores/short/renew", `{"lease":"nobody's"}`, 404, ""},
		{"release", "/v1/semaphores/short/release", `{"lease":"nobody's"}`, 404, ""},
		{"release", "/v1/semaphores/short/release", `{"lease":"nobody's","keep":-1}`, 400, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"permits":"all_free"}`, 200, ""},
		{"release", "/v1/semaphores/short/release", `{"lease":"LEASE"}`, 200, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"wait":"0"}`, 200, "Idempotency-Key: one"},
		{"acquire", "/v1/semaphores/short/acquire", `{"wait":"1s","key":"one"}`, 200, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"key":"one","permits":2}`, 422, ""},
		{"release", "/v1/semaphores/short/release", `{"lease":"LEASE"}`, 200, ""},
		{"acquire", "/v1/semaphores/short/acquire", `{"key":"one"}`, 410, ""},
		{"hold", "/v1/semaphores/short/hold", `{"key":"one"}`, 410, ""},
		{"hold", "/v1/semaphores/short/hold", `{"permits":1,"wait":"1s","grace":"0s"}`, 200, ""},
		{"hold", db + "/hold", `{"permits":2,"wait":"0"}`, 423, ""},
		{"hold", db + "/hold", `{"permits":9}`, 422, ""},
		{"hold", "/v1/semaphores/none/hold", ``, 404, ""},
		{"hold", "/v1/semaphores/made/hold", `{"create":{"limit":2}}`, 409, ""},
		{"find-leases", "/v1/leases?semaphore=db&holder=anna&principal=anonymous&older_than=0&count=5", "", 200, ""},
		{"find-leases", "/v1/leases", "", 200, ""},
		{"list-waiters", db + "/waiters?count=3", "", 200, ""},
		{"list-waiters", "/v1/semaphores/none/waiters", "", 404, ""},
		{"list-leases", "/v1/semaphores/none/leases", "", 404, ""},
		{"delete-semaphore", db, "", 409, ""},
		{"acquire", db + "/acquire", `{"permits":1}`, 200, ""},
		{"break-lease", db + "/leases/ID?reason=why", "", 200, ""},
		{"break-lease", db + "/leases/none", "", 404, ""},
		{"renew", db + "/renew", `{"lease":"LEASE"}`, 410, ""},
		{"release", db + "/release", `{"lease":"LEASE"}`, 410, ""},
		{"acquire", db + "/acquire", `{"permits":1}`, 200, ""},
		{"release", db + "/release", `{"lease":"LEASE","keep":0}`, 200, ""},
		{"break-lease", db + "/leases/ID", "", 410, ""},
		{"nodes", "/v1/nodes", "", 200, ""},
		{"recover-nodes", "/v1/nodes/recover", `{"without":[],"reason":"why","dry_run":true}`, 409, ""},
		{"readmit-node", "/v1/nodes/0/readmit", `{"reason":"why"}`, 409, ""},
		{"readmit-node", "/v1/nodes/none/readmit", "", 404, ""},
		{"put-policy", policy, guest(t, "gold"), 201, ""},
		{"put-policy", policy, guest(t, "gold"), 200, "If-None-Match: *"},
		{"put-policy", policy, guest(t, "weights"), 412, `If-Match: "9"`},
		{"put-policy", policy, "hello", 422, ""},
		{"put-policy", policy, `{"sha256":"00"}`, 404, ""},
		{"get-policy", policy, "", 200, ""},
		{"get-policy", "/v1/policies/none", "", 404, ""},
		{"list-policies", "/v1/policies?count=1&after=a", "", 200, ""},
		{"evaluate-policy", policy + "/evaluate", `{"requested":2,"limit":10,"available":9,"waiting":1,"attributes":{"tier":"gold"},"config":"","semaphore":"s","holder":"h"}`, 200, ""},
		{"put-semaphore", "/v1/semaphores/weighed", `{"limit":8,"policy":{"name":"gold","config":"","on_fault":"deny","timeout":"500ms","isolation":"pooled","mode":"enforce"}}`, 201, ""},
		{"put-semaphore", "/v1/semaphores/weighed", `{"limit":8,"policy":{"name":"none"}}`, 422, ""},
		{"get-semaphore", "/v1/semaphores/weighed", "", 200, ""},
		{"acquire", "/v1/semaphores/weighed/acquire", `{"permits":4,"attributes":{"tier":"gold"}}`, 200, ""},
		{"acquire", "/v1/semaphores/weighed/acquire", `{"permits":2,"attributes":{"tier":"tin"}}`, 200, ""},
		{"acquire", "/v1/semaphores/denied/acquire", `{}`, 403, ""},
		{"hold", "/v1/semaphores/denied/hold", `{}`, 403, ""},
		{"list-leases", "/v1/semaphores/weighed/leases", "", 200, ""},
		{"delete-policy", policy, "", 409, ""},
		{"patch-semaphore", "/v1/semaphores/denied", `{"policy":null}`, 200, ""},
		{"delete-policy", "/v1/policies/spare", "", 412, `If-Match: "99"`},
		{"delete-policy", "/v1/policies/spare", "", 204, ""},
		{"history", "/v1/history?semaphore=db", "", 200, ""},
		{"history", "/v1/history?semaphore=none", "", 404, ""},
		{"events", "/v1/events?semaphore=db", "", 200, "Last-Event-ID: x"},
		{"delete-semaphore", db + "?break=true", "", 412, `If-Match: "9"`},
		{"delete-semaphore", db + "?break=true&reason=old", "", 204, ""},
		{"delete-semaphore", db, "", 404, ""},
		{"channel", "/v1/ws", "", 400, ""},
		{"healthz", "/healthz", "", 200, ""},
		{"readyz", "/readyz", "", 200, ""},
		{"metrics", "/metrics", "", 200, ""},
		{"problems", "/problems", "", 200, ""},
		{"openapi", "/openapi.json", "", 200, ""},
		{"swagger", "/swagger.json", "", 200, ""},
		{"channel-schema", "/channel.schema.json", "", 200, ""},
		{"docs", "/docs", "", 200, ""},
		{"root", "/", "", 302, ""},
	}
	sent := map[string]map[int]bool{
		"channel":       {101: true},            // by every test of the channel
		"recover-nodes": {200: true, 202: true}, // by TestAnOperatorGoesOnWithoutANodeThatIsLost
		"readmit-node":  {200: true, 202: true}, // by TestAnOperatorTakesBackANodeThatWasReplaced
	}
	lease := ""
	for _, r := range requests {
		id, _, _ := strings.Cut(lease, ".")
		r.target, r.body = strings.ReplaceAll(r.target, "ID", id), strings.ReplaceAll(r.body, "LEASE", lease)
		for _, accept := range []string{"application/json", "text/plain"} {
			if accept == "text/plain" && (r.status < 400 || r.id == "hold") { // of the others, once is enough: they change something
				continue
			}
			body := s.sendDocumented(t, r, accept)
			if r.id == "acquire" && r.status == 200 {
				lease, _ = body.(map[string]any)["lease"].(string)
			}
		}
		if sent[r.id] == nil {
			sent[r.id] = map[int]bool{}
		}
		sent[r.id][r.status] = true
	}
	for path, item := range document().Paths.Map() {
		for method, op := range item.Operations() {
			for code := range op.Responses.Map() {
				n, err := strconv.Atoi(code)
				if err == nil && !sent[op.OperationID][n] && n != 429 && n != 503 { // which other tests provoke
					t.Errorf("%s %s: no request is answered with the documented %d", method, path, n)
				}
			}
		}
	}
}

// sendDocumented sends a request and validates it and its answer against the document. It returns what the answer says.
func (s *served) sendDocumented(t *testing.T, r documentedRequest, accept string) any {
	t.Helper()
	_, method, op := operation(r.id)
	if op == nil {
		t.Fatalf("%s is not documented", r.id)
	}
	if strings.HasPrefix(r.body, "{") && r.status != 400 && r.status != 422 && r.id != "put-policy" {
		var body any
		if err := json.Unmarshal([]byte(r.body), &body); err != nil {
			t.Fatal(err)
		}
		if err := op.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(body); err != nil {
			t.Errorf("%s %s: %v", r.id, r.body, err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, method, s.url+r.target, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	if name, value, found := strings.Cut(r.headers, ": "); found {
		request.Header.Set(name, value)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // streams are cut
	if response.StatusCode != r.status {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s %s: %s %s", r.id, r.target, r.body, response.Status, text)
	}
	return checkDocumented(t, r, op, response)
}

// checkDocumented validates an answer: its status, headers, type and content.
func checkDocumented(t *testing.T, r documentedRequest, op *openapi3.Operation, response *http.Response) any {
	t.Helper()
	documented := op.Responses.Status(r.status)
	if documented == nil {
		documented = op.Responses.Default()
	}
	for name := range documented.Value.Headers {
		if response.Header.Get(name) == "" {
			t.Errorf("%s %d: no %s", r.id, r.status, name)
		}
	}
	if r.status == http.StatusNoContent {
		return nil
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	content := documented.Value.Content[media]
	if err != nil || content == nil {
		t.Errorf("%s %d: %s is not documented, but %v", r.id, r.status, media, slices.Sorted(maps.Keys(documented.Value.Content)))
		return nil
	}
	if r.id == "hold" && r.status == 200 || r.id == "events" {
		if lines := bufio.NewScanner(response.Body); !lines.Scan() {
			t.Errorf("%s: nothing comes", r.id)
		}
		return nil
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body any = string(text)
	if strings.HasSuffix(media, "json") {
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
	}
	if err := content.Schema.Value.VisitJSON(body); err != nil {
		t.Errorf("%s %s %d: %v", r.id, r.target, r.status, err)
	}
	return body
}

// wordsOf is an object with every member of a documented type.
func wordsOf(v reflect.Type) map[string]any {
	words := map[string]any{}
	for f := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch f.Type.Kind() {
		case reflect.Int:
			words[name] = 1
		case reflect.String:
			words[name] = "1s"
		case reflect.Bool:
			words[name] = true
		case reflect.Pointer:
			words[name] = wordsOf(f.Type.Elem())
		case reflect.Slice:
			words[name] = []string{}
		case reflect.Map:
			words[name] = map[string]string{"a": "b"}
		case reflect.Struct: // embedded
			maps.Copy(words, wordsOf(f.Type))
		}
	}
	return words
}

func TestTheDecoderKnowsTheDocumentedWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		documented any
		read       func(*params) error
	}{
		{acquireBody{}, func(p *params) error { _, _, err := p.ask(engine.HolderInfo{}, everyone, engine.WaitMax); return err }},
		{holdBody{}, func(p *params) error {
			p.grace()
			_, _, err := p.ask(engine.HolderInfo{}, everyone, engine.WaitMaxChannel)
			return err
		}},
		{attachBody{}, func(p *params) error {
			p.text("semaphore", engine.NameMax)
			p.capability()
			p.grace()
			return p.end()
		}},
		{definitionBody{}, func(p *params) error {
			_, invalid := p.definition(engine.Definition{})
			return firstError(p.end(), invalid)
		}},
		{patchBody{}, func(p *params) error {
			_, invalid := p.definition(engine.Definition{})
			return firstError(p.end(), invalid)
		}},
		{releaseBody{}, func(p *params) error { p.capability(); p.integer("keep", 0, 0, engine.WeightMax); return p.end() }},
		{renewBody{}, func(p *params) error { p.capability(); p.ttl(); return p.end() }},
	} {
		text, err := json.Marshal(wordsOf(reflect.TypeOf(test.documented)))
		if err != nil {
			t.Fatal(err)
		}
		p := &params{}
		if !p.addJSON(string(text)) {
			t.Fatalf("%s", text)
		}
		if err := test.read(p); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Whatever else is wrong with what these are asked, every word is known.
func TestEndpointsKnowTheirDocumentedWords(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	for target, documented := range map[string]any{
		"/v1/nodes/0/readmit": readmitBody{}, "/v1/nodes/recover": recoverBody{}, "/v1/policies/x/evaluate": evaluateBody{},
	} {
		words, err := json.Marshal(wordsOf(reflect.TypeOf(documented)))
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{string(words), `{"other":1}`} {
			w := s.request("POST", target, body)
			if known := !strings.Contains(w.Body.String(), "is not known here"); known != (body == string(words)) {
				t.Errorf("%s %s: %s", target, body, w.Body)
			}
		}
	}
}

func TestTheDocsAreOnePageThatRunsItsOwnScriptAlone(t *testing.T) {
	t.Parallel()
	w := serve(t).request("GET", "/docs", "")
	policy := w.Header().Get("Content-Security-Policy")
	if !contains(policy, "default-src 'none'", "script-src 'sha256-"+hashOfScript(w.Body.String())+"'") || strings.Contains(policy, "unsafe-eval") {
		t.Error(policy)
	}
	if strings.Contains(w.Body.String(), "http://") || strings.Contains(w.Body.String(), "https://") || w.Body.Len() > 8<<10 {
		t.Error("it has something from elsewhere, or is large")
	}
}
