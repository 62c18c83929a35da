package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/server/client"
)

// problemOfKind returns the problem that an error of the client is, if it is of this kind.
func problemOfKind(t *testing.T, err error, kind string) *client.Problem {
	t.Helper()
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Kind != kind {
		t.Fatalf("%v, not %s", err, kind)
	}
	return p
}

func TestARequestWithAKeyIsTheSameWhenItIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 2)
	attributes := map[string]string{"tier": "gold", "team": "a"}
	first, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "nightly", Holder: "anna", Attributes: attributes})
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	const acquire = "/v1/semaphores/db/acquire"
	for _, again := range []struct{ body, header string }{
		{"key=nightly&holder=anna&attr.tier=gold&attr.team=a", ""},
		{`{"key":"nightly","holder":"anna","attributes":{"team":"a","tier":"gold"}}`, ""},
		{"holder=anna&attr.tier=gold&attr.team=a", "Idempotency-Key: nightly"},
		{"holder=anna&attr.team=a&attr.tier=gold", `Idempotency-Key: "nightly"`},
	} {
		var headers []string
		if again.header != "" {
			headers = append(headers, again.header)
		}
		got := members(t, s.request("POST", acquire, again.body, headers...))
		if got["lease"] != first.Capability || got["replayed"] != true || got["fence"] != float64(first.Fence) || got["holder"] != "anna" {
			t.Errorf("%v: %v", again, got)
		}
	}
	const same = "&attr.tier=gold&attr.team=a"
	for body, kind := range map[string]string{
		"key=nightly&permits=2" + same: "key_reused", "key=nightly&ttl=5s" + same: "key_reused", "key=nightly": "key_reused",
		"key=nightly&attr.tier=tin&attr.team=a": "key_reused", "key=nightly&attr.tier=gold": "key_reused",
	} {
		if w := s.request("POST", acquire, body); w.Code != 422 || members(t, w)["kind"] != kind {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if got := s.inUse(t); got != 1 {
		t.Errorf("%d in use", got)
	}
	if _, err := s.client.Release(t.Context(), "db", first.Capability, 0); err != nil {
		t.Fatal(err)
	}
	if w := s.request("POST", acquire, "key=nightly"+same); w.Code != 410 || members(t, w)["kind"] != "lease_released" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	broken, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "weekly"})
	if err != nil {
		t.Fatal(err)
	}
	if w := s.request("DELETE", "/v1/semaphores/db/leases/"+broken.ID, ""); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if w := s.request("POST", acquire, "key=weekly"); w.Code != 410 || members(t, w)["kind"] != "lease_broken" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAKeyIsFreeAgainAfterAMinuteAndWhenItsLeaseHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		var last int64
		for _, end := range []func(client.Lease){
			func(client.Lease) { time.Sleep(6 * time.Second) },
			func(l client.Lease) {
				if _, err := s.client.Release(t.Context(), "db", l.Capability, 0); err != nil {
					t.Error(err)
				}
				time.Sleep(61 * time.Second)
			},
			func(client.Lease) {},
		} {
			l, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "k", TTL: 5 * time.Second})
			if err != nil || l.Replayed || l.Fence <= last {
				t.Errorf("%+v, %v", l, err)
			}
			last = l.Fence
			end(l)
		}
	})
}

func TestTheNewerOfTwoThatAreTheSameWaitsInPlaceOfTheOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		held, err := s.client.Acquire(t.Context(), "db", client.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		older, newer := make(chan error, 1), make(chan error, 1)
		ask := func(heard chan error) {
			_, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "k", Wait: time.Minute})
			heard <- err
		}
		go ask(older)
		synctest.Wait()
		go ask(newer)
		if p := problemOfKind(t, <-older, "superseded"); p.Status != 409 {
			t.Errorf("%+v", p)
		}
		if sem, err := s.client.Semaphore(t.Context(), "db"); err != nil || sem.Status.Waiting != 1 {
			t.Errorf("%+v, %v", sem.Status, err)
		}
		if _, err := s.client.Release(t.Context(), "db", held.Capability, 0); err != nil {
			t.Error(err)
		}
		if err := <-newer; err != nil {
			t.Error(err)
		}
	})
}

