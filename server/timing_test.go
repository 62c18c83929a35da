package server

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/server/client"
)

func TestAfterASilenceTheServerSaysThatItIsAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		start := time.Now()
		for want := range 4 {
			w.expect("alive")
			if got := time.Since(start); got != time.Duration(want+1)*aliveAfter {
				t.Errorf("alive after %v", got)
			}
		}
		time.Sleep(4 * time.Second)
		w.send(`{"type":"ping","ref":"1"}`)
		w.expect("pong")
		w.expect("alive") // counted from the pong
		if got := time.Since(start); got != 4*aliveAfter+4*time.Second+aliveAfter {
			t.Errorf("alive after %v", got)
		}
	})
}

func TestAPeerThatAnswersNoPingIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":1}}`)
		w.expect("granted")
		start := time.Now()
		w.SetPingHandler(func(string) error { return nil })
		if code := w.closed(); code != 4408 {
			t.Errorf("closed with %d", code)
		}
		if got := time.Since(start); got != silenceMax {
			t.Errorf("after %v", got)
		}
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestAPeerThatAnswersPingsStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		for range 40 {
			w.expect("alive")
		}
		w.send(`{"type":"ping","ref":"1"}`)
		w.expect("pong")
	})
}

// A half-open connection takes nothing and says nothing.
func TestAPeerThatIsGoneWithoutAWordIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":1}}`)
		w.expect("granted")
		time.Sleep(silenceMax + writeTimeMax + lingerTime + time.Second)
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

// A flood is frames in a second: in a bubble sending takes no time, however slow the machine.
func TestAFloodOfFramesIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for _, messageType := range []int{websocket.TextMessage, websocket.PingMessage, websocket.PongMessage} {
			w := s.open(t)
			go func() {
				for w.WriteMessage(messageType, []byte(`{}`)) == nil {
				}
			}()
			if code := w.closed(); code != 4429 {
				t.Errorf("type %d: closed with %d", messageType, code)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestManyFramesThatAreNoFloodAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		for range 4 {
			for range 1000 {
				w.send(`{"type":"ping","ref":"1"}`)
				w.expect("pong")
			}
			time.Sleep(time.Second)
		}
	})
}

func TestAReaderTooSlowIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":1}}`)
		w.expect("granted")
		sent := 0
		for start := time.Now(); time.Since(start) < writeTimeMax-time.Second; sent++ {
			// Nothing is read: a pipe takes nothing that is not read, so that soon the server reads no more either.
			if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if w.WriteMessage(websocket.TextMessage, []byte(`{"type":"ping","ref":"1"}`)) != nil {
				break
			}
		}
		if sent < queueFull || sent > 2*queueFull+100 { // a batch being written, the queue, and what fits into buffers
			t.Errorf("%d frames were read of one who reads nothing", sent)
		}
		time.Sleep(writeTimeMax + lingerTime)
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestAKeptLeaseIsRenewedEachThirdOfItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","ttl":"30s","create":{"limit":1}}`)
		id := w.expect("granted")["id"]
		start := time.Now()
		for n := range 20 {
			f := w.expect("renewed")
			l := f["leases"].([]any)[0].(map[string]any)
			if _, tied := f["ref"]; tied || l["id"] != id || l["validity_ms"].(float64) < 29_000 {
				t.Errorf("%v", f)
			}
			if got := time.Since(start); got > time.Duration(n+1)*(10*time.Second+100*time.Millisecond) {
				t.Errorf("renewal %d after %v", n+1, got)
			}
		}
		if got := s.inUse(t); got != 1 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestALeaseOfItsLargestAgeIsToldToBeExpiringAndThenLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		w := s.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","ttl":"3s","create":{"limit":1,"hold_max":"5s"}}`)
		id := w.expect("granted")["id"]
		w.expect("renewed")
		if f := w.expect("expiring"); f["id"] != id || f["reason"] != "hold_max" || f["validity_ms"].(float64) <= 0 {
			t.Errorf("%v", f)
		}
		if f := w.expect("lost"); f["id"] != id || f["semaphore"] != "db" || f["reason"] != "expired" {
			t.Errorf("%v", f)
		}
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestTheClientHearsOfALossAndOfTheEndOfItsChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		ch, err := s.client.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		short, err := ch.Acquire(t.Context(), "short", client.Ask{TTL: time.Second, Create: &client.Definition{Limit: 1, HoldMax: "1s"}})
		if err != nil {
			t.Fatal(err)
		}
		long, err := ch.Acquire(t.Context(), "long", client.Ask{Create: &client.Definition{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		<-short.Lost()
		if short.Reason() != "expired" || short.Valid() != 0 || long.Reason() != "" || long.Valid() <= 0 {
			t.Errorf("%q %v, %q %v", short.Reason(), short.Valid(), long.Reason(), long.Valid())
		}
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
		<-long.Lost()
		if _, err := ch.Acquire(t.Context(), "long", client.Ask{}); !errors.Is(err, client.ErrClosed) || !errors.Is(ch.Err(), client.ErrClosed) {
			t.Error(err, ch.Err())
		}
	})
}

func TestAWaitLongerThanTheTimeForARequestIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		held, err := s.client.Acquire(t.Context(), "db", client.Ask{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(9 * time.Minute)
			_, _ = s.client.Release(t.Context(), "db", held.Capability, 0) // else the wait below ends in vain
		}()
		if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: 10 * time.Minute}); err != nil {
			t.Error(err)
		}
		if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: 20 * time.Second}); !isKind(err, client.NoPermit) {
			t.Error(err)
		}
	})
}

func TestARequestThatDoesNotArriveIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		for _, request := range []string{
			"POST /v1/semaphores/db/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\ncreate",
			"POST /v1/semaphores/db/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ncreate",
			"POST /v1/semaphores/db/acquire HTTP/1.1\r\nHost: loc",
		} {
			conn, err := s.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(conn) // to the end, whichever it is
			if strings.HasPrefix(string(answer), "HTTP/1.1 2") || time.Since(start) > requestTimeMax+5*time.Second {
				t.Errorf("%q after %v", answer, time.Since(start))
			}
		}
	})
}
