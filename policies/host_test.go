package policies

import (
	"bytes"
	"testing"
)

// newHost is a host on a store, closed at the end of the test.
func newHost(t testing.TB, cfg Config) *Host {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = &Memory{}
	}
	if cfg.Engine == "" {
		cfg.Engine = usualEngine
	}
	cfg.Directory = t.TempDir()
	h, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// put uploads a module that is expected to be taken.
func put(t testing.TB, h *Host, name string, wasm []byte) Status {
	t.Helper()
	s, _, err := h.Put(t.Context(), name, bytes.NewReader(wasm), Change{By: "test"})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// ask asks for n of 10 permits. Where no code is asked to run on for ever, it has as long as may be: the machine may be busy.
func ask(t testing.TB, h *Host, b *Binding, n int64) Decision {
	t.Helper()
	if b.Timeout == 0 && n != askLoop && n != askRecurse {
		patient := *b
		patient.Timeout = TimeoutMax
		b = &patient
	}
	d, err := h.Evaluate(t.Context(), b, &Request{Semaphore: "db", Requested: n, Limit: 10, Available: 10})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAPolicyWeighsDeniesOrHasNoOpinion(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	for _, c := range []struct {
		name   string
		answer int64
		act    Act
		weight int64
		kind   Outcome
	}{
		{"one", 1, ActAllow, 1, OutcomeAllow},
		{"two", 2, ActAllow, 2, OutcomeAllow},
		{"none", 0, ActAllow, 4, OutcomeNone},
		{"deny", -1, ActDeny, 0, OutcomeDeny},
		{"largest", 1<<63 - 1, ActAllow, 1<<63 - 1, OutcomeAllow},
	} {
		put(t, h, c.name, answers(c.answer))
		d := ask(t, h, &Binding{Policy: c.name}, 4)
		if d.Act != c.act || d.Weight != c.weight || d.Outcome != c.kind || d.Generation == 0 || d.Policy != c.name {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

func TestAModuleThatMisbehavesIsAFault(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{Compiler, Interpreter} {
		h := newHost(t, Config{Engine: engine})
		put(t, h, "moody", moody())
		for n, kind := range map[int64]FaultKind{askLoop: FaultTimeout, askTrap: FaultTrap, askBadResult: FaultBadResult, askRecurse: FaultTimeout} {
			d := ask(t, h, &Binding{Policy: "moody"}, n)
			if d.Act != ActDeny || d.Fault == nil || d.Fault.Kind != kind {
				t.Errorf("%s, asked for %d: %+v", engine, n, d)
			}
			t.Logf("%s %d: %v in %v", engine, n, d.Fault, d.Elapsed)
		}
		if d := ask(t, h, &Binding{Policy: "moody"}, 1); d.Weight != 3 {
			t.Errorf("%s, afterwards: %+v", engine, d)
		}
	}
}
