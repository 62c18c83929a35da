package server

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/server/client"
)

// decide sends a request of an operator about nodes, and validates its answer against the document.
func (s *served) decide(t *testing.T, id, target, body string, status int) map[string]any {
	t.Helper()
	w := s.request("POST", target, body)
	if w.Code != status {
		t.Fatalf("%s %s: %d %s", target, body, w.Code, w.Body)
	}
	_, _, op := operation(id)
	said, ok := checkDocumented(t, documentedRequest{id: id, target: target, status: status}, op, w.Result()).(map[string]any)
	if !ok {
		t.Fatalf("%s says %s", target, w.Body)
	}
	return said
}

func TestAnOperatorGoesOnWithoutANodeThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := enginetest.NewCluster(t, 3)
		cluster.Form()
		l := newPipes()
		s := serveNodes(t, cluster.Replica(enginetest.Faults{}).Nodes(), l, l.dial, cluster.Now)
		s.declare(t, "db", 1)
		lease, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		s.decide(t, "recover-nodes", "/v1/nodes/recover", "", http.StatusConflict)

		cluster.Servers[0].Kill()
		cluster.Servers[1].Kill()
		cluster.Servers[1].Restart(enginetest.Renamed)
		time.Sleep(5 * time.Second)
		nodes, err := s.client.Nodes(t.Context())
		if err != nil || nodes.Items[1].State != "out" || !strings.Contains(nodes.Items[1].Reason, "A is missing; if they are lost, `permitd nodes recover`") {
			t.Errorf("the nodes are %+v, %v", nodes, err)
		}
		for _, without := range []string{`["A"]`, `[0]`, `"0"`, `0`, `"A"`} {
			said := s.decide(t, "recover-nodes", "/v1/nodes/recover", `{"dry_run":true,"without":`+without+`}`, http.StatusOK)
			if gives := said["gives_up"].([]any); len(gives) != 1 || !strings.Contains(gives[0].(string), "what only A remembers") {
				t.Errorf("without %s it gives up %v", without, gives)
			}
		}
		for _, bad := range []string{`{"without":["X"]}`, `{"without":[3]}`, `{"without":[true]}`, `{"without":[0,1]}`, `{"reason":1}`} {
			if w := s.request("POST", "/v1/nodes/recover", bad); w.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, w.Code, w.Body)
			}
		}
		if s.engine.ColdStarts() != 0 {
			t.Error("it was done by telling it only")
		}
		s.decide(t, "recover-nodes", "/v1/nodes/recover", `{"without":["A"],"reason":"burnt down"}`, http.StatusAccepted)
		time.Sleep(5 * time.Second)
		if _, err := s.client.Renew(t.Context(), "db", lease.Capability, 0); err != nil {
			t.Errorf("what the others remember: %v", err)
		}
		for metric, value := range map[string]string{
			`permitd_cold_starts_total`: "1", `permitd_operator_acts_total{act="nodes_recovered"}`: "1", `permitd_node_state{node="A",state="down"}`: "1",
		} {
			if got := s.metric(t, metric); got != value {
				t.Errorf("%s is %q", metric, got)
			}
		}
		if events := s.request("GET", "/metrics", "").Body.String(); events == "" {
			t.Error("no metrics")
		}

		cluster.Servers[0].Restart(enginetest.Kept)
		time.Sleep(5 * time.Second)
		if got := s.metric(t, `permitd_nodes_readmitted_total{node="A",reason="overtaken"}`); got != "1" {
			t.Errorf("A was readmitted %q times", got)
		}
	})
}

func TestAnOperatorTakesBackANodeThatWasReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := enginetest.NewCluster(t, 3)
		cluster.Form()
		l := newPipes()
		s := serveNodes(t, cluster.Replica(enginetest.Faults{}).Nodes(), l, l.dial, cluster.Now)
		s.declare(t, "db", 1)
		time.Sleep(11 * time.Second)
		other := append(cluster.Replica(enginetest.Faults{})[:2], enginetest.NewNode(t, enginetest.NewServer(t, "D"), enginetest.Faults{}))
		l2 := newPipes()
		s2 := serveNodes(t, other.Nodes(), l2, l2.dial, cluster.Now)
		time.Sleep(12 * time.Second)
		nodes, err := s.client.Nodes(t.Context())
		if err != nil || nodes.Items[2].State != "replaced" || !strings.Contains(nodes.Items[2].Reason, "`permitd nodes readmit` takes it back") {
			t.Fatalf("the nodes are %+v, %v", nodes, err)
		}
		s.decide(t, "readmit-node", "/v1/nodes/7/readmit", "", http.StatusNotFound)
		s.decide(t, "readmit-node", "/v1/nodes/0/readmit", "", http.StatusConflict)
		if said := s.decide(t, "readmit-node", "/v1/nodes/2/readmit", `{"dry_run":true}`, http.StatusOK); len(said["gives_up"].([]any)) != 2 {
			t.Errorf("it gives up %v", said["gives_up"])
		}
		s.decide(t, "readmit-node", "/v1/nodes/C/readmit?reason=the+new+one+is+broken", "", http.StatusAccepted)
		time.Sleep(12 * time.Second)
		nodes, err = s.client.Nodes(t.Context())
		if err != nil || nodes.Items[2].State != "up" {
			t.Errorf("the nodes are %+v, %v", nodes, err)
		}
		if nodes, err = s2.client.Nodes(t.Context()); err != nil || nodes.Items[2].State != "replaced" {
			t.Errorf("with D the nodes are %+v, %v", nodes, err)
		}
		if got := s.metric(t, `permitd_nodes_readmitted_total{node="C",reason="replaced"}`); got != "1" {
			t.Errorf("C was readmitted %q times", got)
		}
	})
}

// metric reads one metric.
func (s *served) metric(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(s.request("GET", "/metrics", "").Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
