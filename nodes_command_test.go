package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/server/client"
)

// command runs permitd as a person does, who has typed it at no terminal.
func command(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return out.String(), err.String(), code
}

func TestAPersonSeesWhatHappenedToTheNodesAndDecides(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 3)
	r := start(t, "--redis", nodes)
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute, Create: &client.Definition{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	out, _, code := command(t, "nodes", "--url", r.url)
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], servers[0].Addr()+"\t0\tup\t") {
		t.Errorf("%d\n%s", code, out)
	}
	_, stderr, code := command(t, "nodes", "recover", "--url", r.url, "--yes")
	if code != 64 || !strings.Contains(stderr, "not_needed: the nodes need no such help: 3 of 3 vote") {
		t.Errorf("%d %s", code, stderr)
	}

	for _, s := range servers[:2] { // two of three are empty: it is not known what the third has missed
		s.Kill()
		s.Forget()
		s.Restart()
	}
	eventually(t, "it says who has to decide what", func() bool {
		out, _, _ := command(t, "nodes", "--url", r.url)
		return strings.Contains(out, "only 1 of 3 nodes have a full memory of the cluster, 2 are needed") && strings.Contains(out, "`permitd nodes recover` goes on with what is left")
	})
	for range 3 {
		out, stderr, code = command(t, "nodes", "recover", "--url", r.url)
		if code != 64 || out != "" || !strings.Contains(stderr, "This gives up:") || !strings.Contains(stderr, "nothing was done; --yes does it") {
			t.Errorf("%d %s %s", code, out, stderr)
		}
	}
	out, stderr, code = command(t, "nodes", "recover", "--url", r.url, "--yes", "--json", "--reason", "new disks")
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(stderr, servers[0].Addr()+": it has lost its memory already") {
		t.Errorf("%d %s %s", code, out, stderr)
	}
	eventually(t, "all vote", func() bool {
		out, _, _ := command(t, "nodes", "--url", r.url)
		return strings.Count(out, "\tup\t") == 3
	})
	renewed, err := r.client.Renew(t.Context(), "db", lease.Capability, 0)
	if err != nil || fmt.Sprint(renewed.Slots, renewed.Fence) != fmt.Sprint(lease.Slots, lease.Fence) {
		t.Errorf("what one node remembered: %+v, %v", renewed, err)
	}
	_, stderr, code = command(t, "nodes", "readmit", servers[0].Addr(), "--url", r.url)
	if code != 64 || !strings.Contains(stderr, "is up, not replaced") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, _, code = command(t, "nodes", "--url", "http://127.0.0.1:1"); code != 69 {
		t.Errorf("without a server: %d", code)
	}
}
