package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/permitd/permitd/engine"
)

func paramsOf(query, body string) *params {
	p := &params{}
	p.addForm(query)
	p.addBody(body, "application/x-www-form-urlencoded")
	return p
}

func TestParametersComeFromTheQueryAFormOrJSON(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*params{
		"query":                paramsOf("permits=3&wait=25s&holder=an%20na&flag=true", ""),
		"form":                 paramsOf("", "permits=3&wait=25s&holder=an+na&flag=true"),
		"form with a new line": paramsOf("", "permits=3&wait=25s&holder=an+na&flag=true\r\n"),
		"query and form":       paramsOf("permits=3", "wait=25s&&holder=an+na&flag=true&"),
		"JSON":                 paramsOf("", ` {"permits":3,"wait":"25s", "holder" : "an na","flag":true}`+"\n"),
		"query and JSON":       paramsOf("permits=3", `{"wait":"25s","holder":"an na","flag":true}`),
		"JSON with escapes":    paramsOf("", `{"permits":3,"wait":"25\u0073","holder":"a\u006e\u0020na","fl\u0061g":true}`),
	} {
		permits, wait := p.integer("permits", 1, 1, 10), p.duration("wait", time.Second, 0, time.Minute)
		holder, flag := p.text("holder", 20), p.flag("flag", false)
		if err := p.end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if permits != 3 || wait != 25*time.Second || holder != "an na" || !flag {
			t.Errorf("%s: %d %v %q %v", name, permits, wait, holder, flag)
		}
	}
}

func TestWhatIsNotKnownOrNotCleanIsRefusedWithItsField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, query, body, field string
	}{
		{"unknown in a query", "wiat=1s", "", "wiat"},
		{"unknown in a form", "", "wiat=1s", "wiat"},
		{"unknown in JSON", "", `{"wiat":"1s"}`, "wiat"},
		{"wrong case", "", `{"Permits":1}`, "Permits"},
		{"twice in a query", "permits=1&permits=1", "", "permits"},
		{"twice in a form", "", "permits=1&permits=2", "permits"},
		{"twice in JSON", "", `{"permits":1,"permits":1}`, "permits"},
		{"twice in JSON by an escape", "", `{"permits":1,"permit\u0073":1}`, "permits"},
		{"in the query and in the form", "permits=1", "permits=1", "permits"},
		{"in the query and in JSON", "permits=1", `{"permits":1}`, "permits"},
		{"null", "", `{"permits":null}`, "permits"},
		{"null inside an object", "", `{"create":{"limit":null}}`, "create.limit"},
		{"unknown inside an object", "", `{"create":{"limit":1,"paused":true}}`, "create.paused"},
		{"twice inside an object", "", `{"create":{"limit":1,"limit":2}}`, "create.limit"},
		{"trailing data", "", `{"permits":1} 2`, ""},
		{"two objects", "", `{"permits":1}{"permits":1}`, ""},
		{"an open object", "", `{"permits":1`, ""},
		{"a trailing comma", "", `{"permits":1,}`, ""},
		{"a single quote", "", `{'permits':1}`, ""},
		{"an array", "", `[1]`, ""},
		{"a string", "", `"permits"`, ""},
		{"a number", "", `3`, ""},
		{"invalid UTF-8 in JSON", "", "{\"holder\":\"\xff\"}", ""},
		{"invalid UTF-8 in a query", "holder=%ff", "", ""},
		{"half a surrogate pair as a name", "", `{"\ud800":1}`, ""},
		{"half a surrogate pair as a value", "", `{"holder":"\ud800"}`, "holder"},
		{"a damaged escape", "holder=%4", "", ""},
		{"a name without a value", "permits", "", "permits"},
		{"too many", manyPairs(paramsMax + 1), "", ""},
		{"a key of other characters", "", `key=a%2Fb`, "key"},
		{"an empty key", "", `key=`, "key"},
		{"a long key", "", "key=" + strings.Repeat("x", 129), "key"},
		{"a long ticket", "", "ticket=" + strings.Repeat("x", 513), "ticket"},
		{"grace without a connection", "", `grace=1s`, "grace"},
		{"half of what is free", "", `permits=half_free`, "permits"},
		{"all that is free and a number", "permits=all_free", `{"permits":1}`, "permits"},
	} {
		p := paramsOf(test.query, test.body)
		_, _, err := p.ask(engine.HolderInfo{Principal: "p", Address: "a"}, everyone, engine.WaitMax)
		if err == nil {
			t.Errorf("%s: accepted", test.name)
			continue
		}
		if got := problemOf(err); got.Kind != "bad_request" || got.Status != 400 || got.Field != test.field {
			t.Errorf("%s: kind %s, field %q, want field %q", test.name, got.Kind, got.Field, test.field)
		}
	}
}

func manyPairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%d=1&", i)
	}
	return b.String()
}

