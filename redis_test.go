package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/server/client"
)

// redisNodes starts real servers and returns them with what --redis takes.
func redisNodes(t *testing.T, n int) (servers []*redistest.Server, flag string) {
	t.Helper()
	var addresses []string
	for range n {
		s := redistest.Start(t, redistest.AOF)
		servers, addresses = append(servers, s), append(addresses, s.Addr())
	}
	return servers, strings.Join(addresses, ",")
}

func TestThreeRedisNodesServeAndSurviveTheLossOfOne(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 3)
	r, other := start(t, "--redis", nodes), start(t, "--redis", nodes)
	if !strings.Contains(r.output, "3 Redis nodes ("+strings.ReplaceAll(nodes, ",", ", ")+")") {
		t.Error(r.output)
	}
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{Create: &client.Definition{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
		t.Error(err)
	}
	servers[0].Kill()
	if _, err := other.client.Release(t.Context(), "db", lease.Capability, 0); err != nil { // by a replica that did not grant it
		t.Error(err)
	}
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: 5 * time.Second}); err != nil {
		t.Error(err)
	}
	servers[1].Kill()
	eventually(t, "readyz tells which are missing", func() bool {
		err := r.client.Ready(t.Context())
		return isKind(err, "quorum_unavailable") && strings.Contains(err.Error(), servers[0].Addr()) && strings.Contains(err.Error(), servers[1].Addr())
	})
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{}); !isKind(err, "quorum_unavailable") {
		t.Error(err)
	}
}

func TestAQuorumIsOfAllNodesNotOfThoseThatAnswer(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 5)
	start(t, "--redis", nodes).stop()
	servers[0].Kill()
	servers[1].Kill()
	r := start(t, "--redis", nodes)
	eventually(t, "three of five serve", func() bool { return r.client.Ready(t.Context()) == nil })
	n, err := r.client.Nodes(t.Context())
	if err != nil || n.Quorum != 3 || len(n.Items) != 5 {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Create: &client.Definition{Limit: 3}}); err != nil {
		t.Error(err)
	}
	servers[2].Kill()
	for range 10 {
		if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, "quorum_unavailable") {
			t.Error(err)
		}
		if _, err := r.client.Semaphore(t.Context(), "db"); !isKind(err, "quorum_unavailable") {
			t.Error(err)
		}
	}
}

func TestNodesThatAreUnreachableAtTheStartAreWaitedFor(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 3)
	servers[2].Pause() // it accepts and never answers
	r := start(t, "--redis", nodes)
	err := r.client.Ready(t.Context())
	if !isKind(err, "quorum_unavailable") || !strings.Contains(err.Error(), servers[2].Addr()) {
		t.Error(err)
	}
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Create: &client.Definition{Limit: 1}}); !isKind(err, "quorum_unavailable") {
		t.Error(err)
	}
	servers[2].Resume()
	eventually(t, "all have answered, and the cluster is formed", func() bool { return r.client.Ready(t.Context()) == nil })
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Create: &client.Definition{Limit: 1}}); err != nil {
		t.Error(err)
	}
}

func TestNodesThatDoNotFitTogetherAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	three, nodes := redisNodes(t, 3)
	start(t, "--redis", nodes).stop()
	evicting := redistest.Start(t, redistest.Args("--maxmemory-policy", "allkeys-lru"))
	spare := redistest.Start(t)
	a, b, c := three[0].Addr(), three[1].Addr(), three[2].Addr()
	for _, test := range []struct{ name, redis, says string }{
		{"one server twice", strings.Join([]string{a, b, b}, ","), "same server"},
		{"fewer nodes than the cluster has", a, "a cluster of 3 nodes, 1 are listed"},
		{"more nodes than the cluster has", strings.Join([]string{a, b, c, spare.Addr(), redistest.Start(t).Addr()}, ","), "a cluster of 3 nodes, 5 are listed"},
		{"an eviction policy", evicting.Addr(), "noeviction"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--redis", test.redis}, &stdout, &stderr)
		if code != 78 || !strings.Contains(stderr.String(), test.says) {
			t.Errorf("%s: exit code %d: %s %s", test.name, code, &stdout, &stderr)
		}
	}
	r := start(t, "--redis", nodes) // nothing was wiped
	if err := r.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAPasswordIsUsedAndNeverTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Password("s3cret"))
	r := start(t, "--redis", "redis://:s3cret@"+server.Addr()+"/3")
	if err := r.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	wrong := start(t, "--redis", "redis://:gu3ss@"+server.Addr())
	err := wrong.client.Ready(t.Context())
	if !isKind(err, "quorum_unavailable") {
		t.Error(err)
	}
	if !strings.Contains(r.output, "one Redis node (") || strings.Contains(wrong.output, "Try it") || !strings.Contains(wrong.output, "Waiting") {
		t.Errorf("they announced %q, and %q which is not ready", r.output, wrong.output)
	}
	for _, text := range []string{r.output, r.stderr.String(), wrong.output, wrong.stderr.String(), err.Error()} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "gu3ss") {
			t.Errorf("a password is told: %s", text)
		}
	}
}

