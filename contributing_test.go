package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What CONTRIBUTING.md says of faults that others had is only worth something as long as the tests are there.
func TestTheTestsThatCONTRIBUTINGNamesAreThere(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(string(guide), -1)
	if len(named) < 50 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, n := range named {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(n[1]), "…", `\w*`) // "…" stands for the rest of several
		if !regexp.MustCompile(`(?m)^func ` + pattern + `\(t \*testing\.T\)`).MatchString(sources.String()) {
			t.Errorf("there is no %s", n[1])
		}
	}
}
