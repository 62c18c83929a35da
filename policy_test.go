package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server/client"
)

// guest is a module of the examples.
func guest(name string) string { return "policies/guests/c/" + name + ".wasm" }

// does runs permitd and fails the test unless that went well and printed these texts.
func does(t *testing.T, args []string, texts ...string) {
	t.Helper()
	out, said, code := command(t, args...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("permitd %v printed %q, without %q", args, out, text)
		}
	}
	if code != 0 {
		t.Errorf("permitd %v: %d, %s", args, code, said)
	}
}

func TestPoliciesAreCheckedAndAskedWithoutAServer(t *testing.T) {
	t.Parallel()
	does(t, []string{"policy", "check", guest("gold")}, "sha256", "evaluate")
	does(t, []string{"policy", "check", guest("weights"), "--wasm-engine", "interpreter", "--json"}, `"sha256": "`)
	does(t, []string{"policy", "eval", guest("gold"), "--limit", "100", "--available", "20"}, "deny\nreason   less than a quarter is free\n")
	does(t, []string{"policy", "eval", guest("gold"), "--attr", "tier=gold", "-n", "3"}, "allow 3\npriority 10\n")
	does(t, []string{"policy", "eval", guest("weights"), "--config", "attribute tier\n* 4\n", "--json"}, `"decision": "allow"`, `"weight": 4`)
	if _, said, code := command(t, "policy", "check", "go.mod"); code != exitData || !strings.Contains(said, "header: got") {
		t.Errorf("%d, %s", code, said)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, policies.ConfigMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--attr", "x"}, "KEY=VALUE"},
		{[]string{"--attr", "permitd.client=x"}, "come from the server"},
		{[]string{"--limit", "-1"}, "--limit must be 1 or more"},
		{[]string{"-n", "0"}, "--requested and"},
		{[]string{"--available", "-2"}, "--available and"},
		{[]string{"--config", strings.Repeat("x", policies.ConfigMax+1)}, "config: 16385 bytes, at most 16384"},
		{[]string{"--config-file", large}, "a configuration has up to 16384 bytes"},
		{[]string{"--config-file", "/dev/zero"}, "a configuration has up to 16384 bytes"},
		{[]string{"--config-file", large, "--config", "x"}, "one of them"},
	} {
		if _, said, code := command(t, append([]string{"policy", "eval", guest("gold")}, c.args...)...); code != exitUsage || !strings.Contains(said, c.said) {
			t.Errorf("%.80q: %d, %s", c.args, code, said)
		}
	}
}

func TestAConfigurationBelongsToItsPolicy(t *testing.T) {
	t.Parallel()
	r := start(t, "--data", ":memory:")
	url := "--url=" + r.url
	r.putGuest(t, "weights", "weights")
	r.putGuest(t, "gold", "gold")
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 8}, 0); err != nil {
		t.Fatal(err)
	}
	config := func() string {
		s, err := r.client.Semaphore(t.Context(), "db")
		if err != nil || s.Definition.Policy == nil {
			t.Fatal(s, err)
		}
		return s.Definition.Policy.Config
	}
	does(t, []string{"policy", "ls", url}, "weights\t1\t", "\tready\t-\t")
	const table = "attribute tier\n* 2\n"
	does(t, []string{"policy", "shadow", "db", "weights", "--config", table, url})
	does(t, []string{"policy", "bind", "db", "weights", "--timeout", "100ms", url}, "enforce", "100ms")
	if got := config(); got != table {
		t.Errorf("bound as it was in shadow, it is told %q", got)
	}
	does(t, []string{"policy", "bind", "db", "gold", "--timeout", "200ms", url}, "gold\tenforce\tdeny\t200ms")
	if got := config(); got != "" {
		t.Errorf("another policy is told %q", got)
	}
}

func TestAPolicyIsUploadedBoundShadowedAndRemovedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	r := start(t, "--data", ":memory:")
	url := "--url=" + r.url
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 8}, 0); err != nil {
		t.Fatal(err)
	}
	does(t, []string{"policy", "put", "gold", guest("gold"), "--dry-run", url}, "sha256")
	does(t, []string{"policy", "put", "gold", guest("gold"), "--dry-run", "--json", url}, `"abi": 1`, `"used_by": []`, `"versions": []`)
	if _, said, code := command(t, "policy", "put", "gold", "--sha256", strings.Repeat("0", 64), "--dry-run", url); code != exitUsage || !strings.Contains(said, "--dry-run needs a file") {
		t.Errorf("%d, %s", code, said)
	}
	does(t, []string{"policy", "ls", url}, "")
	does(t, []string{"policy", "put", "gold", guest("gold"), url}, "compile")
	does(t, []string{"policy", "bind", "db", "gold", "--on-fault", "unavailable", "--timeout", "500ms", url}, "db\tgold\tenforce\tunavailable\t500ms\tpooled\n")
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{Permits: 2})
	if err != nil || lease.Weight != 4 || lease.Policy != (client.LeasePolicy{Name: "gold", Generation: 1}) {
		t.Errorf("%+v, %v", lease, err)
	}
	does(t, []string{"policy", "ls", url}, "gold\t1\t", "\tready\t", "\tdb\n")
	if _, said, code := command(t, "policy", "rm", "gold", "--yes", url); code == 0 || !strings.Contains(said, "policy_in_use") {
		t.Errorf("%d, %s", code, said)
	}
	does(t, []string{"policy", "shadow", "db", url}, "db\tgold\tshadow\tunavailable\t500ms\tpooled\n")
	if lease, err := r.client.Acquire(t.Context(), "db", client.Ask{Permits: 2}); err != nil || lease.Weight != 2 {
		t.Errorf("%+v, %v", lease, err)
	}
	does(t, []string{"policy", "bind", "db", "--none", url}, "db\t-\t")
	if _, said, code := command(t, "policy", "rm", "gold", url); code != exitUsage || !strings.Contains(said, "--yes") {
		t.Errorf("%d, %s", code, said)
	}
	does(t, []string{"policy", "rm", "gold", "--yes", url})
}

