//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/server/client"
)

// nginxConf is what a person would write to put nginx in front of permitd, on a socket of the test's own. /hasty gives up on
// an answer after a second, and after some of them on the server; /cut on the answer alone.
const nginxConf = `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	upstream permitd {
		server %[1]s;
		server %[1]s;
	}
	server {
		listen unix:nginx.sock;
		location / { proxy_pass http://permitd; }
		location /hasty/ {
			proxy_pass http://permitd/;
			proxy_read_timeout 1s;
		}
		location /cut/ {
			proxy_pass http://%[1]s/;
			proxy_read_timeout 1s;
		}
	}
}
`

// behindNginx starts permitd, and nginx before it with two ways to it, between which it may try again. It returns permitd, and
// the socket of nginx.
func behindNginx(t *testing.T) (*running, string) {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary = "/usr/sbin/nginx" // which not everybody's PATH has
	}
	r := start(t, "--data", ":memory:", "--allow-host", "permitd") // nginx sends the name of its upstream
	dir, err := os.MkdirTemp("", "nginx")                          // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what nginx left there
	write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(nginxConf, strings.TrimPrefix(r.url, "http://")))
	var said buffer
	cmd := exec.Command(binary, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	cmd.Dir, cmd.Stderr = dir, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: make tools installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing of it is kept
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	socket := filepath.Join(dir, "nginx.sock")
	eventually(t, "nginx answers", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return r, socket
}

// curl runs curl against the socket of nginx, to be killed as a client that dies.
func curl(t *testing.T, socket string, args ...string) (lines *bufio.Scanner, die func()) {
	t.Helper()
	cmd := exec.Command("curl", append([]string{"-sS", "-N", "--unix-socket", socket}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	die = func() {
		_ = cmd.Process.Kill() // it may have ended
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	t.Cleanup(die)
	return bufio.NewScanner(out), die
}

// numbers reads how many permits of db are in use, and how many requests wait.
func numbers(t *testing.T, r *running) (inUse, waiting int) {
	t.Helper()
	sem, err := r.client.Semaphore(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	return sem.Status.InUse, sem.Status.Waiting
}

func TestAHoldStreamThroughNginxIsHeardAtOnceAndEndsWithItsClient(t *testing.T) {
	t.Parallel()
	r, socket := behindNginx(t)
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 1}, 0); err != nil {
		t.Fatal(err)
	}
	const url = "http://x/v1/semaphores/db/hold"
	lines, die := curl(t, socket, "-H", "Accept: text/plain", "-d", "ttl=3s", url)
	begun := time.Now()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "granted ") || time.Since(begun) > 900*time.Millisecond {
		t.Fatalf("%q after %v: nginx keeps it back", lines.Text(), time.Since(begun))
	}
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "renewed ") || time.Since(begun) > 2*time.Second {
		t.Fatalf("%q after %v", lines.Text(), time.Since(begun))
	}
	next, dieToo := curl(t, socket, "-d", `{"wait":"1h"}`, url)
	if !next.Scan() || next.Text() != `{"type":"waiting","ahead":0}` {
		t.Fatalf("%q", next.Text())
	}
	died := time.Now()
	die()
	if !next.Scan() || !strings.HasPrefix(next.Text(), `{"type":"granted","lease":"`) || time.Since(died) > time.Second {
		t.Fatalf("%q after %v", next.Text(), time.Since(died))
	}
	died = time.Now()
	dieToo()
	for inUse, _ := numbers(t, r); inUse > 0; inUse, _ = numbers(t, r) {
		if time.Since(died) > time.Second {
			t.Fatalf("%d in use a second after the client died", inUse)
		}
	}
}

func TestNginxThatGivesUpLeavesNoSecondRequestBehind(t *testing.T) {
	t.Parallel()
	r, socket := behindNginx(t)
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 3}, 0); err != nil {
		t.Fatal(err)
	}
	all, err := r.client.Acquire(t.Context(), "db", client.Ask{Permits: 3, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	for _, verb := range []string{"acquire", "hold"} {
		ended := make(chan string, 1)
		go func() { ended <- post(t, transport, "http://x/hasty/v1/semaphores/db/"+verb+"?wait=1m&ttl=1m") }()
		most := 0
		for done := false; !done; time.Sleep(5 * time.Millisecond) {
			_, waiting := numbers(t, r)
			most = max(most, waiting)
			select {
			case answer := <-ended:
				if strings.Contains(answer, "granted") || strings.Contains(answer, `"lease"`) {
					t.Errorf("%s: %s", verb, answer)
				}
				done = true
			default:
			}
		}
		if most != 1 {
			t.Errorf("%s: %d waited at once", verb, most)
		}
		eventually(t, "nobody waits", func() bool { _, waiting := numbers(t, r); return waiting == 0 })
	}
	if _, err := r.client.Release(t.Context(), "db", all.Capability, 0); err != nil {
		t.Error(err)
	}
	if inUse, _ := numbers(t, r); inUse != 0 {
		t.Errorf("%d in use", inUse)
	}
}

// post returns the status and the body of the answer, as far as it came.
func post(t *testing.T, transport *http.Transport, url string) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	body, _ := io.ReadAll(response.Body) // nginx cuts a stream
	_ = response.Body.Close()
	return response.Status + " " + string(body)
}

// A request that nginx gives up on, and that is made again with its key, stands in line where it stood.
func TestAKeyKeepsThePlaceBehindAProxyThatGivesUp(t *testing.T) {
	t.Parallel()
	r, socket := behindNginx(t)
	held, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Hour, Create: &client.Definition{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	begins, answers := make(chan int), make(chan string, 1)
	go func() {
		for n := 1; ; n++ {
			begins <- n
			answer := post(t, transport, "http://x/cut/v1/semaphores/db/acquire?wait=1m&key=poller&holder=poller")
			if strings.HasPrefix(answer, "200") || strings.HasPrefix(answer, "4") {
				answers <- answer
				close(begins)
				return
			}
		}
	}()
	stands := func(waiting int) {
		t.Helper()
		eventually(t, "it stands in line", func() bool { _, now := numbers(t, r); return now == waiting })
	}
	<-begins
	stands(1)
	later := make(chan error, 1)
	<-begins // nginx has given up once
	go func() {
		_, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: time.Minute})
		later <- err
	}()
	stands(2)
	<-begins // and again
	stands(2)
	if _, err := r.client.Release(t.Context(), "db", held.Capability, 0); err != nil {
		t.Error(err)
	}
	for n := range begins {
		t.Logf("attempt %d", n)
	}
	answer := <-answers
	if !strings.Contains(answer, `"lease":"`) || len(later) > 0 {
		t.Fatalf("%s; %d of those who came later are served", answer, len(later))
	}
	leases, err := r.client.Leases(t.Context(), "db")
	if err != nil || len(leases) != 1 || leases[0].Holder != "poller" {
		t.Fatalf("%+v, %v", leases, err)
	}
	_, lease, _ := strings.Cut(answer, `"lease":"`)
	lease, _, _ = strings.Cut(lease, `"`)
	if _, err := r.client.Release(t.Context(), "db", lease, 0); err != nil {
		t.Error(err)
	}
	if err := <-later; err != nil {
		t.Error(err)
	}
}
