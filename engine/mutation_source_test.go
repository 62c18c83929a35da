//go:build mutate

package engine_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is the source without a rule: one place of one file reads otherwise. A test must notice.
type mutant struct {
	rule     string // as doc.go lists it
	file     string // within engine/, Go or Lua
	old, new string
	test     string // the one that must fail: "TestX", or with its package, "redisnode TestX/y"
}

// mutantMax is how long a test may take on a mutant, once it is built: waiting for ever is no finding.
const mutantMax = 5 * time.Minute

// TestMutants takes out each rule of quorum.md whose absence is unsafe, leaks or starves, one at a time, and runs the test that
// notices. It is built by `make mutate` alone: what is tested is built anew for each mutant, with go test -overlay, so that
// nothing in the source tree changes.
func TestMutants(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rules, tests := slices.Concat(mutants, eraMutants), map[string][]string{} // tests by package
	for _, m := range rules {
		pkg, name := m.where()
		name, _, _ = strings.Cut(name, "/")
		tests[pkg] = append(tests[pkg], name)
		if !lists(doc, m.rule, name) && !strings.HasSuffix(m.file, ".lua") {
			t.Errorf("doc.go does not list %q beside %s", m.rule, name)
		}
	}
	for pkg, names := range tests {
		mustPass(t, pkg, names)
	}
	for _, m := range rules {
		t.Run(m.rule+" in "+m.file, func(t *testing.T) {
			t.Parallel()
			m.mustBeNoticed(t)
		})
	}
}

// mustPass fails the test unless these tests of a package are there and pass with all rules.
func mustPass(t *testing.T, pkg string, names []string) {
	listed, err := goTest(t, pkg, "", "-list=.")
	if err != nil {
		t.Fatalf("%v\n%s", err, listed)
	}
	for _, name := range names {
		if !bytes.Contains(listed, []byte(name+"\n")) {
			t.Errorf("there is no test %s %s", pkg, name)
		}
	}
	if output, err := goTest(t, pkg, "^("+strings.Join(names, "|")+")$"); err != nil {
		t.Fatalf("without a mutation: %v\n%s", err, output)
	}
}

// lists reports whether a line of the text has both the rule and the test.
func lists(text []byte, rule, test string) bool {
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(rule)) && bytes.Contains(line, []byte(test)) {
			return true
		}
	}
	return false
}

// where returns the package, within engine/, and the name of the test.
func (m *mutant) where() (pkg, test string) {
	if pkg, test, ok := strings.Cut(m.test, " "); ok {
		return pkg, test
	}
	return "", m.test
}

// mustBeNoticed fails the test unless the mutant's test fails, by what it says and not because it cannot be built or hangs.
func (m *mutant) mustBeNoticed(t *testing.T) {
	pkg, test := m.where()
	top, _, _ := strings.Cut(test, "/")
	output, err := goTest(t, pkg, "^"+strings.ReplaceAll(test, "/", "$/^")+"$", "-failfast", "-overlay="+m.overlay(t))
	switch {
	case err == nil:
		t.Errorf("%s does not notice", test)
	case !bytes.Contains(output, []byte("--- FAIL: "+top)), bytes.Contains(output, []byte("panic: test timed out")):
		t.Errorf("%s says nothing:\n%s", test, output)
	}
}

// overlay writes the mutated file, and what tells the build to take it.
func (m *mutant) overlay(t *testing.T) string {
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has %d times:\n%s", m.file, n, m.old)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{mutated: strings.Replace(string(source), m.old, m.new, 1), overlay: string(text)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// goTest runs tests of a package.
func goTest(t *testing.T, pkg, run string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=" + mutantMax.String(), "-run=" + run}, flags...)
	return exec.CommandContext(t.Context(), "go", append(args, "./"+pkg)...).CombinedOutput()
}
