package localnode

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
)

func TestFormingMakesANodeOK(t *testing.T) {
	t.Parallel()
	state := NewState()
	state.RunID, state.Replid, state.Nonce = runID, "replid", func() string { return "instance" }
	m := &memory{t: t, state: state, now: 1e9}
	token := engine.Ballot{Counter: 3, Replica: "r"}
	frozen := m.says(&engine.Freeze{Token: token, RunID: runID}, engine.SaysDone).Node
	want := &engine.NodeRecord{
		Format: engine.FormatNow, RunID: runID, Replid: "replid", State: engine.StateFrozen, Instance: "instance", Token: token,
	}
	if diff := cmp.Diff(want, frozen); diff != "" {
		t.Errorf("frozen (-want +got):\n%s", diff)
	}
	load := &engine.Load{Token: token, RunID: runID, Cluster: "c", N: 3, Index: 2, Known: []int64{4, 5, 6}}
	m.says(load, engine.SaysDone)
	commit := &engine.Commit{Token: token, RunID: runID}
	ok := m.says(commit, engine.SaysDone).Node
	want = &engine.NodeRecord{
		Format: engine.FormatNow, Cluster: "c", N: 3, Index: 2, RunID: runID, Replid: "replid", State: engine.StateOK, EverOK: true, Era: 6,
		Known: []int64{4, 5, 6}, Instance: "instance", Token: token, FenceFloor: m.now,
	}
	if diff := cmp.Diff(want, ok); diff != "" {
		t.Errorf("ok (-want +got):\n%s", diff)
	}
	if again := m.says(commit, engine.SaysDone).Node; again != ok {
		t.Error("a repeated commit changed the record")
	}
}

func TestWhatFreezeRefuses(t *testing.T) {
	t.Parallel()
	first := engine.Ballot{Counter: 1, Replica: "former"} // that of newMemory
	larger := engine.Ballot{Counter: 2, Replica: "a"}
	tests := map[string]struct {
		freeze engine.Freeze
		want   engine.Says
	}{
		"the token seen gives way to a larger":  {engine.Freeze{Token: larger, Was: first, Cluster: "c", RunID: runID}, engine.SaysDone},
		"its own token, when that is done":      {engine.Freeze{Token: first, Cluster: "c", RunID: runID}, engine.SaysNo},
		"a smaller token":                       {engine.Freeze{Token: engine.Ballot{Counter: 1, Replica: "a"}, Was: first, Cluster: "c", RunID: runID}, engine.SaysNo},
		"a token that the sender has not seen":  {engine.Freeze{Token: larger, Cluster: "c", RunID: runID}, engine.SaysNo},
		"another cluster, once it was ok":       {engine.Freeze{Token: larger, Was: first, Cluster: "d", RunID: runID}, engine.SaysNo},
		"a forming, once it was ok":             {engine.Freeze{Token: larger, Was: first, RunID: runID}, engine.SaysNo},
		"the server was started anew meanwhile": {engine.Freeze{Token: larger, Was: first, Cluster: "c", RunID: "run-0"}, engine.SaysNo},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			a := m.says(&test.freeze, test.want)
			if a.Node == nil || (a.Node.State == engine.StateFrozen) != (test.want == engine.SaysDone) {
				t.Errorf("the record is %+v", a.Node)
			}
		})
	}
}

func TestLoadAndCommitWantTheTokenAndTheRunIDThatTheNodeWasFrozenBy(t *testing.T) {
	t.Parallel()
	token := engine.Ballot{Counter: 5, Replica: "r"}
	tests := map[string]struct {
		before func(*memory)
		token  engine.Ballot
		runID  string
	}{
		"blank":                        {func(*memory) {}, token, runID},
		"another token":                {func(m *memory) { m.freeze(token) }, engine.Ballot{Counter: 4}, runID},
		"another run_id":               {func(m *memory) { m.freeze(token) }, token, "run-0"},
		"a restart since":              {func(m *memory) { m.freeze(token); m.state.RunID = "run-2" }, token, "run-2"},
		"frozen by a larger one since": {func(m *memory) { m.freeze(token); m.load(token); m.freeze(engine.Ballot{Counter: 6}) }, token, runID},
		"nothing loaded": {func(m *memory) {
			m.freeze(token)
			m.load(token)
			m.freeze(engine.Ballot{Counter: 6})
		}, engine.Ballot{Counter: 6}, runID},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{t: t, state: NewState(), now: 1e9}
			m.state.RunID = runID
			test.before(m)
			m.says(&engine.Commit{Token: test.token, RunID: test.runID}, engine.SaysNo)
			if name != "nothing loaded" {
				m.says(&engine.Load{Token: test.token, RunID: test.runID, Cluster: "c", N: 1, Known: []int64{1}}, engine.SaysNo)
			}
		})
	}
}

// freeze freezes the node by a token, whatever it has.
func (m *memory) freeze(token engine.Ballot) {
	m.t.Helper()
	op := &engine.Freeze{Token: token, RunID: m.state.RunID}
	if r := m.state.Record(); r != nil {
		op.Was, op.Cluster = r.Token, r.Cluster
	}
	m.says(op, engine.SaysDone)
}

func (m *memory) load(token engine.Ballot) {
	m.t.Helper()
	m.says(&engine.Load{Token: token, RunID: m.state.RunID, Cluster: "c", N: 1, Known: []int64{1}}, engine.SaysDone)
}
