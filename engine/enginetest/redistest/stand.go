package redistest

import (
	"fmt"
	"os"
	"slices"
)

// Stand is a TB for a program that is no test: it owns directories and processes, and takes them away at the end.
type Stand struct {
	cleanups []func()
}

// failure is how a stand ends from deep within.
type failure struct{ error }

// OnStand runs f and cleans up after it. It returns f's error, or what f called Fatalf with.
func OnStand(f func(*Stand) error) (err error) {
	s := &Stand{}
	defer func() {
		for _, clean := range slices.Backward(s.cleanups) {
			clean()
		}
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return f(s)
}

// Helper does nothing: there are no lines of a test to tell.
func (*Stand) Helper() {}

// TempDir returns a new directory.
func (s *Stand) TempDir() string {
	dir, err := os.MkdirTemp("", "permitd-stand-")
	if err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Cleanup runs f at the end, last added first.
func (s *Stand) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf ends what OnStand runs.
func (*Stand) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
