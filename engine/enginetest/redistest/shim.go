package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed shim/shim.c
var shimSource []byte

// compiler is what the shim is built with.
const compiler = "cc"

// Shim shifts the clock of a server, and slows its disk, while it runs and over its restarts. Linux only.
type Shim struct {
	t       TB
	library string
	file    *os.File // mapped by the server: two int64
}

// HasCompiler reports whether a Shim can be built here.
func HasCompiler() bool {
	_, err := exec.LookPath(compiler)
	return err == nil
}

// NewShim builds a shim, which Start takes as an option: Start(t, shim.Option()). It fails the test where there is no C compiler.
func NewShim(t TB) *Shim {
	t.Helper()
	dir := t.TempDir()
	s := &Shim{t: t, library: filepath.Join(dir, "shim.so")}
	source := filepath.Join(dir, "shim.c")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if output, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-w", "-o", s.library, source).CombinedOutput(); err != nil {
		t.Fatalf("redistest: %s, a C compiler, is needed for this test: %v\n%s", compiler, err, output)
	}
	file, err := os.Create(filepath.Join(dir, "says"))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s.file = file
	s.say(0, 0)
	s.say(1, 0)
	return s
}

// Option has a server go by the shim.
func (s *Shim) Option() Option { return Env("LD_PRELOAD="+s.library, "PERMITD_SHIM="+s.file.Name()) }

// Shift sets how far the server's clock is ahead of the machine's.
func (s *Shim) Shift(d time.Duration) { s.say(0, d) }

// SlowSync sets by how much longer the server's flushes to disk take.
func (s *Shim) SlowSync(d time.Duration) { s.say(1, d) }

func (s *Shim) say(at int64, d time.Duration) {
	s.t.Helper()
	text := binary.NativeEndian.AppendUint64(nil, uint64(d.Microseconds()))
	if _, err := s.file.WriteAt(text, at*int64(len(text))); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}