// putGuest uploads an example through a replica.
func (r *running) putGuest(t *testing.T, name, module string) client.Policy {
	t.Helper()
	f, err := os.Open(guest(module))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p, err := r.client.PutPolicy(t.Context(), name, f, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// weight is what a replica says that two permits weigh.
func (r *running) weight(t *testing.T) string {
	t.Helper()
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{Permits: 2, Wait: client.NoWait, Attributes: map[string]string{"tier": "tin"}})
	if err != nil {
		p, ok := err.(*client.Problem)
		if !ok {
			t.Fatal(err)
		}
		return p.Kind
	}
	if _, err := r.client.Release(t.Context(), "db", lease.Capability, 0); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(lease.Weight)
}

func TestAPolicyUploadedAtOneReplicaIsEnforcedByAll(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 3)
	first, second := start(t, "--redis", nodes), start(t, "--redis", nodes)
	put := first.putGuest(t, "p", "gold")
	if put.Rev != 1 || put.Here != "ready" {
		t.Errorf("%+v", put)
	}
	if _, err := first.client.Put(t.Context(), "db", client.Definition{Limit: 100, Policy: &client.Binding{Name: "p", Timeout: "500ms"}}, 0); err != nil {
		t.Fatal(err)
	}
	if w := first.weight(t); w != "4" {
		t.Errorf("the first replica says %s", w)
	}
	// The second knows of it in a moment. Until then it answers nobody by a policy that it does not have.
	eventually(t, "the second replica enforces it", func() bool {
		w := second.weight(t)
		if w != "policy_unavailable" && w != "4" {
			t.Fatalf("the second replica says %s", w)
		}
		return w == "4"
	})

	// What is put to work at one is at work at all.
	if _, err := second.client.Bind(t.Context(), "db", &client.Binding{Config: "attribute tier\ntin 3\n"}); err != nil {
		t.Fatal(err)
	}
	second.putGuest(t, "p", "weights")
	for _, r := range []*running{first, second} {
		eventually(t, "another version is enforced", func() bool { return r.weight(t) == "6" })
	}

	// A replica that was away, and one node that was, catch up.
	servers[2].Kill()
	first.stop()
	second.putGuest(t, "p", "gold")
	servers[2].Restart()
	eventually(t, "the node is taken back", func() bool {
		nodes, err := second.client.Nodes(t.Context())
		return err == nil && !slices.ContainsFunc(nodes.Items, func(n client.Node) bool { return n.State != "up" })
	})
	servers[0].Kill()
	third := start(t, "--redis", nodes)
	eventually(t, "a new replica is ready", func() bool { return third.client.Ready(t.Context()) == nil })
	if w := third.weight(t); w != "4" {
		t.Errorf("a new replica says %s", w)
	}
	if err := third.client.DeletePolicy(t.Context(), "p"); !isKind(err, "policy_in_use") {
		t.Error(err)
	}
	if _, err := third.client.Bind(t.Context(), "db", nil); err != nil {
		t.Fatal(err)
	}
	if err := third.client.DeletePolicy(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	if _, err := second.client.Policy(t.Context(), "p"); !isKind(err, "not_found") {
		t.Error(err)
	}
}

func TestPoliciesOfTheEmbeddedStoreAreThereAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, "--data", dir, "--wasm-engine", "interpreter")
	r.putGuest(t, "p", "gold")
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 100, Policy: &client.Binding{Name: "p", Timeout: "500ms"}}, 0); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = start(t, "--data", dir, "--wasm-engine", "interpreter")
	eventually(t, "it is ready", func() bool { return r.client.Ready(t.Context()) == nil })
	if w := r.weight(t); w != "4" {
		t.Errorf("it says %s", w)
	}
	if _, said, code := command(t, "serve", "--wasm-engine", "x"); code != exitConfiguration || !strings.Contains(said, "--wasm-engine") {
		t.Errorf("%d, %s", code, said)
	}
}
