//go:build unix

package policies

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatAKilledProcessLeftBehindIsRemovedAndNothingElse(t *testing.T) {
	// Not parallel: it sets where temporary directories are.
	t.Setenv("TMPDIR", t.TempDir())
	killed, err := newTemporary()
	if err != nil {
		t.Fatal(err)
	}
	alive, err := newTemporary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(killed.path+"/code", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	young, err := os.MkdirTemp("", cacheName) // of a process that is about to hold it
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.hold.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * staleAfter)
	for _, path := range []string{killed.path, alive.path} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	next, err := newTemporary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left behind is there: %v", err)
	}
	for _, path := range []string{alive.path, young, next.path} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, x := range []*temporary{alive, next} {
		if err := x.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(x.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	}
}

func TestWithoutAPlaceForTemporaryFilesPoliciesRunInterpreted(t *testing.T) {
	// Not parallel: it sets where temporary directories are.
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	h, err := Open(Config{Store: &Memory{}, Engine: Compiler})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	put(t, h, "p", moody())
	if h.Engine() != Interpreter {
		t.Errorf("they run by the %s", h.Engine())
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 3 {
		t.Errorf("%+v", d)
	}
	if err := h.Delete(t.Context(), "p", 0); err != nil {
		t.Error(err)
	}
	m, err := Load(t.Context(), Compiler, bytes.NewReader(moody()))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
