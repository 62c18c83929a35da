package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func tryPut(t *testing.T, h *Host, name string, wasm []byte, by Change) (Status, bool, error) {
	t.Helper()
	return h.Put(t.Context(), name, bytes.NewReader(wasm), by)
}

func TestAPolicyKeepsFiveVersionsAndGoesBack(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	h := newHost(t, Config{Store: store})
	var sums []string
	for n := range int64(7) {
		s := put(t, h, "p", answers(n+1))
		sums = append(sums, s.SHA256)
		if s.Rev != n+1 || s.Here != HereReady || s.HereRev != s.Rev || s.ABI != 1 || s.Report.SHA256 != s.SHA256 || s.Report.Memory != pageSize {
			t.Errorf("%+v", s)
		}
	}
	s, err := h.Get(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, v := range s.Versions {
		kept = append(kept, v.SHA256)
		if v.By != "test" || time.Since(v.At) > time.Minute {
			t.Errorf("%+v", v)
		}
	}
	want := slices.Clone(sums[2:])
	slices.Reverse(want)
	if !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	slices.Sort(want)
	if !slices.Equal(store.Blobs(), want) {
		t.Errorf("the store has %v, want %v", store.Blobs(), want)
	}
	for _, sum := range []string{sums[0], sums[3][:7], "", sums[3][1:], sums[3] + "0"} {
		if _, err := h.Revert(t.Context(), "p", sum, Change{}); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("back to %q: %v", sum, err)
		}
	}
	s, err = h.Revert(t.Context(), "p", sums[3][:8], Change{By: "anna", IfRev: 7})
	if err != nil || s.SHA256 != sums[3] || s.Rev != 8 || len(s.Versions) != 5 {
		t.Errorf("%+v %v", s, err)
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 4 || d.Generation != 8 {
		t.Errorf("%+v", d)
	}
	if module, err := h.Module(t.Context(), "p"); err != nil || !bytes.Equal(module, answers(4)) {
		t.Errorf("another module: %v", err)
	}
	if _, err := h.Revert(t.Context(), "q", sums[3], Change{}); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("%v", err)
	}
}

