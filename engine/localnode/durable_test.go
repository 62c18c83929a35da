package localnode

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// content is all that a node remembers and must keep, readable.
func content(t testing.TB, s *State) []string {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r := s.Record(); r != nil {
		shown := *r
		shown.FenceFloor = 0
		add("record %+v", shown)
	}
	for _, name := range slices.Sorted(maps.Keys(s.cluster)) {
		add("cluster %s %+v", name, *s.cluster[name])
	}
	s.semaphores.Scan(func(name string, m *semaphore) bool {
		add("semaphore %q %+v longest %d wait %d", name, m.register, m.longestTTL, m.waitEnd)
		m.leases.Scan(func(id string, l *lease) bool {
			add("lease %s by %s %v %s fence %d ver %d ends %d granted %d touched %d %v %v %v %q", id, l.by, l.owner, l.slots, l.fence, l.ver,
				l.at, l.granted, l.touched, l.first, l.copy, l.definition, l.info)
			return true
		})
		var unsorted []string
		for _, c := range m.cooling.items {
			unsorted = append(unsorted, fmt.Sprintf("cools %s %s until %d", c.lease, c.slots, c.at))
		}
		for _, x := range m.tombstones {
			for ; x != nil; x = x.next {
				unsorted = append(unsorted, fmt.Sprintf("tombstone %s %s %v %v %s until %d", x.lease, x.by, x.owner, x.anyOwner, x.why, x.at))
			}
		}
		slices.Sort(unsorted)
		lines = append(lines, unsorted...)
		return true
	})
	return lines
}

// busy brings the node into a state that has something of everything.
func (f *former) busy(t testing.TB) {
	t.Helper()
	f.define(db, 2, engine.Value{Limit: 30, MinHold: time.Hour, Data: "data \x00\xff"})
	f.define("Ω/ {} ..", 1, engine.Value{Limit: 2})
	f.says(t, &engine.Prepare{Kind: engine.RegisterSemaphore, Name: "promised", Ballot: engine.Ballot{Counter: 9, Replica: "w"}}, engine.SaysPromised)
	f.says(t, &engine.Accept{
		Kind: engine.RegisterCluster, Name: "secret", Ballot: engine.Ballot{Counter: 1}, Value: engine.Value{Data: "s"},
	}, engine.SaysAccepted)
	for i := range 8 {
		f.says(t, with(claimOf(fmt.Sprint("L", i), "a"), func(c *engine.Claim) { c.Weight = 3 }), engine.SaysGranted)
	}
	f.endlessOf(t, "L0")
	f.endlessOf(t, "L1")
	f.renew(t, "L2", 2*time.Hour)
	f.says(t, with(releaseOf("L3", "a", engine.WhyReleased), func(r *engine.Release) { r.Slots, r.Ver = quorum.OneSlot(10), 1 }), engine.SaysReleased)
	f.says(t, releaseOf("L4", "a", engine.WhyReleased), engine.SaysReleased)
	f.says(t, releaseOf("L1", "a", engine.WhyBroken), engine.SaysReleased)
	for i := range 300 { // so that a file has some pages
		f.says(t, releaseOf(fmt.Sprint("gone ", i), "a", engine.WhyGivenBack), engine.SaysReleased)
	}
	f.says(t, with(releaseOf("other", "b", engine.WhyGivenBack), func(r *engine.Release) { r.Semaphore = "Ω/ {} .." }), engine.SaysReleased)
}

func TestWhatWasAcknowledgedIsThereWhenTheDirectoryIsOpenedAgain(t *testing.T) {
	t.Parallel()
	clock := newHandClock(time.Hour)
	cfg := Config{Dir: t.TempDir(), Now: clock.Now, bootID: "boot"}
	f := openAs(t, cfg, engine.Value{Limit: 30})
	f.busy(t)
	runID := f.node.state.RunID
	f.node.Close()
	want := content(t, f.node.state)
	for range 3 {
		again := openAs(t, cfg, engine.Value{})
		again.node.Close()
		if diff := cmp.Diff(want, content(t, again.node.state)); diff != "" {
			t.Fatalf("after opening again (-want +got):\n%s", diff)
		}
		if again.node.state.RunID != runID {
			t.Fatal("the run_id changed")
		}
	}
}

