package policies

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// goGuests are the guests written in Go, by name: the examples, and those of testdata that misbehave. They are built once.
var goGuests = sync.OnceValues(func() (map[string][]byte, error) {
	directory, err := os.MkdirTemp("", "permitd-guests-")
	if err != nil {
		return nil, err
	}
	guests, err := buildGuests(directory)
	return guests, errors.Join(err, os.RemoveAll(directory))
})

func buildGuests(directory string) (guests map[string][]byte, err error) {
	guests = map[string][]byte{}
	for _, source := range []string{"guests/go/gold", "guests/go/weights", "guests/go/shares", "guests/go/hours", "testdata/moody"} {
		out := filepath.Join(directory, filepath.Base(source)+".wasm")
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./"+source)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", source, err, said)
		}
		if guests[filepath.Base(source)], err = os.ReadFile(out); err != nil {
			return nil, err
		}
	}
	return guests, nil
}

func goGuest(t testing.TB, name string) []byte {
	t.Helper()
	guests, err := goGuests()
	if err != nil {
		t.Fatal(err)
	}
	return guests[name]
}

// languages are an example in all languages it is written in.
func languages(t testing.TB, name string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{"go": goGuest(t, name)}
	for _, language := range []string{"c", "rust", "assemblyscript"} {
		wasm, err := os.ReadFile(filepath.Join("guests", language, name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		all[language] = wasm
	}
	return all
}

// guestCase is a request and what every language answers.
type guestCase struct {
	requested, limit, available int64
	attributes                  string // key=value
	now                         string // RFC 3339
	want                        string
}

// answer puts a decision into a line.
func answer(d Decision) string {
	line := fmt.Sprintf("%s %d", d.Outcome, d.Weight)
	if d.HasPriority {
		line += fmt.Sprintf(" priority %d", d.Priority)
	}
	if d.TTL > 0 {
		line += " ttl " + d.TTL.String()
	}
	if d.Reason != "" {
		line += ": " + d.Reason
	}
	if d.Fault != nil {
		line = d.Fault.Error()
	}
	return line
}

func (c guestCase) request(t *testing.T) *Request {
	r := &Request{Semaphore: "db", Requested: c.requested, Limit: c.limit, Available: c.available}
	if key, value, there := strings.Cut(c.attributes, "="); there {
		r.Attributes = map[string]string{key: value}
	}
	if c.now != "" {
		at, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		r.Now = at
	}
	return r
}

// same checks that an example answers alike in all languages.
func same(t *testing.T, name, config string, cases []guestCase) {
	t.Helper()
	for language, wasm := range languages(t, name) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, Config{})
			put(t, h, name, wasm)
			for _, c := range cases {
				d, err := h.Evaluate(t.Context(), &Binding{Policy: name, Config: config, Timeout: TimeoutMax}, c.request(t))
				if got := answer(d); err != nil || got != c.want {
					t.Errorf("%+v: %q, %v", c, got, err)
				}
			}
		})
	}
}

func TestGoldIsTheSameInAllLanguages(t *testing.T) {
	t.Parallel()
	same(t, "gold", "", []guestCase{
		{3, 100, 0, "tier=gold", "", "allow 3 priority 10"},
		{3, 100, 25, "tier=silver", "", "allow 6 ttl 5s"},
		{3, 100, 24, "tier=silver", "", "deny 0: less than a quarter is free"},
		{1, 100, 100, "", "", "allow 2 ttl 5s"},
		{1, 100, 100, "tier=golden", "", "allow 2 ttl 5s"},
		{1, 100, 100, "tier=gol", "", "allow 2 ttl 5s"},
		{1, 100, 100, "tier=" + strings.Repeat("gold", 100), "", "allow 2 ttl 5s"},
	})
}

func TestWeightsAreTheSameInAllLanguages(t *testing.T) {
	t.Parallel()
	same(t, "weights", "# by tier\n\nattribute tier\r\ngold 1\nsilver\t2\nbanned 0\n* 4\n* 5", []guestCase{
		{3, 10, 10, "tier=gold", "", "allow 3"},
		{3, 10, 10, "tier=silver", "", "allow 6"},
		{3, 10, 10, "tier=bronze", "", "allow 12"},
		{3, 10, 10, "tier=", "", "allow 12"},
		{3, 10, 10, "", "", "allow 12"},
		{3, 10, 10, "tier=banned", "", "deny 0: not admitted"},
	})
	same(t, "weights", "attribute tier\ngold 999999", []guestCase{
		{10_000, 10, 10, "tier=gold", "", "allow 9999990000"},
		{3, 10, 10, "tier=silver", "", "none 3"},
	})
}

