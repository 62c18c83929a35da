// Package redistest starts real redis-server processes, and servers that only pretend, for tests and benchmarks.
//
// A server listens on a free port of 127.0.0.1, reads no configuration of the system and keeps its files in a directory
// of its own. It ends with the test, or with the process that started it if that dies.
package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TB is what the package needs of a test. *testing.T and *testing.B have it; a program that is no test brings its own.
type TB interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Option is a part of the command line of a redis-server, or of its environment. Later ones win.
type Option struct{ args, env []string }

// AOF keeps every acknowledged write on disk.
var AOF = Args("--appendonly", "yes", "--appendfsync", "always")

// Password makes the server ask for one.
func Password(password string) Option { return Args("--requirepass", password) }

// Args are arguments as redis-server takes them: Args("--maxmemory", "10mb").
func Args(args ...string) Option { return Option{args: args} }

// Env are variables of the environment: Env("LD_PRELOAD=/tmp/shim.so").
func Env(variables ...string) Option { return Option{env: variables} }

const (
	program     = "redis-server"
	portTries   = 5                // a port may be taken between its choice and its use
	startMax    = 15 * time.Second // until a server answers
	pollEvery   = 5 * time.Millisecond
	dialTimeout = time.Second
)

// Server is one redis-server. Its methods fail the test when the process does not do as told; they are not for use from
// several goroutines at once.
type Server struct {
	t    TB
	dir  string
	port int
	args []string
	env  []string

	process *exec.Cmd
	output  *output
	ended   chan struct{} // closed when the process has ended
}

// Start starts a server and waits until it answers. It fails the test if redis-server is not installed.
func Start(t TB, options ...Option) *Server {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("redistest: %s is needed for this test and is not installed: %v", program, err)
	}
	s := &Server{t: t, dir: t.TempDir()}
	for _, option := range options {
		s.args, s.env = append(s.args, option.args...), append(s.env, option.env...)
	}
	t.Cleanup(s.end)

	var err error
	for range portTries {
		if s.port, err = freePort(); err != nil {
			continue
		}
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// freePort returns a port of 127.0.0.1 that nobody listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Addr is where the server listens, host:port. It stays the same over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID is the process's.
func (s *Server) PID() int { return s.process.Process.Pid }

// Kill ends the server as kill -9 does and waits for its end.
func (s *Server) Kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// Stop shuts the server down, so that it writes what it keeps on disk, and waits for its end.
func (s *Server) Stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(startMax):
		s.t.Fatalf("redistest: %s did not stop:\n%s", program, s.output)
	}
}

// Restart starts the server again on its port and directory, after a Kill if it still runs, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.end()
	var err error
	for range portTries {
		if err = s.run(); err == nil {
			return
		}
		time.Sleep(pollEvery)
	}
	s.t.Fatalf("redistest: restart: %v", err)
}

// Forget removes what a server that was killed or stopped keeps on disk.
func (s *Server) Forget() {
	s.t.Helper()
	list, err := os.ReadDir(s.dir)
	for _, entry := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, entry.Name())))
	}
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Pause stops the server in its tracks until Resume; its connections stay open.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatalf("redistest: %v to process %d: %v", signal, s.PID(), err)
	}
}

// end makes sure that no process is left.
func (s *Server) end() {
	if s.process == nil {
		return
	}
	if err := s.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatalf("redistest: kill %d: %v", s.PID(), err)
	}
	<-s.ended
}

// run starts the process and returns when it answers, or why it never will.
func (s *Server) run() error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no",
	}
	s.output, s.ended = &output{}, make(chan struct{})
	process := exec.Command(program, append(args, s.args...)...)
	process.Env = append(os.Environ(), s.env...)
	process.Stdout, process.Stderr = s.output, s.output
	process.SysProcAttr = dieWithParent()
	if err := process.Start(); err != nil {
		return err
	}
	s.process = process
	ended := s.ended
	go func() {
		_ = process.Wait() // how it ended does not matter: whoever waits knows why
		close(ended)
	}()
	return s.await()
}

// await polls until the server answers a PING otherwise than that it is still loading.
func (s *Server) await() error {
	deadline := time.Now().Add(startMax)
	for time.Now().Before(deadline) {
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended:\n%s", program, s.output)
		case <-time.After(pollEvery):
		}
		if s.answers() {
			return nil
		}
	}
	s.end()
	return fmt.Errorf("%s did not answer within %v:\n%s", program, startMax, s.output)
}

// answers reports whether the server, and no other process that has its port, is ready. A server that asks for a
// password, or refuses clients for another reason, is ready too.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), dialTimeout)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(time.Now().Add(dialTimeout)) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && line != "" && !strings.HasPrefix(line, "-LOADING") && s.listens()
}

// listens reports whether the process itself has said that it serves.
func (s *Server) listens() bool {
	return strings.Contains(s.output.String(), "Ready to accept connections")
}

// output collects what the process prints. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