func TestIntegersAreWrittenAsIntegers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "10000": 10000, "9007199254740991": 1<<53 - 1, "-9007199254740991": -(1<<53 - 1),
	} {
		if got, ok := parseInteger(text); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "-", "+1", "01", "-01", "1.0", "1.5", "1e2", "1E2", "1e308", "0x10", "1_000", " 1", "1 ", "९",
		"9007199254740992", "-9007199254740992", "9223372036854775807", "9223372036854775808", strings.Repeat("9", 400), "NaN", `"3"`, "true",
	} {
		if got, ok := parseInteger(text); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestWeightsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for _, weight := range []string{"-1", "0", "1.5", `"3"`, "1e308", "9223372036854775807", "10001", "1e0", "[1]", "{}", "true", `""`} {
		p := &params{}
		if !p.addJSON(`{"permits":` + weight + `}`) {
			t.Fatal(weight)
		}
		if _, _, err := p.ask(engine.HolderInfo{}, everyone, engine.WaitMax); err == nil || problemOf(err).Field != "permits" {
			t.Errorf("JSON %s: %v", weight, err)
		}
		p = paramsOf("permits="+url.QueryEscape(weight), "")
		if _, _, err := p.ask(engine.HolderInfo{}, everyone, engine.WaitMax); err == nil || problemOf(err).Field != "permits" {
			t.Errorf("query %s: %v", weight, err)
		}
	}
}

func TestDurationsNeedAUnitABareZeroAside(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{
		`{"wait":0}`: 0, `{"wait":"0"}`: 0, `{"wait":"0s"}`: 0, `{"wait":"1m30s"}`: 90 * time.Second,
		`{"wait":"250ms"}`: 250 * time.Millisecond, `wait=0`: 0, `wait=1.5s`: 1500 * time.Millisecond, ``: 10 * time.Second,
	} {
		ask, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax)
		if err != nil || ask.Wait != want {
			t.Errorf("%s: %v, %v", body, ask.Wait, err)
		}
	}
	for _, body := range []string{
		`{"wait":25}`, `{"wait":"25"}`, `wait=25`, `wait=`, `wait`, `wait=s`, `wait=-1s`, `wait=11m`, `wait=1d`, `{"wait":true}`,
		`{"wait":["1s"]}`, `{"wait":0.0}`, `{"wait":-0}`, `wait=1e3s`, `wait=99999999999h`,
	} {
		if ask, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax); err == nil || problemOf(err).Field != "wait" {
			t.Errorf("%s: %v, %v", body, ask.Wait, err)
		}
	}
}

func TestTTLOfNothingMeansUntilReleased(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{
		"": 0, "ttl=0": engine.Never, `{"ttl":0}`: engine.Never, "ttl=0s": engine.Never, "ttl=1s": time.Second, "ttl=168h": 168 * time.Hour,
	} {
		if ask, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax); err != nil || ask.TTL != want {
			t.Errorf("%q: %v, %v", body, ask.TTL, err)
		}
	}
	for _, body := range []string{"ttl=999ms", "ttl=1ns", "ttl=-1s", "ttl=169h", "ttl=30"} {
		if _, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax); err == nil || problemOf(err).Field != "ttl" {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestCreateIsALimitOrAnObject(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]engine.Definition{
		`create=3`:               {Limit: 3},
		`{"create":3}`:           {Limit: 3},
		`{"create":{"limit":3}}`: {Limit: 3},
		`{"create":{ "limit":3 , "ttl":"5s","ttl_max":"1m","min_hold":"1s","hold_max":"2h","max_waiters":7}}`: {
			Limit: 3, TTL: 5 * time.Second, TTLMax: time.Minute, MinHold: time.Second, HoldMax: 2 * time.Hour, MaxWaiters: 7,
		},
	} {
		ask, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax)
		if err != nil || ask.Create == nil || *ask.Create != want {
			t.Errorf("%s: %+v, %v", body, ask.Create, err)
		}
	}
	for body, field := range map[string]string{
		`create=0`: "create", `create=1000001`: "create", `create={"limit":1}`: "create", `{"create":"3"}`: "create", `{"create":[3]}`: "create",
		`{"create":{}}`: "create.limit", `{"create":{"limit":0}}`: "create.limit", `{"create":{"limit":"3"}}`: "create.limit",
		`{"create":{"limit":1,"ttl":0}}`:         "create.ttl",
		`{"create":{"limit":1,"max_waiters":0}}`: "create.max_waiters", `{"create":{"limit":1,"description":"x"}}`: "create.description",
	} {
		_, _, err := paramsOf("", body).ask(engine.HolderInfo{}, everyone, engine.WaitMax)
		if err == nil || problemOf(err).Field != field {
			t.Errorf("%s: %v, want field %s", body, err, field)
		}
	}
}