func TestConditionsOfAChangeAreKept(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	if _, _, err := tryPut(t, h, "p", answers(1), Change{IfRev: 3}); !errors.Is(err, ErrRevMismatch) {
		t.Errorf("a revision of what is not there: %v", err)
	}
	s, created, err := tryPut(t, h, "p", answers(1), Change{IfRev: -1})
	if err != nil || !created {
		t.Errorf("%+v %v", s, err)
	}
	if again, created, err := tryPut(t, h, "p", answers(1), Change{IfRev: -1}); err != nil || created || again.Rev != s.Rev {
		t.Errorf("repeated: %+v %v", again, err)
	}
	if _, _, err := tryPut(t, h, "p", answers(2), Change{IfRev: -1}); !errors.Is(err, ErrRevMismatch) {
		t.Errorf("there is one: %v", err)
	}
	if _, _, err := tryPut(t, h, "p", answers(1), Change{IfRev: s.Rev + 1}); !errors.Is(err, ErrRevMismatch) {
		t.Errorf("a revision that there has not been, of what is in force: %v", err)
	}
	if _, _, err := tryPut(t, h, "p", answers(2), Change{IfRev: s.Rev + 1}); !errors.Is(err, ErrRevMismatch) {
		t.Errorf("%v", err)
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 1 {
		t.Errorf("%+v", d)
	}
	if err := h.Delete(t.Context(), "p", s.Rev+1); !errors.Is(err, ErrRevMismatch) {
		t.Errorf("%v", err)
	}
	if err := h.Delete(t.Context(), "p", s.Rev); err != nil {
		t.Error(err)
	}
	if s := put(t, h, "p", answers(1)); s.Rev <= 2 {
		t.Errorf("revision %d after a deletion", s.Rev)
	}
}

func TestNamesAndNumbersOfPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for _, name := range []string{"", strings.Repeat("x", NameMax+1), "a\nb", "\xff"} {
		if _, _, err := tryPut(t, h, name, answers(1), Change{}); err == nil {
			t.Errorf("%q was taken", name)
		} else if _, is := errors.AsType[*NameError](err); !is {
			t.Errorf("%q: %v", name, err)
		}
	}
	x := &index{Policies: map[string]*entry{}}
	for n := range PoliciesMax {
		if _, err := x.put(fmt.Sprint(n), Stored{SHA256: "a"}, Report{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.put("one more", Stored{SHA256: "a"}, Report{}, 0); !errors.Is(err, ErrTooManyPolicies) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsBoundWhileBindingsAreReadIsNotForgotten(t *testing.T) {
	t.Parallel()
	var h *Host
	h = newHost(t, Config{Bindings: func(context.Context) (map[string]Binding, error) {
		all := map[string]Binding{"old": {Policy: "p"}, "gone": {Policy: "p"}}
		h.Bind("late", Binding{Policy: "p"})
		h.Unbind("gone")
		return all, nil
	}})
	for range 2 {
		if err := h.Rebind(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h.users("p")); got != "[late old]" {
			t.Errorf("bound are %s", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.reading <- struct{}{}
	if err := h.Rebind(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while somebody reads: %v", err)
	}
	<-h.reading
}

func TestABoundPolicyIsNotDeleted(t *testing.T) {
	t.Parallel()
	bound := map[string]Binding{"gpu": {Policy: "p"}, "tape": {Policy: "q"}}
	looks, late := 0, map[string]Binding(nil)
	h := newHost(t, Config{Bindings: func(context.Context) (map[string]Binding, error) {
		if looks++; looks == 2 && late != nil { // somebody binds it between the look and the deletion
			return late, nil
		}
		return maps.Clone(bound), nil
	}})
	put(t, h, "p", answers(1))
	bound["db"] = Binding{Policy: "p"}
	err := h.Delete(t.Context(), "p", 0)
	if used, ok := errors.AsType[*InUseError](err); !ok || fmt.Sprint(used.Semaphores) != "[db gpu]" {
		t.Errorf("%v", err)
	}
	if s, err := h.Get(t.Context(), "p"); err != nil || fmt.Sprint(s.UsedBy) != "[db gpu]" {
		t.Errorf("%+v %v", s, err)
	}
	delete(bound, "db")
	delete(bound, "gpu")
	looks, late = 0, map[string]Binding{"late": {Policy: "p"}}
	err = h.Delete(t.Context(), "p", 0)
	if used, ok := errors.AsType[*InUseError](err); !ok || fmt.Sprint(used.Semaphores) != "[late]" {
		t.Errorf("%v", err)
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Weight != 1 {
		t.Errorf("%+v", d)
	}
	if err := h.Delete(t.Context(), "p", 0); err != nil {
		t.Error(err)
	}
	if _, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, &Request{Requested: 1}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := h.Delete(t.Context(), "p", 0); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("%v", err)
	}
}

func TestReadyWaitsForBoundPolicies(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	first, second := newHost(t, Config{Store: store}), newHost(t, Config{Store: store})
	put(t, first, "p", answers(1))
	second.Bind("db", Binding{Policy: "p"})
	if err := second.Ready(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), `"db"`) {
		t.Errorf("%v", err)
	}
	if err := second.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Ready(); err != nil {
		t.Error(err)
	}
	if m := second.Metrics()["p"]; m.Idle != 1 {
		t.Errorf("%d instances made ahead for what is bound", m.Idle)
	}
}

func TestAReplicaCatchesUp(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	first, second := newHost(t, Config{Store: store}), newHost(t, Config{Store: store})
	b := &Binding{Policy: "p"}
	for _, n := range []int64{1, 2} {
		put(t, first, "p", answers(n))
		if s, err := second.Get(t.Context(), "p"); err != nil || n == 1 && s.Here != HereCompiling || s.HereRev == s.Rev {
			t.Errorf("before: %+v %v", s, err)
		}
		if err := second.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err := second.Get(t.Context(), "p"); err != nil || s.Here != HereReady || s.HereRev != s.Rev {
			t.Errorf("afterwards: %+v %v", s, err)
		}
		if d := ask(t, second, b, 1); d.Weight != n || d.Generation != n {
			t.Errorf("%+v", d)
		}
	}
	if err := first.Delete(t.Context(), "p", 0); err != nil {
		t.Fatal(err)
	}
	if err := second.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Evaluate(t.Context(), b, &Request{Requested: 1}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after the deletion: %v", err)
	}
	if all, err := second.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}

func TestAReplicaKeepsTheOldVersionWhileItCanNotLoadTheNew(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	first, second := newHost(t, Config{Store: store}), newHost(t, Config{Store: store})
	put(t, first, "p", answers(1))
	if err := second.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := put(t, first, "p", answers(2))
	if err := store.WriteBlob(t.Context(), s.SHA256, answers(3)); err != nil { // somebody tampered with the store
		t.Fatal(err)
	}
	if err := second.Sync(t.Context()); err == nil {
		t.Error("a module of another sum was loaded")
	}
	if d := ask(t, second, &Binding{Policy: "p"}, 1); d.Weight != 1 {
		t.Errorf("%+v", d)
	}
	s, err := second.Get(t.Context(), "p")
	if err != nil || s.Here != HereFailed || s.HereWhy == "" || s.HereRev != 1 {
		t.Errorf("%+v %v", s, err)
	}
	if err := store.WriteBlob(t.Context(), s.SHA256, answers(2)); err != nil {
		t.Fatal(err)
	}
	second.policy("p").at = time.Now().Add(-loadAgain)
	if err := second.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if d := ask(t, second, &Binding{Policy: "p"}, 1); d.Weight != 2 {
		t.Errorf("%+v", d)
	}
}

func TestCodeThatRefusesABoundConfigurationIsNotSwappedIn(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", answers(1))
	h.Bind("db", Binding{Policy: "p", Config: "x"})
	w := &wasm{memories: [][]byte{{0, 1}}}
	get := w.host("config_get")
	w.export(exportConfigure, kindFunction, w.function(funcType{"", i32x1}, i32c(0), i32c(0), callTo(get))) // refuses any but an empty one
	w.finish(w.function(evaluateType, i64(2)))
	_, _, err := tryPut(t, h, "p", w.bytes(), Change{})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Stage != StageInstantiate {
		t.Errorf("%v", err)
	}
	if d := ask(t, h, &Binding{Policy: "p", Config: "x"}, 1); d.Weight != 1 {
		t.Errorf("%+v", d)
	}
}

func TestACheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := &Memory{}
	h := newHost(t, Config{Store: store})
	report, err := h.Check(t.Context(), bytes.NewReader(moody()))
	if err != nil || report.SHA256 != sum(moody()) || report.Size != len(moody()) {
		t.Errorf("%+v %v", report, err)
	}
	if len(store.Blobs()) != 0 || len(h.Metrics()) != 0 {
		t.Error("something is left")
	}
}

func TestADryRunTellsAllAndCountsNowhere(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	before := fmt.Sprint(h.Metrics()["p"])
	for range breakerFaults + 1 {
		d, err := h.DryRun(t.Context(), "p", "", &Request{Requested: askTrap})
		if err != nil || d.Fault == nil || d.Fault.Kind != FaultTrap || d.Generation != 1 || d.Elapsed == 0 {
			t.Errorf("%+v %v", d, err)
		}
	}
	if d, err := h.DryRun(t.Context(), "p", "", &Request{Requested: 1}); err != nil || d.Weight != 3 {
		t.Errorf("%+v %v", d, err)
	}
	if after := fmt.Sprint(h.Metrics()["p"]); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if _, err := h.DryRun(t.Context(), "q", "", &Request{}); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("%v", err)
	}
}

func TestAPolicyInShadowIsComparedAndNotEnforced(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	b := &Binding{Policy: "p", Mode: ModeShadow}
	for _, n := range []int64{1, 3, askTrap, 3} { // 3 is what it answers anyway
		if d := ask(t, h, b, n); d.Act != ActAllow || d.Weight != n || d.Fault != nil || d.Generation != 1 {
			t.Errorf("%+v", d)
		}
	}
	s, err := h.Get(t.Context(), "p")
	if err != nil || len(s.Differences) != 2 || h.Metrics()["p"].Differences != 2 {
		t.Fatalf("%+v %v", s.Differences, err)
	}
	if d := s.Differences[0]; d.Requested != 1 || d.Weight != 3 || d.Semaphore != "db" || d.Outcome != OutcomeAllow {
		t.Errorf("%+v", d)
	}
	if d := s.Differences[1]; d.Fault == nil || d.Fault.Kind != FaultTrap {
		t.Errorf("%+v", d)
	}
	for range 30 {
		ask(t, h, b, 2)
	}
	if s, err := h.Get(t.Context(), "p"); err != nil || len(s.Differences) != differencesKept || h.Metrics()["p"].Differences != 32 {
		t.Errorf("%d of %d differences kept, %v", len(s.Differences), h.Metrics()["p"].Differences, err)
	}
}

func TestFaultsInShadowKeepNobodyElseFromBeingAsked(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	for range 2 * breakerFaults {
		ask(t, h, &Binding{Policy: "p", Mode: ModeShadow}, askTrap)
	}
	if d := ask(t, h, &Binding{Policy: "p"}, 1); d.Fault != nil || d.Weight != 3 {
		t.Errorf("%+v", d)
	}
	if h.Metrics()["p"].BreakerOpen {
		t.Error("the breaker of those whom the policy weighs is open")
	}
	s, err := h.Get(t.Context(), "p")
	if err != nil || len(s.Differences) == 0 {
		t.Fatalf("%+v %v", s.Differences, err)
	}
	if d := s.Differences[len(s.Differences)-1]; d.Fault == nil || d.Fault.Kind != FaultBreakerOpen {
		t.Errorf("the last of them was asked: %+v", d)
	}
}

func TestABindingIsValidated(t *testing.T) {
	t.Parallel()
	for field, b := range map[string]Binding{
		"name": {}, "config": {Policy: "p", Config: strings.Repeat("x", ConfigMax+1)}, "timeout": {Policy: "p", Timeout: time.Millisecond},
		"on_fault": {Policy: "p", OnFault: "shrug"}, "isolation": {Policy: "p", Isolation: "solitary"}, "mode": {Policy: "p", Mode: "maybe"},
	} {
		if wrong, is := errors.AsType[*BindingError](b.Validate()); !is || wrong.Field != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	h := newHost(t, Config{})
	if err := h.CheckBinding(t.Context(), Binding{Policy: "p"}); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("%v", err)
	}
	right := Binding{"p", "{}", OnFaultUnavailable, TimeoutMin, IsolationFresh, ModeShadow}
	put(t, h, "p", answers(1))
	if err := h.CheckBinding(t.Context(), right); err != nil {
		t.Error(err)
	}
}

func TestAfterASwapEveryNewCallSeesTheNewCode(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", answers(1))
	var current sync.Map // the weight that a call must at least see; versions answer 1, 2, 3 …
	current.Store("least", int64(1))
	stop := make(chan struct{})
	var w sync.WaitGroup
	for range 4 {
		w.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least, _ := current.Load("least")
				d, err := h.Evaluate(context.Background(), &Binding{Policy: "p", Timeout: TimeoutMax}, &Request{Requested: 1, Limit: 1})
				if err != nil || d.Fault != nil && d.Fault.Kind != FaultOverloaded || d.Fault == nil && (d.Weight < least.(int64) || d.Generation != d.Weight) {
					t.Errorf("%+v after %v, %v", d, least, err)
					return
				}
			}
		})
	}
	for n := range int64(30) {
		put(t, h, "p", answers(n+2))
		current.Store("least", n+2)
	}
	close(stop)
	w.Wait()
	if m := h.Metrics()["p"]; m.Runtimes != 1 || m.Swaps != 30 || m.Generation != 31 {
		t.Errorf("%+v", m)
	}
}

func TestAClosedHostRefusesAndClosesWhatItHad(t *testing.T) {
	t.Parallel()
	h, err := Open(Config{Store: &Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, h, "p", answers(1))
	of := h.policy("p")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := of.meter.runtimes.Load(); n != 0 {
		t.Errorf("%d runtimes are open", n)
	}
	if _, err := h.Evaluate(t.Context(), &Binding{Policy: "p"}, &Request{Requested: 1}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("a host without a store was opened")
	}
}

func TestStagesAreOfflineToo(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{Compiler, Interpreter} {
		m, err := Load(t.Context(), engine, bytes.NewReader(moody()))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := m.Evaluate("", &Request{Requested: 1}); err != nil || d.Weight != 3 {
			t.Errorf("%+v %v", d, err)
		}
		if _, err := m.Evaluate("", &Request{Attributes: map[string]string{"": ""}}); err == nil {
			t.Error("an empty key was taken")
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		invalid := policyOf(func(*wasm) [][]byte { return [][]byte{{0x7c}} })
		_, err = Load(t.Context(), engine, bytes.NewReader(invalid))
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Stage != StageCompile || strings.Contains(refusal.Got, "\n") {
			t.Errorf("%s: %v", engine, err)
		}
	}
}
