package policies

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// cacheName is how temporary directories of compiled code begin.
const cacheName = "permitd-policies-"

// staleAfter is how old a directory is at least that nobody holds any more: a younger one may be about to be held.
const staleAfter = time.Minute

// temporary is a directory that goes with the process: removed by remove, or, where the process was killed, by the next one.
type temporary struct {
	path string
	hold *os.File // nil: nobody can see that it is held
}

// newTemporary makes a directory, and removes those that were left behind.
func newTemporary() (*temporary, error) {
	removeStale()
	path, err := os.MkdirTemp("", cacheName)
	if err != nil {
		return nil, err
	}
	return &temporary{path, holdDirectory(path)}, nil
}

// withPlace makes the directory that the compiler needs. Where none can be made, as in a container that has no place for temporary
// files, policies run interpreted. The interpreter needs none: nil.
func withPlace(engine Engine, log *slog.Logger) (Engine, *temporary) {
	if engine == Interpreter {
		return Interpreter, nil
	}
	t, err := newTemporary()
	if err != nil {
		log.Warn("policies run interpreted: there is no place for compiled code; TMPDIR names one", "error", err)
		return Interpreter, nil
	}
	return engine, t
}

// code is where compiled code lies; "" where there is no directory.
func (t *temporary) code() string {
	if t == nil {
		return ""
	}
	return filepath.Join(t.path, "code")
}

// remove removes it, if there is one.
func (t *temporary) remove() error {
	if t == nil {
		return nil
	}
	err := os.RemoveAll(t.path)
	if t.hold != nil {
		err = errors.Join(err, t.hold.Close())
	}
	return err
}

// removeStale removes directories whose process is gone. What can not be removed is left to whoever cleans that place.
func removeStale() {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), cacheName+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		if hold := holdDirectory(path); hold != nil {
			_ = os.RemoveAll(path)
			_ = hold.Close()
		}
	}
}
