package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// nameIn is the name that a request line names.
func nameIn(t *testing.T, target string) (string, error) {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return "", err
	}
	p := &params{}
	p.addForm(u.RawQuery)
	return semaphoreName(&http.Request{URL: u}, p)
}

func TestNamesAreTakenAsGivenDecodedOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for target, want := range map[string]string{
		"db":                          "db",
		"team:db":                     "team:db",
		"team%3Adb":                   "team:db",
		"team%2Fdb":                   "team/db",
		"team%2fdb/acquire":           "team/db",
		"a%20b":                       "a b",
		"a+b":                         "a+b",
		"%7Bid%7D":                    "{id}",
		"a%252Fb":                     "a%2Fb",
		"100%25":                      "100%",
		"%F0%9F%94%92":                "🔒",
		"🔒":                           "🔒",
		"..":                          "..",
		"%2E%2E":                      "..",
		"-?name=..":                   "..",
		"-?name=-":                    "-",
		"-?name=a%2Fb%252F":           "a/b%2F",
		"-?name=a+b":                  "a b",
		"-/acquire?name=team/db":      "team/db",
		long:                          long,
		"a;b=c@d!$&'()*,":             "a;b=c@d!$&'()*,",
		"acquire/acquire":             "acquire",
		"%61cquire":                   "acquire",
		strings.Repeat("%C3%A9", 100): strings.Repeat("é", 100),
	} {
		if got, err := nameIn(t, semaphoresPath+target); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", target, got, err, want)
		}
	}
}

func TestNamesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"", "/acquire", "%00", "a%0Ab", "a%1F", "%7F", "%C2%80", "%FF", "%C3", strings.Repeat("x", 201), strings.Repeat("%C3%A9", 101),
		"-", "-?name=", "-?name=%00", "-?name=" + strings.Repeat("x", 201), "-?name=a&name=a",
	} {
		if got, err := nameIn(t, semaphoresPath+target); err == nil || problemOf(err).Field != "name" || problemOf(err).Status != 400 {
			t.Errorf("%s: %q, %v", target, got, err)
		}
	}
}

func TestANameBesidesTheOneInThePathIsRefused(t *testing.T) {
	t.Parallel()
	p := &params{}
	p.addForm("name=other")
	name, err := semaphoreName(&http.Request{URL: &url.URL{Path: semaphoresPath + "db"}}, p)
	if err != nil || name != "db" || p.end() == nil {
		t.Errorf("%q, %v, %v", name, err, p.end())
	}
}

func FuzzANameSurvivesItsPath(f *testing.F) {
	for _, seed := range []string{"db", "team/db", "a%2Fb", "..", "🔒", "a b+c", "-", "\x00", "\xff", strings.Repeat("x", 201)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		valid := name != "" && len(name) <= 200 && utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsControl) < 0
		if name != "-" {
			got, err := nameIn(t, semaphoresPath+url.PathEscape(name)+"/acquire")
			if valid != (err == nil) || valid && got != name {
				t.Fatalf("in the path: %q, %v", got, err)
			}
		}
		got, err := nameIn(t, semaphoresPath+"-?name="+url.QueryEscape(name))
		if valid != (err == nil) || valid && got != name {
			t.Fatalf("in the query: %q, %v", got, err)
		}
	})
}