func TestFencesGrowAcrossRestartsWhateverTheyReached(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	last := int64(0)
	for i, proposed := range []int64{0, time.Now().Add(365 * 24 * time.Hour).UnixMicro(), 0, fenceMax - 2*fenceAhead, 0} {
		f := openAs(t, cfg, engine.Value{Limit: 30})
		lease := fmt.Sprint("L", i)
		a := f.says(t, with(claimOf(lease, "a"), func(c *engine.Claim) { c.Fence = proposed }), engine.SaysGranted)
		if a.Fence <= last || a.Fence < proposed || a.Fence > fenceMax {
			t.Errorf("restart %d: fence %d after %d, proposed %d", i, a.Fence, last, proposed)
		}
		last = a.Fence
		f.says(t, releaseOf(lease, "a", engine.WhyReleased), engine.SaysReleased)
		f.node.Close()
	}
}

func TestAfterTheMachineWasStartedAnewEverySemaphoreWaitsOutTheLongestTTL(t *testing.T) {
	t.Parallel()
	var log logged
	cfg := Config{Dir: t.TempDir(), Now: newHandClock(50 * time.Hour).Now, bootID: "boot 1"}
	f := openAs(t, cfg, engine.Value{Limit: 30})
	for _, lease := range []string{"L", "M", "endless", "ended"} {
		f.says(t, claimOf(lease, "a"), engine.SaysGranted)
	}
	f.renew(t, "M", 10*time.Minute)
	f.endlessOf(t, "endless")
	f.endlessOf(t, "ended")
	f.says(t, releaseOf("ended", "a", engine.WhyReleased), engine.SaysReleased)
	last := f.says(t, claimOf("N", "a"), engine.SaysGranted)
	f.node.Close()

	clock := newHandClock(time.Minute)
	cfg = Config{Dir: cfg.Dir, Now: clock.Now, bootID: "boot 2", Log: log.log()}
	f = openAs(t, cfg, engine.Value{})
	if a := f.says(t, claimOf("O", "b"), engine.SaysFull); a.NextEnd != 10*time.Minute {
		t.Errorf("told to come again in %v, want 10m", a.NextEnd)
	}
	if f.record("L") != nil || f.record("ended") != nil {
		t.Error("a lease of another boot is there")
	}
	if r := f.record("endless"); r == nil || r.Left != engine.Never || r.Age < 0 || r.Age > time.Hour {
		t.Fatalf("the lease without an end is %+v", r)
	}
	f.endlessOf(t, "endless") // a holder renews during the wait
	if !strings.Contains(log.String(), "the machine was started anew") || !strings.Contains(log.String(), asideName) {
		t.Errorf("the log says %q", log.String())
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, asideName)); err != nil {
		t.Error(err)
	}

	clock.pass(4 * time.Minute)
	f.node.Close()
	f = openAs(t, cfg, engine.Value{}) // the wait goes on where it was
	if a := f.says(t, claimOf("O", "b"), engine.SaysFull); a.NextEnd != 6*time.Minute {
		t.Errorf("told to come again in %v, want 6m", a.NextEnd)
	}
	clock.pass(6 * time.Minute)
	if a := f.says(t, claimOf("O", "b"), engine.SaysGranted); a.Fence <= last.Fence || a.Free != 28 {
		t.Errorf("granted with fence %d after %d, %d free", a.Fence, last.Fence, a.Free)
	}
}

func TestTheWaitIsAsLongAsMinHold(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Now: newHandClock(time.Hour).Now, bootID: "boot 1"}
	f := openAs(t, cfg, engine.Value{Limit: 1, MinHold: time.Hour})
	f.says(t, claimOf("L", "a"), engine.SaysGranted)
	f.says(t, releaseOf("L", "a", engine.WhyReleased), engine.SaysReleased)
	f.node.Close()
	cfg.bootID = "boot 2"
	f = openAs(t, cfg, engine.Value{})
	if a := f.says(t, claimOf("M", "b"), engine.SaysFull); a.NextEnd != time.Hour {
		t.Errorf("told to come again in %v: what cooled is forgotten", a.NextEnd)
	}
}

func TestADirectoryInWhichNothingWasGrantedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), bootID: "boot 1"}
	openAs(t, cfg, engine.Value{Limit: 1}).node.Close()
	cfg.bootID = "boot 2"
	openAs(t, cfg, engine.Value{}).says(t, claimOf("L", "a"), engine.SaysGranted)
}

func TestASecondNodeOnADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	f := openAs(t, cfg, engine.Value{Limit: 1})
	_, err := Open(cfg)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), cfg.Dir) {
		t.Errorf("the error is %v", err)
	}
	f.says(t, claimOf("L", "a"), engine.SaysGranted)
	f.node.Close()
	openAs(t, cfg, engine.Value{}).says(t, claimOf("M", "b"), engine.SaysFull)
}

// used is a directory that a node has used and left, and what it remembered.
func used(t testing.TB) (cfg Config, want []string) {
	t.Helper()
	cfg = Config{Dir: t.TempDir(), Now: newHandClock(time.Hour).Now, bootID: "boot"}
	f := openAs(t, cfg, engine.Value{Limit: 30})
	f.busy(t)
	f.node.Close()
	return cfg, content(t, f.node.state)
}

// twin is a copy of a directory in which one file was changed.
func twin(t testing.TB, cfg Config, name string, change func([]byte) []byte) Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b = change(b); b == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, b, fileMode)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	return cfg
}

// damages are what may have happened to a file.
var damages = map[string]func([]byte) []byte{
	"missing":         func([]byte) []byte { return nil },
	"empty":           func([]byte) []byte { return []byte{} },
	"not such a file": func(b []byte) []byte { return []byte(strings.Repeat("not such a file ", len(b)/16)) },
	"all zeros":       func(b []byte) []byte { return make([]byte, len(b)) },
	"cut off":         func(b []byte) []byte { return b[:len(b)/2] },
	"the first page was overwritten": func(b []byte) []byte {
		clear(b[:pageSize])
		return b
	},
	"the second page was overwritten": func(b []byte) []byte {
		clear(b[pageSize : 2*pageSize])
		return b
	},
}

func TestADamagedFirstFileIsRefusedAndToldHowToGoOn(t *testing.T) {
	t.Parallel()
	cfg, _ := used(t)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damaged := twin(t, cfg, firstName, damage)
			_, err := Open(damaged)
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("the error is %v", err)
			}
			for _, part := range []string{filepath.Join(damaged.Dir, firstName), "Put back a copy", "move " + damaged.Dir + " away"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

func TestADamagedSecondFileIsSetAsideToldAndWaitedOut(t *testing.T) {
	t.Parallel()
	cfg, _ := used(t)
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			damaged := twin(t, cfg, journalName(1), damage)
			damaged.Log = log.log()
			f := openAs(t, damaged, engine.Value{})
			if a := f.says(t, claimOf("N", "n"), engine.SaysFull); a.NextEnd != 2*time.Hour {
				t.Errorf("told to come again in %v, want 2h", a.NextEnd)
			}
			if f.record("L0") == nil || f.record("L1") != nil || f.record("L2") != nil {
				t.Errorf("of the leases there are L0 %v, L1 %v, L2 %v; want the one without an end", f.record("L0"), f.record("L1"), f.record("L2"))
			}
			if !strings.Contains(log.String(), "can not be used") {
				t.Errorf("the log says %q", log.String())
			}
			_, err := os.Stat(filepath.Join(damaged.Dir, asideName))
			if missing := errors.Is(err, fs.ErrNotExist); missing != (name == "missing") {
				t.Errorf("the file set aside: %v", err)
			}
		})
	}
}

