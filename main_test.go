package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server/client"
)

func TestMain(m *testing.M) {
	policies.CompileIfAsked()
	goleak.VerifyTestMain(m)
}

// running is a server that a test has started as main does.
type running struct {
	url    string
	client *client.Client
	output string // what it announced
	stderr *buffer
	stop   func() int
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs permitd on a free port and returns when it says that it listens. It is stopped with the test.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	r := &running{stderr: &buffer{}}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"--listen", "127.0.0.1:0"}, args...), in, r.stderr)
		_ = in.Close()
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		if r.client != nil {
			r.client.Close()
		}
		return <-code
	})
	t.Cleanup(func() { r.stop() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r.output += lines.Text() + "\n"
		waits := slices.Contains(args, "--redis") && strings.HasPrefix(lines.Text(), "Waiting") // which may be for ever
		if waits || strings.Contains(lines.Text(), "/release") {                                // the last line
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it is closed
	url := regexp.MustCompile(`on (https?://[^,]+),`).FindStringSubmatch(r.output)
	if url == nil {
		t.Fatalf("it said %q and %q", r.output, r.stderr)
	}
	r.url = url[1]
	var err error
	if r.client, err = client.New(client.Config{URL: r.url}); err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits, with real servers, for what takes its time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// isKind reports whether an error of the client is a problem of this kind.
func isKind(err error, kind string) bool {
	p, ok := err.(*client.Problem)
	return ok && p.Kind == kind
}

func TestTheQuickStartWorksAsPrinted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "permitd-data")
	r := start(t, "--data", dir)
	first, rest, _ := strings.Cut(r.output, "\n")
	if want := "permitd " + version + " on " + r.url + ", embedded store in " + dir + ", open to this machine only"; first != want {
		t.Errorf("%q, want %q", first, want)
	}
	_, commands, _ := strings.Cut(rest, ":\n")
	out, err := exec.Command("sh", "-euc", commands).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), `{"name":"backup"`) || !strings.HasSuffix(string(out), "released\n") {
		t.Errorf("%v: %s", err, out)
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The README shows what the program prints.
func TestTheQuickStartOfTheREADMEIsTheOnePrinted(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, "--data", ":memory:")
	for line := range strings.Lines(strings.ReplaceAll(r.output, r.url, "http://127.0.0.1:7707")) {
		line = strings.TrimSpace(strings.Replace(line, "embedded store in memory", "embedded store in ./permitd-data", 1))
		if strings.HasSuffix(line, ":") { // a word between
			continue
		}
		if !strings.Contains(string(readme), line) {
			t.Errorf("the README lacks %q", line)
		}
	}
}

func TestLeasesAndDefinitionsLiveOnOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, "--data", dir)
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 2, Description: "kept"}, 0); err != nil {
		t.Fatal(err)
	}
	timed, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	forever, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: client.Forever})
	if err != nil {
		t.Fatal(err)
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	r = start(t, "--data", dir)
	sem, err := r.client.Semaphore(t.Context(), "db")
	if err != nil || sem.Definition.Description != "kept" || sem.Status.InUse != 2 {
		t.Errorf("%+v, %v", sem, err)
	}
	renewed, err := r.client.Renew(t.Context(), "db", timed.Capability, 0)
	if err != nil || renewed.ID != timed.ID || renewed.Fence != timed.Fence || renewed.Slots != timed.Slots {
		t.Errorf("%+v, %v, was %+v", renewed, err, timed)
	}
	for _, l := range []client.Lease{timed, forever} {
		if _, err := r.client.Release(t.Context(), "db", l.Capability, 0); err != nil {
			t.Error(err)
		}
	}
	again, err := r.client.Acquire(t.Context(), "db", client.Ask{Permits: 2})
	if err != nil || again.Fence <= forever.Fence {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestWhatCannotBeEndsTheStartWithAPlainWord(t *testing.T) {
	t.Parallel()
	busy := start(t, "--data", t.TempDir())
	inUse := t.TempDir()
	start(t, "--data", inUse)
	for _, test := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"an address beyond this machine", []string{"--listen", "0.0.0.0:0"}, 78, "--insecure"},
		{"all addresses", []string{"--listen", ":0"}, 78, "--insecure"},
		{"all addresses, IPv6", []string{"--listen", "[::]:0"}, 78, "--insecure"},
		{"no port", []string{"--listen", "127.0.0.1"}, 78, "--listen"},
		{"no such port", []string{"--listen", "127.0.0.1:99999"}, 78, "--listen"},
		{"a port in use", []string{"--listen", strings.TrimPrefix(busy.url, "http://"), "--data", ":memory:"}, 78, "in use"},
		{"a directory in use", []string{"--listen", "127.0.0.1:0", "--data", inUse}, 78, "in use by another process"},
		{"two stores", []string{"--data", inUse, "--redis", "127.0.0.1:6379"}, 78, "exclude each other"},
		{"a prefix of nothing", []string{"--redis-prefix", "x"}, 78, "--redis-prefix is for --redis"},
		{"durable nodes that are none", []string{"--durable-nodes"}, 78, "--durable-nodes is for --redis"},
		{"an even number of nodes", []string{"--listen", "127.0.0.1:0", "--redis", "127.0.0.1:1,127.0.0.1:2"}, 78, "odd number"},
		{"an address of no Redis", []string{"--listen", "127.0.0.1:0", "--redis", "http://u:secret@x"}, 78, "scheme"},
		{"an odd prefix", []string{"--listen", "127.0.0.1:0", "--redis", "127.0.0.1:1", "--redis-prefix", "a:b"}, 78, "prefix"},
		{"a hasty node time-out", []string{"--node-timeout", "1ms"}, 78, "--node-timeout must be 10ms to 10s"},
		{"no semaphores", []string{"--max-semaphores", "0"}, 78, "--max-semaphores"},
		{"no connections", []string{"--max-connections", "0"}, 78, "--max-connections"},
		{"no names in metrics", []string{"--metrics-semaphores", "0"}, 78, "--metrics-semaphores"},
		{"no such command", []string{"sevre"}, 64, "unknown command"},
		{"an argument of serve", []string{"serve", "now"}, 64, "unknown command"},
		{"no such flag", []string{"--lisen", "x"}, 64, "unknown flag"},
		{"a flag without its value", []string{"serve", "--listen"}, 64, "needs an argument"},
		{"a time without its unit", []string{"--node-timeout", "500"}, 64, "missing unit"},
		{"no server to ask", []string{"health", "--url", "http://127.0.0.1:1"}, 69, "refused"},
		{"no server to ask at an address", []string{"health", "127.0.0.1:1"}, 69, "refused"},
		{"no URL", []string{"health", "--url", "here"}, 78, "--url"},
		{"no URL as an argument", []string{"health", "here"}, 78, "not an http or https URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), test.args, &stdout, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.says) || !strings.HasPrefix(stderr.String(), "permitd: ") || stdout.Len() > 0 {
				t.Errorf("exit code %d: %q %q", code, stdout.String(), stderr.String())
			}
			if strings.Contains(stderr.String(), "secret") {
				t.Error("a password is told")
			}
		})
	}
}

func TestFlagsHaveTwinsInTheEnvironment(t *testing.T) {
	// Not parallel: the environment is the process's.
	t.Setenv("PERMITD_DATA", ":memory:")
	r := start(t)
	if !strings.Contains(r.output, "embedded store in memory") {
		t.Error(r.output)
	}
	t.Setenv("PERMITD_URL", r.url)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"health"}, &stdout, &stderr); code != 0 || stdout.String() != "ready\n" {
		t.Errorf("%d %s %s", code, &stdout, &stderr)
	}
	t.Setenv("PERMITD_NODE_TIMEOUT", "soon")
	stderr.Reset()
	if code := run(t.Context(), nil, &stdout, &stderr); code != 64 || !strings.Contains(stderr.String(), "PERMITD_NODE_TIMEOUT") {
		t.Errorf("%d %s", code, &stderr)
	}
	stderr.Reset()
	if code := run(t.Context(), []string{"--node-timeout", "1ms"}, &stdout, &stderr); code != 78 { // a flag wins
		t.Errorf("%d %s", code, &stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"version"}, "permitd " + version},
		{[]string{"--version"}, version},
		{[]string{"--help"}, "$PERMITD_LISTEN"},
		{[]string{"help", "serve"}, "--redis"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), test.args, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), test.says) {
			t.Errorf("%v: %d %s %s", test.args, code, &stdout, &stderr)
		}
	}
}

func TestInsecureServesEveryHost(t *testing.T) {
	t.Parallel()
	r := start(t, "--data", ":memory:", "--insecure")
	if !strings.Contains(r.output, "open to this machine only, under any Host name (--insecure)") {
		t.Error(r.output)
	}
	out, err := exec.Command("curl", "-fsS", "-H", "Host: permitd.example", r.url+"/healthz").CombinedOutput()
	if err != nil {
		t.Errorf("%v %s", err, out)
	}
}
