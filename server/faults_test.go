package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

// Faults that other systems had, each as a small scenario.

func TestReleasingTwiceAtOnceLeavesTheCountAsItIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 3)
	for range 20 {
		lease, err := s.client.Acquire(t.Context(), "db", client.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if released, err := s.client.Release(t.Context(), "db", lease.Capability, 0); err != nil || released != (client.Released{ID: lease.ID}) {
					t.Errorf("%+v, %v", released, err)
				}
			})
		}
		both.Wait()
	}
	sem, err := s.client.Semaphore(t.Context(), "db")
	if err != nil || sem.Status.Available != 3 || sem.Status.InUse != 0 {
		t.Errorf("%+v, %v", sem.Status, err)
	}
}

func TestTheFirstStatusAfterAQuietExpiryIsRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 3)
		if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Permits: 2, TTL: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestAReleasedLeaseIsCreditedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		lease, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Release(t.Context(), "db", lease.Capability, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // past the end of the first
		sem, err := s.client.Semaphore(t.Context(), "db")
		if err != nil || sem.Status.InUse != 1 || sem.Status.Available != 0 {
			t.Errorf("%+v, %v", sem.Status, err)
		}
	})
}

func TestWhoeverComesTooLateIsToldAndTheNewHolderKeepsItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		late, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		now, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Release(t.Context(), "db", late.Capability, 0); !isKind(err, client.LeaseExpired) {
			t.Error("release:", err)
		}
		if _, err := s.client.Renew(t.Context(), "db", late.Capability, 0); !isKind(err, client.LeaseExpired) {
			t.Error("renew:", err)
		}
		if got := s.inUse(t); got != 1 {
			t.Errorf("%d in use", got)
		}
		if _, err := s.client.Release(t.Context(), "db", now.Capability, 0); err != nil {
			t.Error(err)
		}
		if _, err := s.client.Renew(t.Context(), "db", late.Capability, 0); !isKind(err, client.LeaseExpired) {
			t.Error("renew, nobody holds it:", err)
		}
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestRenewingAndReleasingAtOnceLosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	w := s.open(t)
	for i := range 200 {
		w.send(`{"type":"acquire","ref":"a%d","semaphore":"db"}`, i)
		lease := w.expect("granted")["lease"]
		w.send(`{"type":"renew","ref":"r%d","lease":"%s"}`, i, lease)
		w.send(`{"type":"release","ref":"f%d","lease":"%s"}`, i, lease)
		released := false
		for range 2 {
			switch f := w.next(""); f["type"] {
			case "released":
				released = true
			case "renewed":
			case "refused": // the renewal, where the release was first
				if f["ref"] != fmt.Sprintf("r%d", i) || f["status"] != 410.0 {
					t.Errorf("%v", f)
				}
			default:
				t.Errorf("%v", f)
			}
		}
		if !released {
			t.Error("not released")
		}
	}
}

func TestTheHeaviestWeightIsGrantedAndReleased(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 10_000)
	lease, err := s.client.Acquire(t.Context(), "db", client.Ask{Permits: 10_000})
	if err != nil || lease.Weight != 10_000 || lease.Slots != "0-9999" {
		t.Fatalf("%+v, %v", lease, err)
	}
	if _, err := s.client.Release(t.Context(), "db", lease.Capability, 9_999); err != nil {
		t.Error(err)
	}
	if got := s.inUse(t); got != 9_999 {
		t.Errorf("%d in use", got)
	}
}

func TestEveryNameIsServedAsGiven(t *testing.T) {
	t.Parallel()
	s := serve(t)
	names := []string{
		"a/b", "a b", "{a}", "..", ".", "-", "%2F", "a%2Fb", "🔒", "a:b", "a+b", "?x=1", "#", `"`, `\`, "acquire", "permitd:node",
		strings.Repeat("x", 200), strings.Repeat("é", 100), "leases/acquire",
	}
	for _, name := range names {
		lease, err := s.client.Acquire(t.Context(), name, client.Ask{Create: &client.Definition{Limit: 1}})
		if err != nil || lease.Semaphore != name {
			t.Errorf("%q: %+v, %v", name, lease, err)
			continue
		}
		if _, err := s.client.Acquire(t.Context(), name, client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
			t.Errorf("%q: %v", name, err)
		}
		if leases, err := s.client.Leases(t.Context(), name); err != nil || len(leases) != 1 || leases[0].ID != lease.ID {
			t.Errorf("%q: %+v, %v", name, leases, err)
		}
	}
	var listed []string
	list, _, err := s.client.Semaphores(t.Context(), "", "", 1000)
	for _, sem := range list {
		listed = append(listed, sem.Name)
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(listed, names) {
		t.Errorf("%q, %v", listed, err)
	}
	// The channel takes a name as it is.
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"1","semaphore":"a%%2Fb","wait":0}`)
	if f := w.expect("refused"); f["kind"] != "no_permit" {
		t.Errorf("%v", f)
	}
}

func TestAStoppedServerSaysThatItIsDraining(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for method, target := range map[string]string{"GET": "/readyz", "POST": "/v1/semaphores/db/acquire"} {
		w := s.request(method, target, "")
		if got := members(t, w); w.Code != 503 || got["kind"] != "draining" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := s.request("GET", "/v1/ws", ""); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestARequestWithTooMuchHeaderIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", 3*headerBytesMax))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(response.Status)
	}
}

func TestAReaderOfALargeAnswerIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for i := range 50 {
			s.declare(t, fmt.Sprint(i), 1)
		}
		conn, err := s.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /v1/semaphores HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(largeAnswerTime + time.Second)
		if got, err := io.ReadAll(conn); err != nil || bytes.Contains(got, []byte(`"next":null`)) {
			t.Errorf("%v after %d bytes", err, len(got))
		}
	})
}

// A form that reaches two semaphores by two spellings of one name would give two holders to one permit.
func TestTwoSpellingsOfANameAreOneSemaphore(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "team:db", 1)
	for i, target := range []string{"/v1/semaphores/team:db/acquire", "/v1/semaphores/team%3Adb/acquire", "/v1/semaphores/-/acquire?name=" + url.QueryEscape("team:db")} {
		want := 423
		if i == 0 {
			want = 200
		}
		if w := s.request("POST", target, "wait=0"); w.Code != want {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// Whoever brings the definition is not told that there is none, however often somebody deletes the semaphore meanwhile.
func TestACreationThatMeetsADeletionIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var all, deleter sync.WaitGroup
	done := make(chan struct{})
	deleter.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s.request("DELETE", "/v1/semaphores/db?break=true", "")
			}
		}
	})
	for range 4 {
		all.Go(func() {
			for range 300 {
				if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait, Create: &client.Definition{Limit: 2000}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(done)
	deleter.Wait()
}

// faults.md 28.
func TestAShortLeaseDoesNotMakeALongOneLookExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 2)
		long, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			if _, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			if got := s.inUse(t); got != 2 {
				t.Errorf("%d in use", got)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if got := s.inUse(t); got != 1 {
			t.Errorf("%d in use", got)
		}
		if l, err := s.client.Renew(t.Context(), "db", long.Capability, 0); err != nil || l.Fence != long.Fence || l.Validity < 59*time.Minute {
			t.Errorf("%+v, %v", l, err)
		}
	})
}