func TestAFileOfALaterFormatIsRefused(t *testing.T) {
	t.Parallel()
	cfg, _ := used(t)
	node, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = node.store.first.update(func(w *sealedTx) error {
		b, err := w.bucket(bucketNode)
		return errors.Join(err, b.putInt(keyFormat, storeFormat+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	node.Close()
	if _, err := Open(cfg); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "has format 2, this version knows 1") {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatTheFirstFileAloneHasWasNeverAcknowledgedAndIsGone(t *testing.T) {
	t.Parallel()
	cfg, want := used(t)
	node, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// As if the process had been killed between the two files: one lease without an end came, one went.
	m := node.state.semaphoreOf(db)
	l := *m.lease("L0")
	l.id, l.endless = "unacknowledged", false
	gone := m.lease("L0")
	gone.gone = true
	c := newChanges()
	c.entries = append(c.entries, &l, gone)
	if err := node.store.first.update(func(w *sealedTx) error { return node.store.writeFirst(w, c, 0) }); err != nil {
		t.Fatal(err)
	}
	node.Close()
	again := openAs(t, cfg, engine.Value{})
	again.node.Close()
	if diff := cmp.Diff(want, content(t, again.node.state)); diff != "" {
		t.Errorf("after opening again (-want +got):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(cfg.Dir, journalName(again.node.store.second.number))); err != nil {
		t.Fatal(err)
	}
	again = openAs(t, cfg, engine.Value{})
	if again.record("L0") == nil || again.record("unacknowledged") != nil {
		t.Error("the first file was not made to match the second")
	}
}

func TestAWriteThatFailsIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), bootID: "boot"}
	f := openAs(t, cfg, engine.Value{Limit: 3})
	f.says(t, claimOf("L", "a"), engine.SaysGranted)
	if err := f.node.store.second.file.Close(); err != nil {
		t.Fatal(err)
	}
	if a := f.do(claimOf("M", "b")); !errors.Is(a.Err, engine.ErrBroken) || a.Says != "" {
		t.Errorf("says %q, error %v", a.Says, a.Err)
	}
	if a := f.do(&engine.Find{Semaphore: db, Lease: "M"}); !errors.Is(a.Err, engine.ErrBroken) {
		t.Errorf("what was not written is told: %+v, error %v", a.Record, a.Err)
	}
	for len(f.probes) > 0 {
		<-f.probes
	}
	if p := <-f.probes; p.Refusal == nil {
		t.Error("the probe does not say that the node can not write")
	}
	f.node.Close()
	f = openAs(t, cfg, engine.Value{})
	if f.record("L") == nil || f.record("M") != nil {
		t.Error("what was acknowledged is not what is there")
	}
}

func TestAFullDiskIsTriedAgainAndAnyOtherErrorOfTheFirstFileIsNot(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&fs.PathError{Op: "write", Err: syscall.ENOSPC}:   false,
		&fs.PathError{Op: "truncate", Err: syscall.EFBIG}: false,
		&fs.PathError{Op: "write", Err: syscall.EDQUOT}:   false,
		&fs.PathError{Op: "write", Err: syscall.EIO}:      true,
		&fs.PathError{Op: "fdatasync", Err: syscall.EIO}:  true,
		fmt.Errorf("wrapped: %w", error(syscall.ENOSPC)):  false,
		errors.New("file resize error: file too large"):   false,
		errors.New("file sync error: no space on device"): true,
	} {
		if got := mayHaveLost(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestAfterAFlushThatFailedNothingIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{Dir: t.TempDir()}, engine.Value{Limit: 3})
	if err := f.node.store.first.db.Close(); err != nil {
		t.Fatal(err)
	}
	if a := f.define(db, 5, engine.Value{Limit: 4}); !errors.Is(a.Err, engine.ErrBroken) {
		t.Errorf("says %q, error %v", a.Says, a.Err)
	}
	var err error
	if f.node.store.first.db, err = bolt.Open(filepath.Join(f.node.dir, firstName), fileMode, firstOptions()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the disk works again, and what it kept of the flush that failed nobody knows
		if a := f.do(&engine.Peek{Kind: engine.RegisterSemaphore, Name: db}); !errors.Is(a.Err, engine.ErrBroken) {
			t.Errorf("says %q, error %v", a.Says, a.Err)
		}
	}
}
