package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

// state reads the next state frame and checks what all have.
func (w *wire) state(ref, topic string, seq int, full bool) map[string]any {
	w.t.Helper()
	f := w.expect("state")
	if f["ref"] != ref || f["topic"] != topic || f["seq"] != float64(seq) || f["full"] != full {
		w.t.Errorf("%v, want %s %s %d %v", f, ref, topic, seq, full)
	}
	return f
}

// brief says what a state tells: names or ids with what is in use, and - before what is gone.
func brief(f map[string]any) string {
	var parts []string
	for _, i := range f["items"].([]any) {
		m := i.(map[string]any)
		switch {
		case m["status"] != nil:
			parts = append(parts, fmt.Sprint(m["name"], ":", m["status"].(map[string]any)["in_use"]))
		case m["semaphore"] != nil && m["type"] == nil:
			sem := m["semaphore"].(map[string]any)
			parts = append(parts, fmt.Sprint(sem["name"], ":", sem["status"].(map[string]any)["in_use"]))
		case m["lease"] != nil && m["type"] == nil:
			parts = append(parts, "holds:"+fmt.Sprint(m["lease"].(map[string]any)["holder"]))
		case m["waiter"] != nil:
			parts = append(parts, "waits:"+fmt.Sprint(m["waiter"].(map[string]any)["holder"]))
		case m["node"] != nil && m["type"] == nil:
			parts = append(parts, fmt.Sprint(m["node"], ":", m["state"], " of ", m["quorum"]))
		default:
			parts = append(parts, fmt.Sprint(m["type"]))
		}
	}
	if gone, _ := f["gone"].([]any); gone != nil {
		parts = append(parts, fmt.Sprint("-", len(gone)))
	}
	return strings.Join(parts, " ")
}

func TestWatchingTellsWhatThereIsAndThenWhatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for _, name := range []string{"a", "b"} {
			s.declare(t, name, 2)
		}
		w := s.open(t)
		w.send(`{"type":"watch","ref":"1","topic":"semaphores"}`)
		if got := brief(w.state("1", "semaphores", 1, true)); got != "a:0 b:0" {
			t.Error(got)
		}
		lease, err := s.client.Acquire(t.Context(), "b", client.Ask{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if got := brief(w.state("1", "semaphores", 2, false)); got != "b:1" {
			t.Error(got)
		}
		time.Sleep(10 * time.Second) // an age is no change
		s.declare(t, "c", 1)
		if got := brief(w.state("1", "semaphores", 3, false)); got != "c:0" {
			t.Error(got)
		}
		if err := s.client.Delete(t.Context(), "a", 0); err != nil {
			t.Fatal(err)
		}
		if f := w.state("1", "semaphores", 4, false); brief(f) != "-1" || f["gone"].([]any)[0] != "a" {
			t.Errorf("%v", f)
		}
		w.send(`{"type":"unwatch","ref":"2","topic":"semaphores"}`)
		if f := w.expect("unwatched"); f["ref"] != "2" || f["topic"] != "semaphores" {
			t.Errorf("%v", f)
		}
		if _, err := s.client.Release(t.Context(), "b", lease.Capability, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.send(`{"type":"ping","ref":"3"}`)
		w.expect("pong")
	})
}

func TestATopicTellsAtMostFourTimesASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1000)
		w := s.open(t)
		w.send(`{"type":"watch","ref":"1","topic":"semaphore:db"}`)
		w.expect("state")
		start := time.Now()
		go func() {
			for range 300 {
				_, _ = s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Hour}) // each a change
				time.Sleep(10 * time.Millisecond)
			}
		}()
		told := 0
		for n := 0.0; n < 300; told++ {
			for _, i := range w.expect("state")["items"].([]any) {
				if sem, ok := i.(map[string]any)["semaphore"].(map[string]any); ok {
					n = sem["status"].(map[string]any)["in_use"].(float64)
				}
			}
		}
		if most := int(time.Since(start)/topicEvery) + 1; told > most || told < most/2 {
			t.Errorf("told %d times in %v", told, time.Since(start))
		}
	})
}

