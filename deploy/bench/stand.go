package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
)

// stand is where a benchmark runs.
type stand struct{ *redistest.Stand }

// redis starts n redis-servers and returns their addresses.
func (s *stand) redis(n int) []string {
	var addrs []string
	for range n {
		addrs = append(addrs, redistest.Start(s).Addr())
	}
	return addrs
}

// build compiles permitd.
func (s *stand) build() string {
	path := filepath.Join(s.TempDir(), "permitd")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/permitd/permitd").CombinedOutput(); err != nil {
		s.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// server is a permitd process.
type server struct {
	cmd *exec.Cmd
	url string
}

// serve starts permitd with these arguments on a free port and waits until it is ready.
func (s *stand) serve(binary string, args ...string) *server {
	sv := &server{url: "http://" + freeAddr(s)}
	sv.cmd = exec.Command(binary, append([]string{"serve", "--listen", strings.TrimPrefix(sv.url, "http://")}, args...)...)
	sv.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := sv.cmd.StderrPipe()
	if err == nil {
		err = sv.cmd.Start()
	}
	if err != nil {
		s.Fatalf("permitd: %v", err)
	}
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), "panic") {
				fmt.Fprintln(os.Stderr, lines.Text())
			}
		}
	}()
	s.Cleanup(sv.kill)
	if err := sv.ready(); err != nil {
		s.Fatalf("%v", err)
	}
	return sv
}

// ready waits until the server says that it is.
func (sv *server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if response, err := http.Get(sv.url + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("permitd did not become ready")
}

// kill ends the server at once, as a crash would.
func (sv *server) kill() {
	_ = sv.cmd.Process.Kill()
	_ = sv.cmd.Wait()
}

// startSelf runs this program with a variable set that makes it a server, and waits until it listens on addr.
func startSelf(s *stand, addr, env string) {
	self, err := os.Executable()
	if err != nil {
		s.Fatalf("%v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.Fatalf("%v", err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Fatalf("%s does not listen", env)
}

func freeAddr(s *stand) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatalf("%v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
