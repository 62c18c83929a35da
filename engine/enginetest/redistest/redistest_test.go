package redistest_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/permitd/permitd/engine/enginetest/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, server *redistest.Server, password string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password, Protocol: 2, DialerRetries: 1, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAServerKeepsItsAddressAndItsFilesOverARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AOF)
	addr, client := server.Addr(), connect(t, server, "")
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart()
	if server.Addr() != addr {
		t.Errorf("address %s became %s", addr, server.Addr())
	}
	if got, err := connect(t, server, "").Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

func TestAServerWithoutAOFForgets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := connect(t, server, "").Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.Restart()
	if n := connect(t, server, "").Exists(t.Context(), "key").Val(); n != 0 {
		t.Error("it remembers")
	}
}

func TestAServerForgetsWhatItKeptOnDisk(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AOF)
	if err := connect(t, server, "").Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Forget()
	server.Restart()
	if n := connect(t, server, "").Exists(t.Context(), "key").Val(); n != 0 {
		t.Error("it remembers")
	}
}

func TestAServerAsksForItsPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Password("secret"), redistest.Args("--maxmemory", "50mb"))
	if err := connect(t, server, "").Ping(t.Context()).Err(); err == nil {
		t.Error("served without a password")
	}
	client := connect(t, server, "secret")
	if got := client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "52428800" {
		t.Errorf("maxmemory %q", got)
	}
	if got := client.ConfigGet(t.Context(), "save").Val()["save"]; got != "" {
		t.Errorf("save %q", got)
	}
}

func TestAPausedServerIsSilentUntilItIsResumed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	server.Pause()
	for deadline := time.Now().Add(5 * time.Second); processState(t, server.PID()) != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it goes on")
		}
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	server.Resume()
	reply := make([]byte, 7)
	if _, err := conn.Read(reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Errorf("%q, %v", reply, err)
	}
}

func processState(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func TestNoServerOutlivesItsTest(t *testing.T) {
	t.Parallel()
	var pids []int
	t.Run("with servers that run, are paused and have been killed", func(t *testing.T) {
		servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
		for _, server := range servers {
			pids = append(pids, server.PID())
		}
		servers[1].Pause()
		servers[2].Kill()
	})
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestAnOptionThatRedisRefusesFailsTheTestWithWhatItSaid(t *testing.T) {
	t.Parallel()
	recorder := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		redistest.Start(recorder, redistest.Args("--no-such-option", "1"))
	}()
	if !strings.Contains(recorder.failure, "no-such-option") {
		t.Errorf("failed with %q", recorder.failure)
	}
}

// TestAMissingProgramFailsTheTest is not parallel: it changes the environment.
func TestAMissingProgramFailsTheTest(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	recorder := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		redistest.Start(recorder)
	}()
	if !strings.Contains(recorder.failure, "is not installed") {
		t.Errorf("failed with %q", recorder.failure)
	}
}

func TestAShimShiftsTheClockOfAServerThatRunsAndSlowsItsDisk(t *testing.T) {
	t.Parallel()
	shim := redistest.NewShim(t)
	server := redistest.Start(t, redistest.AOF, shim.Option())
	client := connect(t, server, "")
	for _, shift := range []time.Duration{0, time.Hour, -time.Hour, 300 * time.Millisecond} {
		shim.Shift(shift)
		before := time.Now()
		seconds, err := client.Eval(t.Context(), "local t = redis.call('TIME'); return t[1] * 1000000 + t[2]", nil).Int64()
		if err != nil {
			t.Fatal(err)
		}
		if now := time.UnixMicro(seconds); now.Before(before.Add(shift-time.Millisecond)) || now.After(time.Now().Add(shift+time.Millisecond)) {
			t.Errorf("shifted by %v it says %v at %v", shift, now, before)
		}
	}
	shim.SlowSync(200 * time.Millisecond)
	start := time.Now()
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("it wrote to a slow disk within %v", took)
	}
}

// recorder is a test that keeps its failure.
type recorder struct {
	redistest.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic("failed")
}

func TestMiniAnswersInfoAlsoInsideScripts(t *testing.T) {
	t.Parallel()
	mini := redistest.NewMini()
	defer mini.Close()
	client := redis.NewClient(&redis.Options{Dialer: mini.Dialer, Protocol: 2})
	defer func() { _ = client.Close() }()

	mini.SetInfo("role", "slave")
	for _, reply := range []*redis.Cmd{
		client.Do(t.Context(), "INFO", "replication"),
		client.Do(t.Context(), "EVAL", "return redis.call('INFO', 'replication')", "0"),
	} {
		if text, err := reply.Text(); err != nil || !strings.Contains(text, "role:slave\r\n") {
			t.Errorf("%q, %v", text, err)
		}
	}
}

func TestMiniFailsACommandUntilToldOtherwise(t *testing.T) {
	t.Parallel()
	mini := redistest.NewMini()
	defer mini.Close()
	client := redis.NewClient(&redis.Options{Dialer: mini.Dialer, Protocol: 2, MaxRetries: -1})
	defer func() { _ = client.Close() }()

	mini.Fail("GET", "LOADING Redis is loading the dataset in memory")
	if err := client.Get(t.Context(), "key").Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING ") {
		t.Errorf("got %v", err)
	}
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Errorf("another command: %v", err)
	}
	mini.Fail("GET", "")
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

func TestAPipelineOfManyCommandsDoesNotStopMini(t *testing.T) {
	t.Parallel()
	mini := redistest.NewMini()
	defer mini.Close()
	client := redis.NewClient(&redis.Options{Dialer: mini.Dialer, Protocol: 2})
	defer func() { _ = client.Close() }()

	pipe := client.Pipeline()
	for range 1000 {
		pipe.Set(t.Context(), "key", strings.Repeat("x", 1000), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Error(err)
	}
}
