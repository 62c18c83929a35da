package localnode

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// victimDir is the environment variable by which the test binary becomes a process that is to be killed.
const victimDir = "LOCALNODE_VICTIM_DIR"

// victim works on a node and writes what was acknowledged, one act a line, until it is killed:
// "granted LEASE", "releasing LEASE" (sent), "released LEASE", "defined NAME LIMIT".
func victim(dir string) {
	node, err := Open(Config{Dir: dir, bootID: "boot", turn: 1000})
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	f := startOf(node)
	if err := f.form(engine.Value{Limit: 10_000}); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for worker := range 20 {
		go f.work(fmt.Sprint(os.Getpid(), "-", worker), tell)
	}
	for n := int64(1); ; n++ {
		name := fmt.Sprint("defined-", os.Getpid(), "-", n%50)
		if a := f.define(name, n, engine.Value{Limit: int(n)}); a.Err == nil {
			tell("defined %s %d", name, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// work acquires and releases; one lease in ten stays, one in ten has no end.
func (f *former) work(name string, tell func(string, ...any)) {
	for n := 0; ; n++ {
		lease := fmt.Sprint(name, "-", n)
		a := f.do(claimOf(lease, "a"))
		if a.Err != nil || a.Says != engine.SaysGranted {
			continue
		}
		if n%10 == 0 {
			a := f.do(&engine.Renew{
				Semaphore: db, Lease: lease, By: "a", Owner: owner(0, "r1"), Slots: a.Slots, Fence: a.Fence, Ballot: a.Definition,
				Until: 1 << 60, TTL: engine.Never,
			})
			if a.Err != nil || a.Says != engine.SaysRenewed {
				continue
			}
		}
		tell("granted %s", lease)
		if n%10 == 1 && n < 200 {
			continue
		}
		tell("releasing %s", lease)
		if a := f.do(releaseOf(lease, "a", engine.WhyReleased)); a.Err == nil {
			tell("released %s", lease)
		}
	}
}

// TestKillingTheProcessAtAnyMomentLosesNothingThatWasAcknowledged is not parallel: the victims want the machine.
func TestKillingTheProcessAtAnyMomentLosesNothingThatWasAcknowledged(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 3
	}
	dir := t.TempDir()
	held, defined := map[string]string{}, map[string]int{}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 9))
	for kill := range kills {
		acts := killed(t, dir, time.Duration(30+rng.IntN(300))*time.Millisecond)
		for _, act := range acts {
			switch word := strings.Fields(act); word[0] {
			case "granted", "releasing", "released":
				held[word[1]] = word[0]
			case "defined":
				defined[word[1]], _ = strconv.Atoi(word[2])
			default:
				t.Fatalf("the victim says %q", act) // it could not begin
			}
		}
		t.Logf("kill %d: %d acts, %d leases in all", kill, len(acts), len(held))
		node, err := Open(Config{Dir: dir, bootID: "boot", turn: 1000})
		if err != nil {
			t.Fatal(err)
		}
		node.Close()
		checkKept(t, node.state, held, defined)
	}
}

// killed runs a victim, kills it after so long a time, and returns what it told.
func killed(t *testing.T, dir string, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	var acts []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if timer == nil { // it works: its time is running
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		acts = append(acts, lines.Text())
	}
	_ = cmd.Wait() // it was killed
	if timer != nil {
		timer.Stop()
	}
	return acts
}

// checkKept compares what a node remembers with what was acknowledged.
func checkKept(t *testing.T, s *State, held map[string]string, defined map[string]int) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	m := s.semaphoreOf(db)
	now := machineClock().Microseconds()
	for lease, act := range held {
		l, stone := m.lease(lease), m.tombstone(lease, "a", now-int64(2*time.Minute/time.Microsecond))
		if act == "granted" && l == nil {
			t.Errorf("lease %s was granted and is gone", lease)
		}
		if act == "granted" && l != nil && strings.HasSuffix(lease, "0") != (l.at == never) {
			t.Errorf("lease %s ends at %d", lease, l.at)
		}
		if act == "released" && l != nil {
			t.Errorf("lease %s was released and is there", lease)
		}
		if act == "released" && stone == nil && s.forgets.first() > now {
			t.Errorf("lease %s was released, and nothing says so", lease)
		}
	}
	for name, limit := range defined {
		if got := s.semaphoreOf(name).value.Limit; got < limit {
			t.Errorf("%s was given the limit %d and has %d", name, limit, got)
		}
	}
}