func TestADefinitionInAFormIsToldWhereItBelongs(t *testing.T) {
	t.Parallel()
	_, _, err := paramsOf("", `create={"limit":3}`).ask(engine.HolderInfo{}, everyone, engine.WaitMax)
	if want := "create must be the limit alone in a form; a definition needs a JSON body"; err == nil || problemOf(err).Detail != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestAHolderIsOneLine(t *testing.T) {
	t.Parallel()
	from := engine.HolderInfo{Principal: "anonymous", Address: "10.0.0.7"}
	for body, want := range map[string]string{
		"": "anonymous@10.0.0.7", "holder=": "anonymous@10.0.0.7", "holder=anna": "anna", "holder=%E2%9C%93": "✓",
	} {
		if ask, _, err := paramsOf("", body).ask(from, everyone, engine.WaitMax); err != nil || ask.Holder.Holder != want {
			t.Errorf("%q: %q, %v", body, ask.Holder.Holder, err)
		}
	}
	for _, body := range []string{"holder=a%0Ab", "holder=a%1Bb", "holder=%C2%85", "holder=" + strings.Repeat("x", 129), `{"holder":7}`, `{"holder":"\u0000"}`} {
		if _, _, err := paramsOf("", body).ask(from, everyone, engine.WaitMax); err == nil || problemOf(err).Field != "holder" {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 168 * time.Hour: "168h", 100 * time.Millisecond: "100ms", 10 * time.Minute: "10m",
	} {
		got := formatDuration(d)
		back, err := time.ParseDuration(got)
		if got != want || err != nil || back != d {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// The decoder against encoding/json: what both read they read alike, and ours takes nothing that the other refuses.
func FuzzJSONIsReadAsEncodingJSONReadsIt(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `{"a":"x\n\u00e9\ud83d\ude00"}`, `{"a":{"b":[1,2,{"c":"}"}]},"d":true}`, `{}`, ` { "a" : null } `, `{"a":"\ud800"}`,
		`{"a":1,"a":2}`, `{"\u0061":1}`, `[]`, `{"a":-0}`, `{"a":"\/\b\f\r\t\"\\"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := &params{}
		ok := p.addJSON(text)
		var want map[string]json.RawMessage
		err := json.Unmarshal([]byte(text), &want)
		if ok != (err == nil && want != nil && utf8.ValidString(text)) {
			t.Fatalf("%q: ok is %v, encoding/json says %v", text, ok, err)
		}
		if !ok || p.err != nil {
			return
		}
		if len(p.list) != len(want) {
			t.Fatalf("%q: %d members, want %d", text, len(p.list), len(want))
		}
		for _, v := range p.list {
			if string(want[v.name]) != v.text {
				t.Fatalf("%q: %q is %q, want %q", text, v.name, v.text, want[v.name])
			}
			if s, isString := v.string(); isString {
				var back string
				if err := json.Unmarshal([]byte(v.text), &back); err != nil || back != s {
					t.Fatalf("%q: %q, want %q, %v", v.text, s, back, err)
				}
			}
		}
	})
}

// Whatever comes in, the answer is an Ask within its limits or a bad_request.
func FuzzAnAskIsWithinItsLimitsOrRefused(f *testing.F) {
	f.Add("permits=3&wait=25s", `{"ttl":"1m"}`)
	f.Add("create=1", "holder=x&priority=-5")
	f.Add("", `{"create":{"limit":1,"min_hold":"1s"}}`)
	f.Fuzz(func(t *testing.T, query, body string) {
		ask, _, err := paramsOf(query, body).ask(engine.HolderInfo{Principal: "p", Address: "a"}, everyone, engine.WaitMax)
		if err != nil {
			if p := problemOf(err); p.Status != 400 || p.Kind != "bad_request" {
				t.Fatalf("%v", p)
			}
			return
		}
		switch {
		case ask.Permits < 1 || ask.Permits > engine.WeightMax,
			ask.Wait < 0 || ask.Wait > engine.WaitMax,
			ask.TTL != 0 && ask.TTL != engine.Never && (ask.TTL < engine.TTLMin || ask.TTL > engine.TTLMaxMax),
			ask.Priority < -engine.PriorityMax || ask.Priority > engine.PriorityMax,
			len(ask.Holder.Holder) > engine.HolderMax || !plainText(ask.Holder.Holder),
			ask.Create != nil && ask.Create.Validate() != nil:
			t.Fatalf("%q %q: %+v", query, body, ask)
		}
	})
}

func TestTheLargestDurationsDoNotOverflow(t *testing.T) {
	t.Parallel()
	p := paramsOf("a=2562047h47m16.854775807s", "")
	if d := p.duration("a", 0, 0, math.MaxInt64); p.end() != nil || d != math.MaxInt64 {
		t.Errorf("%v, %v", d, p.err)
	}
	p = paramsOf("a=2562047h47m16.854775808s", "")
	if p.duration("a", 0, 0, math.MaxInt64); p.end() == nil {
		t.Error("accepted")
	}
}