func TestANodeThatIsDurableByNameOnlyIsToldOnce(t *testing.T) {
	t.Parallel()
	forgets, keeps := redistest.Start(t), redistest.Start(t, redistest.AOF)
	const warning = "this one keeps nothing"
	r := start(t, "--redis", forgets.Addr(), "--durable-nodes")
	eventually(t, warning, func() bool { return strings.Contains(r.stderr.String(), warning) })
	r.stop()
	if log := r.stderr.String(); strings.Count(log, warning) != 1 {
		t.Error(log)
	}
	r = start(t, "--redis", keeps.Addr(), "--durable-nodes")
	if err := r.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if log := r.stderr.String(); strings.Contains(log, warning) {
		t.Error(log)
	}
}

// Of all that nodes forget at once a replica that has just started knows nothing, so it warns of nodes that keep nothing.
func TestAStartWarnsOfNodesThatKeepNothingOnDisk(t *testing.T) {
	t.Parallel()
	forgets, keeps := redistest.Start(t), redistest.Start(t, redistest.AOF)
	r := start(t, "--redis", forgets.Addr()+","+keeps.Addr()+","+redistest.Start(t, redistest.AOF).Addr())
	if err := r.client.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes, err := r.client.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if warned := strings.Contains(n.Warning, "set appendonly yes"); warned != (n.Node == forgets.Addr()) {
			t.Errorf("%+v", n)
		}
	}
	r.stop()
	warning := regexp.MustCompile(`(?m)^.*a node is not as it should be.*$`).FindAllString(r.stderr.String(), -1)
	if len(warning) != 1 || !strings.Contains(warning[0], forgets.Addr()) || !strings.Contains(warning[0], "set appendonly yes") {
		t.Errorf("it warns %q", warning)
	}
}

// The README tells which commands a Redis user needs: they are enough.
func TestTheCommandsThatTheREADMEAllowsAreEnough(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	acl := regexp.MustCompile(`ACL SETUSER (permitd on >password .*)`).FindStringSubmatch(string(readme))
	if acl == nil {
		t.Fatal("the README has no ACL")
	}
	server := redistest.Start(t, redistest.Args(append([]string{"--user"}, strings.Fields(acl[1])...)...))
	r := start(t, "--redis", "redis://permitd:password@"+server.Addr())
	ctx := t.Context()
	ch, err := r.client.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := ch.Acquire(ctx, "db", client.Ask{Permits: 2, Create: &client.Definition{Limit: 2, MinHold: "10ms"}})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		next, err := r.client.Acquire(ctx, "db", client.Ask{TTL: 2 * time.Minute})
		if err == nil {
			_, err = r.client.Renew(ctx, "db", next.Capability, 3*time.Minute)
		}
		waiting <- err
	}()
	eventually(t, "the second waits", func() bool {
		sem, err := r.client.Semaphore(ctx, "db")
		return err == nil && sem.Status.Waiting == 1
	})
	if err := hold.ReleaseAllBut(ctx, 1); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.client.Leases(ctx, "db"); err != nil {
		t.Error(err)
	}
	if list, _, err := r.client.Semaphores(ctx, "d", "", 10); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := r.client.Put(ctx, "other", client.Definition{Limit: 1}, 0); err != nil {
		t.Error(err)
	}
	if err := r.client.Delete(ctx, "other", 0); err != nil {
		t.Error(err)
	}
	module, err := os.Open("policies/guests/c/gold.wasm")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = module.Close() }()
	if _, err := r.client.PutPolicy(ctx, "gold", module, 0, false); err != nil {
		t.Error(err)
	}
	if err := r.client.DeletePolicy(ctx, "gold"); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.stderr.String(), "NOPERM") {
		t.Error(r.stderr)
	}
}