// A place is kept for 15 s, and no permit idles for it meanwhile.
func TestWhoeverAsksAgainInTimeStandsWhereItStood(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]struct {
		pause   time.Duration
		ask     func(*client.Problem) client.Ask
		resumes bool
	}{
		"with its key":             {14 * time.Second, func(*client.Problem) client.Ask { return client.Ask{Key: "k"} }, true},
		"with its key, too late":   {16 * time.Second, func(*client.Problem) client.Ask { return client.Ask{Key: "k"} }, false},
		"with its ticket":          {9 * time.Minute, func(p *client.Problem) client.Ask { return client.Ask{Ticket: p.Ticket} }, true},
		"with its key and ticket":  {time.Minute, func(p *client.Problem) client.Ask { return client.Ask{Key: "k", Ticket: p.Ticket} }, true},
		"with nothing that it had": {time.Second, func(*client.Problem) client.Ask { return client.Ask{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serveInBubble(t)
				s.declare(t, "db", 1)
				held, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.client.Acquire(t.Context(), "db", client.Ask{Key: "k", Wait: 5 * time.Second})
				p := problemOfKind(t, err, "no_permit")
				if p.PlaceKeptMS != 15_000 || p.Ticket == "" || p.RetryAfter < time.Second {
					t.Errorf("%#v", p)
				}
				between := make(chan client.Lease, 1)
				go func() {
					l, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: 10 * time.Minute})
					if err != nil {
						t.Error(err)
					}
					between <- l
				}()
				time.Sleep(again.pause)
				ask := again.ask(p)
				ask.Wait = 30 * time.Second
				got := make(chan error, 1)
				go func() {
					_, err := s.client.Acquire(t.Context(), "db", ask)
					got <- err
				}()
				synctest.Wait()
				if _, err := s.client.Release(t.Context(), "db", held.Capability, 0); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if (len(got) == 1) != again.resumes || (len(between) == 1) == again.resumes {
					t.Errorf("%d and %d are served", len(got), len(between))
				}
				if again.resumes {
					leases, err := s.client.Leases(t.Context(), "db")
					if err != nil || len(leases) != 1 {
						t.Fatal(leases, err)
					}
					s.request("DELETE", "/v1/semaphores/db/leases/"+leases[0].ID, "")
					<-between
					return
				}
				if _, err := s.client.Release(t.Context(), "db", (<-between).Capability, 0); err != nil {
					t.Error(err)
				}
				if err := <-got; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestNoPermitIdlesForOneWhoIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		held, err := s.client.Acquire(t.Context(), "db", client.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := s.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		s.post(t, conn, "/v1/semaphores/db/acquire", "key=k&wait=1m")
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := s.client.Release(t.Context(), "db", held.Capability, 0); err != nil {
			t.Error(err)
		}
		next, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait})
		if err != nil {
			t.Fatal(err)
		}
		// The other is back: it stands before whoever came meanwhile.
		last, first := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: time.Minute})
			last <- err
		}()
		synctest.Wait()
		go func() {
			_, err := s.client.Acquire(t.Context(), "db", client.Ask{Key: "k", Wait: time.Minute})
			first <- err
		}()
		synctest.Wait()
		if _, err := s.client.Release(t.Context(), "db", next.Capability, 0); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil || len(last) == 1 {
			t.Error(err, len(last))
		}
		if err := <-last; err != nil { // when the first has expired
			t.Error(err)
		}
	})
}

// post writes a request with a form.
func (s *served) post(t *testing.T, conn net.Conn, target, form string) {
	t.Helper()
	request := "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + fmt.Sprint(len(form)) + "\r\n\r\n" + form
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
}

// A poller whose waits a proxy cuts short gets its share beside those who wait on a connection as long as it takes; without a key
// or a ticket it gets next to nothing.
func TestAPollerGetsItsShareOverREST(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		const hold, holders = 100 * time.Millisecond, 3
		end := time.Now().Add(4 * time.Minute)
		var all sync.WaitGroup
		grants := make([]int, holders+1)
		use := func(i int, l client.Lease) {
			grants[i]++
			time.Sleep(hold)
			if _, err := s.client.Release(t.Context(), "db", l.Capability, 0); err != nil {
				t.Error(err)
			}
		}
		for i := range holders {
			all.Go(func() {
				for time.Now().Before(end) {
					l, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					use(i, l)
				}
			})
		}
		all.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				ask := client.Ask{Key: fmt.Sprint("k", n), Wait: hold} // as 25 s beside holders of 25 s
				for {
					l, err := s.client.Acquire(t.Context(), "db", ask)
					if err == nil {
						use(holders, l)
						break
					}
					ask.Ticket = problemOfKind(t, err, "no_permit").Ticket
					time.Sleep(time.Millisecond) // its way there and back
				}
			}
		})
		all.Wait()
		fair := grants[0]
		for _, got := range grants {
			fair = min(fair, got)
		}
		if poller := grants[holders]; poller < fair || poller < int(4*time.Minute/hold)/(holders+1)*8/10 {
			t.Errorf("grants of the holders and the poller: %v", grants)
		}
	})
}

func TestATicketThatWasAlteredIsNone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	s.declare(t, "other", 1)
	for _, name := range []string{"db", "other"} {
		if _, err := s.client.Acquire(t.Context(), name, client.Ask{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: time.Millisecond})
	ticket := problemOfKind(t, err, "no_permit").Ticket
	for i := range ticket {
		c := "0"
		if ticket[i] == '0' {
			c = "1"
		}
		w := s.request("POST", "/v1/semaphores/db/acquire", "wait=0&ticket="+ticket[:i]+c+ticket[i+1:])
		if w.Code != 422 || members(t, w)["kind"] != "bad_ticket" {
			t.Errorf("with character %d changed: %d %s", i, w.Code, w.Body)
		}
	}
	for target, kind := range map[string]string{
		"/v1/semaphores/db/acquire?ticket=" + strings.ToUpper(ticket):     "bad_ticket",
		"/v1/semaphores/other/acquire?ticket=" + ticket:                   "bad_ticket",
		"/v1/semaphores/db/acquire?key=k&ticket=" + ticket:                "bad_ticket",
		"/v1/semaphores/db/acquire?permits=1&priority=1&ticket=" + ticket: "key_reused",
	} {
		if w := s.request("POST", target, ""); w.Code != 422 || members(t, w)["kind"] != kind {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	w := s.request("POST", "/v1/semaphores/db/acquire", "wait=0&ticket="+ticket)
	if again := members(t, w)["ticket"]; w.Code != 423 || again == "" || w.Header().Get("Permitd-Ticket") != again {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestThoseWhoWaitTakeATicketFromAServerThatStops(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare(t, "db", 1)
	if _, err := s.client.Acquire(t.Context(), "db", client.Ask{}); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: time.Minute})
		waiting <- err
	}()
	eventually(t, "it waits", func() bool {
		sem, err := s.client.Semaphore(t.Context(), "db")
		return err == nil && sem.Status.Waiting == 1
	})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := problemOfKind(t, <-waiting, "draining"); p.Ticket == "" || p.Status != 503 {
		t.Errorf("%+v", p)
	}
}
