//go:build unix

package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// build compiles permitd.
func build(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "permitd")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return binary
}

// process is permitd as a process of its own: signals cannot be tested within one.
func process(t *testing.T, binary string, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.Command(binary, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most have ended
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := regexp.MustCompile(`on (http://[^,]+),`).FindStringSubmatch(lines.Text()); m != nil {
			return cmd, m[1]
		}
	}
	t.Fatal("it has not said where it listens")
	return nil, ""
}

func TestSignalsStopItCleanlyAndASecondOneAtOnce(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		cmd, _ := process(t, binary, "--data", ":memory:")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
	cmd, url := process(t, binary, "--data", ":memory:")
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http")+"/v1/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // until the first signal has been heard; the connection then is given a second to end
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.ReadMessage(); err != nil {
			if !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
				t.Fatal(err)
			}
			break
		}
	}
	start := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || status.Signal() != syscall.SIGTERM || time.Since(start) > 700*time.Millisecond {
		t.Errorf("%v, %v after %v", err, status, time.Since(start))
	}
}
