package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/server/client"
)

// scrape returns the samples of /metrics by their name and labels.
func scrape(t *testing.T, s *served) map[string]string {
	t.Helper()
	w := s.request("GET", "/metrics", "")
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	samples := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), " "); found && name != "#" {
			at := strings.LastIndexByte(name+" "+value, ' ')
			samples[(name + " " + value)[:at]] = (name + " " + value)[at+1:]
		}
	}
	return samples
}

func TestMetricsTellWhatSemaphoresAndNodesAre(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 3)
	lease, err := s.client.Acquire(t.Context(), "db", client.Ask{Permits: 2, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.client.Acquire(t.Context(), "db", client.Ask{Permits: 2, Wait: client.NoWait}) // refused
	_, _ = s.client.Acquire(t.Context(), "db", client.Ask{Permits: 4})                      // too heavy
	_, _ = s.client.Acquire(t.Context(), "made up", client.Ask{})                           // unknown
	if _, err := s.client.Release(t.Context(), "db", lease.Capability, 1); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, s)
	for name, want := range map[string]string{
		`permitd_semaphore_limit{semaphore="db"}`:                                                                    "3",
		`permitd_semaphore_in_use{semaphore="db"}`:                                                                   "1",
		`permitd_semaphore_cooling{semaphore="db"}`:                                                                  "0",
		`permitd_semaphore_available{semaphore="db"}`:                                                                "2",
		`permitd_semaphore_waiters{semaphore="db"}`:                                                                  "0",
		`permitd_semaphore_leases{semaphore="db"}`:                                                                   "1",
		`permitd_semaphore_oldest_wait_seconds{semaphore="db"}`:                                                      "0",
		`permitd_semaphore_longest_ttl_seconds{semaphore="db"}`:                                                      "60",
		`permitd_semaphore_over_committed{semaphore="db"}`:                                                           "0",
		`permitd_semaphore_stalled{semaphore="db"}`:                                                                  "0",
		`permitd_acquires_total{outcome="granted",semaphore="db"}`:                                                   "1",
		`permitd_acquires_total{outcome="no_permit",semaphore="db"}`:                                                 "1",
		`permitd_acquires_total{outcome="weight_exceeds_limit",semaphore="db"}`:                                      "1",
		`permitd_acquires_total{outcome="unknown_semaphore",semaphore="_other"}`:                                     "1",
		`permitd_acquire_wait_seconds_count`:                                                                         "1",
		`permitd_nodes_configured`:                                                                                   "1",
		`permitd_nodes_voting`:                                                                                       "1",
		`permitd_quorum_nodes`:                                                                                       "1",
		`permitd_node_state{node=":memory:",state="up"}`:                                                             "1",
		`permitd_node_state{node=":memory:",state="down"}`:                                                           "0",
		`permitd_node_request_duration_seconds_count{node=":memory:",op="release",outcome="answered"}`:               "1",
		`permitd_operator_acts_total{act="semaphore_declared"}`:                                                      "1",
		`permitd_websocket_connections`:                                                                              "0",
		`permitd_http_request_duration_seconds_count{code="423",method="POST",route="/v1/semaphores/:name/acquire"}`: "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{`permitd_semaphore_last_grant_timestamp_seconds{semaphore="db"}`, "go_goroutines", "process_open_fds"} {
		if got[name] == "" || got[name] == "0" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if _, told := got[`permitd_node_lane_queued_requests{node=":memory:"}`]; !told { // the scrape itself asks the node
		t.Error("what a node is asked is not counted")
	}
	if !strings.Contains(fmt.Sprint(got), `permitd_build_info{goversion="go`) {
		t.Error("no build_info")
	}
	if strings.Contains(fmt.Sprint(got), lease.Capability) || strings.Contains(fmt.Sprint(got), "made up") {
		t.Error("a secret, or a name that anybody can make up, is a label")
	}
}

func TestMetricsTellHowTheEngineWorks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	lease := w.acquire(`"wait":"1m"`)
	w.send(`{"type":"acquire","ref":"next","semaphore":"db"}`)
	eventually(t, "the next waits", func() bool {
		sem, err := s.client.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.Waiting == 1
	})
	w.send(`{"type":"release","ref":"r","lease":"%s"}`, lease.Capability)
	for range 2 {
		w.next("")
	}
	got := scrape(t, s)
	for name, want := range map[string]string{
		"permitd_handover_seconds_count": "1", "permitd_claim_rounds_count": "2",
		`permitd_invariant_violations_total{invariant="fence"}`: "0", `permitd_invariant_violations_total{invariant="slots"}`: "0",
		`permitd_invariant_violations_total{invariant="owner"}`: "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}

func TestMetricsCountWhatChannelsDo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 3)
	w := s.open(t)
	for _, frame := range []string{
		`{"type":"acquire","ref":"1","semaphore":"db"}`, `{"type":"acquire","ref":"2","semaphore":"db"}`, `{"type":"acquire","ref":"3","semaphore":"db"}`,
	} {
		w.send("%s", frame)
	}
	lease := w.expect("granted")["lease"]
	w.expect("granted")
	w.expect("granted")
	w.send(`{"type":"release","ref":"4","lease":"%s"}`, lease)
	w.expect("released")
	if got := scrape(t, s); got["permitd_websocket_connections"] != "1" || got[`permitd_websocket_messages_total{direction="in"}`] != "4" ||
		got[`permitd_releases_total{reason="released"}`] != "1" || got["permitd_hold_seconds_count"] != "1" {
		t.Errorf("%v", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the channel has ended", func() bool { return scrape(t, s)["permitd_websocket_connections"] == "0" })
	if got := scrape(t, s); got[`permitd_websocket_closes_total{code="1006"}`] != "1" || got[`permitd_releases_total{reason="disconnected"}`] != "2" {
		t.Errorf("%v", got)
	}
}

func TestBeyondSoManySemaphoresTheRestAreAddedUp(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.MetricsSemaphores = 20 })
	for i := range 25 {
		if w := s.request("POST", fmt.Sprintf("/v1/semaphores/s%04d/acquire", i), "create=2"); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	got := scrape(t, s)
	for name, want := range map[string]string{
		`permitd_semaphore_limit{semaphore="_other"}`:                  "10",
		`permitd_semaphore_in_use{semaphore="_other"}`:                 "5",
		`permitd_semaphore_longest_ttl_seconds{semaphore="_other"}`:    "30",
		`permitd_semaphore_in_use{semaphore="s0000"}`:                  "1",
		`permitd_semaphore_in_use{semaphore="s0020"}`:                  "",
		`permitd_acquires_total{outcome="granted",semaphore="_other"}`: "5",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestASemaphoreNamedAsTheRestIsOneOfThem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, otherSemaphores, 7)
	if got := scrape(t, s); got[`permitd_semaphore_limit{semaphore="_other"}`] != "7" {
		t.Errorf("%v", got)
	}
}
