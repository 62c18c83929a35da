package policies

import (
	"errors"
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

func (t *temporary) remove() error {
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
