package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// closedLate is a module that seems open to whoever looks.
type closedLate struct{ api.Module }

func (closedLate) IsClosed() bool { return false }

// loaded is a policy's version, held for a test.
func loaded(t *testing.T, wasm []byte) *version {
	t.Helper()
	h := newHost(t, Config{Slots: 2})
	put(t, h, "p", wasm)
	v := h.policy("p").acquire()
	t.Cleanup(v.release)
	return v
}

func take(t *testing.T, v *version, config string, fresh bool) *instance {
	t.Helper()
	i, err := v.pool.take(config, fresh)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAnInstanceIsUsedAgainForItsConfigurationOnly(t *testing.T) {
	t.Parallel()
	v := loaded(t, answers(1))
	first := take(t, v, "a", false)
	v.pool.put(first)
	other := take(t, v, "b", false)
	again := take(t, v, "a", false)
	if other == first || again != first {
		t.Errorf("%p for a, %p for b, %p for a again", first, other, again)
	}
	v.pool.put(other)
	v.pool.put(again)
}

func TestInstancesRetire(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(i *instance){
		discardUses:   func(i *instance) { i.uses = instanceUsesMax },
		discardAge:    func(i *instance) { i.born = i.born.Add(-instanceAgeMax) },
		discardMemory: func(i *instance) { i.module.Memory().Grow(pagesMax / 2) },
		discardClosed: func(i *instance) { i.close() },
	} {
		v := loaded(t, answers(1))
		for name, at := range map[string]func(i *instance){
			"on put": func(i *instance) { change(i); v.pool.put(i) },
			"idle":   func(i *instance) { v.pool.put(i); change(i) },
		} {
			if name == "idle" && why == discardMemory {
				continue // memory does not grow while nothing runs
			}
			i := take(t, v, "", false)
			at(i)
			next := take(t, v, "", false)
			if next == i {
				t.Errorf("%s, %s: used again", why, name)
			}
			v.pool.discard(next, discardDrain)
		}
		if v.meter.metrics().Discards[why] == 0 {
			t.Errorf("%s is not counted", why)
		}
	}
}

func TestIdleInstancesAreBoundedByNumberAndMemory(t *testing.T) {
	t.Parallel()
	v := loaded(t, policyOf(func(w *wasm) [][]byte {
		w.memories = [][]byte{cat([]byte{0}, u(pagesMax/2))}
		return [][]byte{i64(1)}
	}))
	for range 12 {
		if err := v.pool.prepare(""); err != nil {
			t.Fatal(err)
		}
	}
	if _, idle := v.pool.count(); idle != idleBytesMax/instanceBytesMax {
		t.Errorf("%d idle instances of 8 MiB", idle)
	}
	small := loaded(t, answers(1))
	for n := range idleMax + 5 {
		if err := small.pool.prepare(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, idle := small.pool.count(); idle != idleMax {
		t.Errorf("%d idle instances", idle)
	}
	small.pool.trim(time.Now().Add(instanceAgeMax))
	if _, idle := small.pool.count(); idle != 0 {
		t.Errorf("%d idle instances after ten minutes", idle)
	}
}

func TestALateCloseIsRetriedOnceOnAFreshInstance(t *testing.T) {
	t.Parallel()
	v := loaded(t, moody())
	i := take(t, v, "", false)
	v.pool.put(i)
	// What the deadline of an earlier call does, just after the pool has looked.
	i.module = closedLate{i.module}
	if err := i.module.CloseWithExitCode(t.Context(), 0xefffffff); err != nil {
		t.Fatal(err)
	}
	d := v.ask(&Binding{Policy: "p"}, &Request{Requested: 1})
	if d.Fault != nil || d.Weight != 3 {
		t.Errorf("%+v", d)
	}
	if m := v.meter.metrics(); m.Discards[discardClosed] != 1 || len(m.Faults) == 0 || m.Faults[FaultTimeout]+m.Faults[FaultExit] != 0 {
		t.Errorf("%+v", m)
	}
}

func TestOverloadIsToldWithinItsBudget(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{Slots: 1})
	put(t, h, "p", moody())
	v := h.policy("p").acquire()
	defer v.release()
	if err := v.pool.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer v.pool.leave()
	began := time.Now()
	d := ask(t, h, &Binding{Policy: "p", OnFault: OnFaultUnavailable}, 1)
	if d.Fault == nil || d.Fault.Kind != FaultOverloaded || d.Act != ActUnavailable {
		t.Errorf("%+v", d)
	}
	if took := time.Since(began); took < slotWaitMax {
		t.Errorf("told after %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.decide(ctx, &Binding{Policy: "p"}, &Request{Requested: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that ends while it waits: %v", err)
	}
	if h.Metrics()["p"].BreakerOpen {
		t.Error("overload counts for the breaker")
	}
}

func TestAClientThatLeavesDoesNotEndItsInstance(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	d, err := h.Evaluate(ctx, &Binding{Policy: "p"}, &Request{Requested: askLoop, Limit: 1})
	if err != nil || d.Fault == nil || d.Fault.Kind != FaultTimeout || d.Elapsed < TimeoutUsual {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := h.Evaluate(ctx, &Binding{Policy: "p"}, &Request{Requested: 1, Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is over already: %v", err)
	}
}

func TestFreshInstancesArePreparedAhead(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", counting())
	b := &Binding{Policy: "p", Isolation: IsolationFresh}
	for range 10 {
		ask(t, h, b, 1)
		for deadline := time.Now().Add(5 * time.Second); h.Metrics()["p"].Idle == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // until the goroutine that prepares is done
		}
	}
	m := h.Metrics()["p"]
	if m.Idle != 1 || m.Instances != 11 || m.Discards[discardFresh] != 10 {
		t.Errorf("%+v", m)
	}
}

func TestAModuleThatEndsItselfIsAFault(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	exit := func(code int64) []byte {
		return policyOf(func(w *wasm) [][]byte {
			of, _ := served(wasiModule, "proc_exit")
			return onAsk(i32c(code), callTo(w.imported(wasiModule, "proc_exit", of)))
		})
	}
	for code, want := range map[int64]string{0: "exit code 0", 3: "exit code 3", 0xefffffff: "exit code 4026531839"} {
		put(t, h, "p", exit(code))
		d := ask(t, h, &Binding{Policy: "p"}, askTrap)
		if d.Fault == nil || d.Fault.Kind != FaultExit || !strings.Contains(d.Fault.Detail, want) {
			t.Errorf("%d: %+v", code, d.Fault)
		}
		if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 1 {
			t.Errorf("after %d: %+v", code, d)
		}
	}
}

func TestWhatIsCompiledIsTakenFromTheDirectory(t *testing.T) {
	t.Parallel()
	directory, store := t.TempDir(), &Memory{}
	for range 2 { // the second host finds the code of the first
		h, err := Open(Config{Store: store, Directory: directory})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Put(t.Context(), "p", bytes.NewReader(moody()), Change{}); err != nil {
			t.Error(err)
		}
		if err := h.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 3 {
			t.Errorf("%+v", d)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedCodeIsMadeAnew(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for range 2 { // the first makes the code, the second finds it damaged
		h, err := Open(Config{Store: &Memory{}, Directory: directory})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Put(t.Context(), "p", bytes.NewReader(moody()), Change{}); err != nil {
			t.Error(err)
		}
		if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 3 {
			t.Errorf("%+v", d)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if files := damage(t, directory); files == 0 {
			t.Error("there is no code in the directory")
		}
	}
}

// damage cuts all files below a directory in half and tells how many there are.
func damage(t *testing.T, directory string) (files int) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		return os.Truncate(path, info.Size()/2)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