func TestWatchingOneSemaphoreTellsWhoHoldsAndWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w, other := s.open(t), s.open(t)
		w.send(`{"type":"watch","ref":"1","topic":"semaphore:db"}`)
		if got := brief(w.state("1", "semaphore:db", 1, true)); got != "" {
			t.Error(got)
		}
		other.send(`{"type":"acquire","ref":"1","semaphore":"db","holder":"anna","create":{"limit":1}}`)
		lease := other.expect("granted")["lease"]
		if got := brief(w.state("1", "semaphore:db", 2, false)); got != "db:1 holds:anna" {
			t.Error(got)
		}
		other.send(`{"type":"acquire","ref":"2","semaphore":"db","holder":"bert","wait":"1h"}`)
		other.expect("waiting")
		if got := brief(w.state("1", "semaphore:db", 3, false)); got != "db:1 waits:bert" {
			t.Error(got)
		}
		other.send(`{"type":"release","ref":"3","lease":"%s"}`, lease)
		other.next("released")
		if got := brief(w.state("1", "semaphore:db", 4, false)); got != "db:1 holds:bert -1" {
			t.Error(got)
		}
	})
}

func TestNodesAndEventsAreWatched(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.open(t)
	w.send(`{"type":"watch","ref":"n","topic":"nodes"}`)
	if got := brief(w.state("n", "nodes", 1, true)); got != ":memory::up of 1" {
		t.Error(got)
	}
	w.send(`{"type":"unwatch","ref":"u","topic":"nodes"}`)
	w.expect("unwatched")
	w.send(`{"type":"watch","ref":"e","topic":"events"}`)
	if got := brief(w.state("e", "events", 1, true)); got != "started node_changed" {
		t.Error(got)
	}
	s.declare(t, "db", 1)
	if got := brief(w.state("e", "events", 2, false)); got != actDeclared {
		t.Error(got)
	}
	w.send(`{"type":"ping","ref":"e"}`)
	if f := w.expect("error"); f["kind"] != "duplicate_ref" {
		t.Errorf("%v", f)
	}
	w.send(`{"type":"watch","ref":"again","topic":"events"}`) // takes the place of the first
	if got := brief(w.state("again", "events", 1, true)); !strings.HasSuffix(got, actDeclared) {
		t.Error(got)
	}
}

func TestAWatchNeedsItsScopeAndTellsWhatTheTokenNames(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Tokens = newTokens(t, fileOfTokens) })
	for _, name := range []string{"db", "ci%2Fa"} {
		s.request("PUT", "/v1/semaphores/"+name, "limit=1", "Authorization: Bearer ops-token")
	}
	ci, eye := s.openAs(t, "ci-token", true), s.openAs(t, "eye-token", true)
	ci.expect("welcome")
	eye.expect("welcome")
	ci.send(`{"type":"watch","ref":"1","topic":"nodes"}`)
	if f := ci.expect("refused"); f["kind"] != "forbidden" {
		t.Errorf("%v", f)
	}
	eye.send(`{"type":"watch","ref":"1","topic":"semaphore:db"}`)
	if f := eye.expect("refused"); f["kind"] != "forbidden" {
		t.Errorf("%v", f)
	}
	eye.send(`{"type":"watch","ref":"1","topic":"semaphores"}`)
	if got := brief(eye.state("1", "semaphores", 1, true)); got != "ci/a:0" {
		t.Error(got)
	}
	eye.send(`{"type":"watch","ref":"2","topic":"events"}`)
	if got := brief(eye.state("2", "events", 1, true)); strings.Count(got, actDeclared) != 1 {
		t.Error(got)
	}
}

func TestAConnectionHasOnlySoManyWatches(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.open(t)
	for i := range watchesMax {
		w.send(`{"type":"watch","ref":"%d","topic":"semaphore:%d"}`, i, i)
		w.expect("state")
	}
	w.send(`{"type":"watch","ref":"x","topic":"nodes"}`)
	if f := w.expect("refused"); f["kind"] != "client_limit" {
		t.Errorf("%v", f)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is read for nobody", func() bool {
		s.topics.mu.Lock()
		defer s.topics.mu.Unlock()
		return len(s.topics.open) == 0
	})
}