func TestSharesAreTheSameInAllLanguages(t *testing.T) {
	t.Parallel()
	same(t, "shares", "attribute tenant\nacme 50\n* 10\nover deny\n", []guestCase{
		{5, 100, 10, "tenant=acme", "", "none 5"},
		{6, 100, 10, "tenant=acme", "", "deny 0: more than its share of what is available"},
		{1, 100, 10, "tenant=other", "", "none 1"},
		{2, 100, 10, "tenant=other", "", "deny 0: more than its share of what is available"},
		{1, 100, 0, "", "", "deny 0: more than its share of what is available"},
	})
	same(t, "shares", "attribute tenant\nacme 50\nover priority -20", []guestCase{
		{6, 100, 10, "tenant=acme", "", "none 6 priority -20"},
		{100, 100, 10, "tenant=other", "", "none 100"},
	})
}

func TestHoursAreTheSameInAllLanguages(t *testing.T) {
	t.Parallel()
	same(t, "hours", "utc +60\nopen 1-5 08:00-18:00\nopen 6 9:30-12:00\noutside deny", []guestCase{
		{2, 10, 10, "", "2026-01-05T07:00:00Z", "none 2"}, // a Monday, 8:00 there
		{2, 10, 10, "", "2026-01-05T06:59:59Z", "deny 0: outside office hours"},
		{2, 10, 10, "", "2026-01-09T16:59:59Z", "none 2"},
		{2, 10, 10, "", "2026-01-09T17:00:00Z", "deny 0: outside office hours"},
		{2, 10, 10, "", "2026-01-10T08:30:00Z", "none 2"}, // a Saturday
		{2, 10, 10, "", "2026-01-10T08:29:00Z", "deny 0: outside office hours"},
		{2, 10, 10, "", "2026-01-11T10:00:00Z", "deny 0: outside office hours"},
	})
	same(t, "hours", "open 7 00:00-24:00\noutside times 3\nutc -300", []guestCase{
		{2, 10, 10, "", "2026-01-11T04:59:00Z", "allow 6"}, // Saturday, 23:59 there
		{2, 10, 10, "", "2026-01-11T05:00:00Z", "none 2"},
		{2, 10, 10, "", "2026-01-12T04:59:00Z", "none 2"},
		{2, 10, 10, "", "2026-01-12T05:00:00Z", "allow 6"},
	})
}

func TestWrongConfigurationsAreRefusedInAllLanguages(t *testing.T) {
	t.Parallel()
	for name, configs := range map[string][]string{
		"weights": {
			"", "gold 1", "attribute", "attribute a b", "attribute tier\ngold", "attribute tier\ngold 1 2", "attribute tier\ngold -1",
			"attribute tier\ngold 1.5", "attribute tier\ngold 1234567",
		},
		"shares": {
			"", "over deny", "attribute tenant\nover", "attribute tenant\nover deny now", "attribute tenant\nover priority 20",
			"attribute tenant\nover priority -101", "attribute tenant\nover priority -0", "attribute tenant\nover priority -",
		},
		"hours": {
			"", "outside deny", "open", "open 1-5", "open 0-5 8:00-9:00", "open 1-8 8:00-9:00", "open 5-1 8:00-9:00", "open 1 9:00-8:00",
			"open 1 8:00", "open 1 8:0-9:00", "open 1 8:60-9:00", "open 1 8:00-24:01", "open 1 8:00-9:00 10:00", "utc 60 60\nopen 1 8:00-9:00",
			"utc 1441\nopen 1 8:00-9:00", "utc +-1\nopen 1 8:00-9:00", "open 1 8:00-9:00\noutside", "open 1 8:00-9:00\noutside times 0",
			"open 1 8:00-9:00\noutside deny 3", "closed 1 8:00-9:00", strings.Repeat("open 1 8:00-9:00\n", 33),
		},
	} {
		for language, wasm := range languages(t, name) {
			t.Run(name+" in "+language, func(t *testing.T) {
				t.Parallel()
				m, err := Load(t.Context(), usualEngine, bytes.NewReader(wasm))
				if err != nil {
					t.Fatal(err)
				}
				for _, config := range configs {
					d, err := m.Evaluate(config, &Request{Requested: 1, Limit: 1})
					if err != nil || d.Fault == nil || d.Fault.Kind != FaultBadResult || len(d.Logs) == 0 {
						t.Errorf("%q: %+v %v", config, d, err)
					}
				}
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// The README shows the example in C as it is: who copies it gets a policy.
func TestTheREADMEShowsThePolicyAsItIs(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("guests/c/gold.c")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, bytes.TrimSpace(source)) {
		t.Error("it shows something else than guests/c/gold.c")
	}
}
