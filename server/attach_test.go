package server

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/server/client"
)

// The answer to a keyed request is lost at replica A. Its client asks again at B and is told of the same lease. Then A notices that
// its client is gone, and gives back: the lease stays.
func TestScheduleAnswerLostAtAReplayedAtBGivenBackByA(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, _ := replicas(t, 2, enginetest.Faults{})
		a, b := list[0], list[1]
		a.declare(t, "db", 1)
		conn, err := a.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		a.post(t, conn, "/v1/semaphores/db/acquire", "key=k")
		synctest.Wait() // it is granted; a pipe takes an answer only while somebody reads
		replayed, err := b.client.Acquire(t.Context(), "db", client.Ask{Key: "k"})
		if err != nil || !replayed.Replayed {
			t.Fatalf("%+v, %v", replayed, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // A has given back
		for range 10 {
			time.Sleep(20 * time.Second)
			for _, s := range list {
				if got := s.inUse(t); got != 1 {
					t.Fatalf("%d in use", got)
				}
				if _, err := s.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
					t.Errorf("a second holder: %v", err)
				}
			}
			renewed, err := b.client.Renew(t.Context(), "db", replayed.Capability, 0)
			if err != nil || renewed.Fence != replayed.Fence || renewed.Slots != replayed.Slots {
				t.Fatalf("%+v, %v", renewed, err)
			}
		}
	})
}

// The same at any moment, with messages that take their time: whoever is answered in the end holds, and nobody else.
func TestAnAnswerThatIsLostAtAnyMomentLeavesOneHolder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list, _ := replicas(t, 2, enginetest.Faults{Seed: seed, LatencyMin: time.Millisecond, LatencyMax: 10 * time.Millisecond})
				list[0].declare(t, "db", 1)
				random := rand.New(rand.NewPCG(seed, 0))
				for n := range 40 {
					a, b := list[n%2], list[(n+1)%2]
					conn, err := a.dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					a.post(t, conn, "/v1/semaphores/db/acquire", fmt.Sprint("key=", n))
					time.Sleep(time.Duration(10+random.IntN(50)) * time.Millisecond) // by any node's clock it asks later
					cut := time.AfterFunc(time.Duration(random.IntN(50))*time.Millisecond, func() { _ = conn.Close() })
					lease := b.insist(t, client.Ask{Key: fmt.Sprint(n)})
					time.Sleep(200 * time.Millisecond) // A has given back by now
					cut.Stop()
					if _, err := a.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
						t.Fatalf("round %d: a second holder: %v", n, err)
					}
					if renewed, err := b.client.Renew(t.Context(), "db", lease.Capability, 0); err != nil || renewed.Fence != lease.Fence {
						t.Fatalf("round %d: the lease was lost: %+v, %v", n, renewed, err)
					}
					if _, err := b.client.Release(t.Context(), "db", lease.Capability, 0); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// insist asks again while the same request is in progress elsewhere.
func (s *served) insist(t *testing.T, ask client.Ask) client.Lease {
	t.Helper()
	for range 100 {
		l, err := s.client.Acquire(t.Context(), "db", ask)
		switch {
		case err == nil:
			return l
		case isKind(err, "in_progress"):
			if p := problemOfKind(t, err, "in_progress"); p.Status != 409 || p.RetryAfter < time.Second {
				t.Errorf("%+v %v", p, p.RetryAfter)
			}
		default:
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("in progress for ever")
	return client.Lease{}
}

func TestALeaseIsAttachedFromWhoeverHadIt(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(t *testing.T, a, b *served) client.Lease{
		"over HTTP":                          func(t *testing.T, a, _ *served) client.Lease { return a.mustAcquire(t) },
		"over HTTP, through another replica": func(t *testing.T, _, b *served) client.Lease { return b.mustAcquire(t) },
		"a connection that was lost, in its grace": func(t *testing.T, a, _ *served) client.Lease {
			w := a.open(t)
			l := w.acquire(`"grace":"1m"`)
			_ = w.Close() // without a word
			time.Sleep(50 * time.Second)
			return l
		},
		"likewise, at another replica": func(t *testing.T, _, b *served) client.Lease {
			w := b.open(t)
			l := w.acquire(`"grace":"1m"`)
			_ = w.Close()
			time.Sleep(50 * time.Second)
			return l
		},
		"a connection that lives":                     func(t *testing.T, a, _ *served) client.Lease { return a.open(t).acquire(`"ttl":"30s"`) },
		"a connection that lives, at another replica": func(t *testing.T, _, b *served) client.Lease { return b.open(t).acquire(`"ttl":"30s"`) },
		"a replica that was stopped": func(t *testing.T, _, b *served) client.Lease {
			l := b.open(t).acquire(`"ttl":"30s"`)
			if err := b.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Second)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list, _ := replicas(t, 2, enginetest.Faults{})
				a := list[0]
				a.declare(t, "db", 1)
				was := acquire(t, a, list[1])
				w := a.open(t)
				w.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s","grace":"2m"}`, was.Capability)
				f := w.expect("granted")
				if f["ref"] != "1" || f["attached"] != true || f["replayed"] != true || f["lease"] != was.Capability || f["fence"] != float64(was.Fence) || f["slots"] != was.Slots {
					t.Errorf("%v", f)
				}
				for range 12 { // for two minutes: this connection keeps it now
					if r := w.expect("renewed"); r["leases"].([]any)[0].(map[string]any)["id"] != was.ID {
						t.Errorf("%v", r)
					}
				}
				_ = w.Close()
				time.Sleep(100 * time.Second)
				if got := a.inUse(t); got != 1 {
					t.Errorf("%d in use within the grace", got)
				}
				time.Sleep(21 * time.Second)
				if got := a.inUse(t); got != 0 {
					t.Errorf("%d in use after the grace", got)
				}
			})
		})
	}
}

// mustAcquire takes a permit over HTTP, with the usual TTL.
func (s *served) mustAcquire(t *testing.T) client.Lease {
	t.Helper()
	l, err := s.client.Acquire(t.Context(), "db", client.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// acquire takes a permit of db; more are further members of the frame.
func (w *wire) acquire(more string) client.Lease {
	w.t.Helper()
	w.send(`{"type":"acquire","ref":"a","semaphore":"db",%s}`, more)
	f := w.expect("granted")
	return client.Lease{Capability: f["lease"].(string), ID: f["id"].(string), Fence: int64(f["fence"].(float64)), Slots: f["slots"].(string)}
}

func TestWhoeverHadALeaseThatWasAttachedHearsThatItHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, _ := replicas(t, 2, enginetest.Faults{})
		a, b := list[0], list[1]
		a.declare(t, "db", 1)
		first, second, third := a.open(t), a.open(t), b.open(t)
		l := first.acquire(`"ttl":"30s"`)
		second.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, l.Capability)
		second.expect("granted")
		if f := first.expect("lost"); f["id"] != l.ID || f["reason"] != "moved" || f["semaphore"] != "db" {
			t.Errorf("%v", f)
		}
		third.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, l.Capability)
		third.expect("granted")
		if f := second.expect("lost"); f["id"] != l.ID || f["reason"] != "moved" { // with its next renewal
			t.Errorf("%v", f)
		}
		for _, w := range []*wire{first, second} { // late releases of those who had it do nothing
			w.send(`{"type":"release","ref":"r","lease":"%s"}`, l.Capability)
			if f := w.expect("refused"); f["kind"] != "unknown_lease" {
				t.Errorf("%v", f)
			}
			_ = w.Close()
		}
		for range 12 { // for two minutes
			third.expect("renewed")
		}
		if got := a.inUse(t); got != 1 {
			t.Errorf("%d in use", got)
		}
		third.send(`{"type":"release","ref":"r","lease":"%s"}`, l.Capability)
		third.expect("released")
		if got := a.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

// A release that crosses an attachment at another replica, which the one that releases has not heard of yet.
func TestALateReleaseOfWhoeverHadALeaseDoesNothing(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			list, _ := replicas(t, 2, enginetest.Faults{})
			a, b := list[0], list[1]
			a.declare(t, "db", 2)
			first, second := a.open(t), b.open(t)
			l := first.acquire(`"permits":2`)
			second.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, l.Capability)
			second.expect("granted")
			for range 2 {
				first.send(`{"type":"release","ref":"r","lease":"%s","keep":%d}`, l.Capability, keep)
				f := first.next("refused")
				if f["type"] == "lost" && f["reason"] == "moved" && keep > 0 { // it goes on with nothing
					f = first.next("refused")
				}
				if f["kind"] != "unknown_lease" {
					t.Errorf("%v", f)
				}
			}
			_ = first.Close()
			for range 12 { // for two minutes
				second.expect("renewed")
			}
			if got := b.inUse(t); got != 2 {
				t.Errorf("%d in use", got)
			}
			second.send(`{"type":"release","ref":"r","lease":"%s"}`, l.Capability)
			second.expect("released")
		})
	}
}

func TestALeaseAttachedAgainByItsOwnConnectionStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		w := s.open(t)
		l := w.acquire(`"ttl":"30s"`)
		w.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, l.Capability)
		if f := w.expect("lost"); f["reason"] != "moved" {
			t.Errorf("%v", f)
		}
		w.expect("granted")
		w.send(`{"type":"cancel","ref":"2","of":"1"}`)
		if f := w.expect("cancelled"); f["was"] != "granted" {
			t.Errorf("%v", f)
		}
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestWhatCannotBeAttachedIsToldAsARenewalIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 3)
		released, broken, expired := s.mustAcquire(t), s.mustAcquire(t), s.mustAcquire(t)
		if _, err := s.client.Release(t.Context(), "db", released.Capability, 0); err != nil {
			t.Fatal(err)
		}
		s.request("DELETE", "/v1/semaphores/db/leases/"+broken.ID, "")
		time.Sleep(31 * time.Second)
		w := s.open(t)
		for capability, kind := range map[string]string{
			released.Capability: "lease_released", broken.Capability: "lease_broken", expired.Capability: "lease_expired",
			released.ID + ".aaaaaaaaaaaaaaaaaaaaaaaaaa": "unknown_lease",
		} {
			w.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, capability)
			if f := w.expect("refused"); f["kind"] != kind {
				t.Errorf("%s: %v", kind, f)
			}
		}
	})
}

// Nobody knows of a grant that comes when its connection is gone: no grace keeps it.
func TestAGrantThatRacesTheEndOfItsConnectionHasNoGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, ways := replicas(t, 1, enginetest.Faults{})
		a := list[0]
		a.declare(t, "db", 1)
		ways[0].Hold("claim")
		w := a.open(t)
		w.send(`{"type":"acquire","ref":"a","semaphore":"db","grace":"10m"}`)
		synctest.Wait()
		_ = w.Close()
		synctest.Wait()
		ways[0].Pass(enginetest.Any)
		synctest.Wait()
		if got := a.inUse(t); got != 0 {
			t.Errorf("%d in use", got)
		}
	})
}

func TestALeaseOfAHoldStreamOutlivesItByItsGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.declare(t, "db", 1)
		conn, err := s.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		s.post(t, conn, "/v1/semaphores/db/hold", "grace=1m&ttl=10s")
		answer := make([]byte, 4096)
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Second)
		if got := s.inUse(t); got != 1 {
			t.Errorf("%d in use within the grace", got)
		}
		time.Sleep(6 * time.Second)
		if got := s.inUse(t); got != 0 {
			t.Errorf("%d in use after the grace", got)
		}
	})
}

func TestAWaiterOverTheChannelTakesItsPlaceToAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, _ := replicas(t, 2, enginetest.Faults{})
		a, b := list[0], list[1]
		a.declare(t, "db", 1)
		held := b.mustAcquire(t)
		w, later := a.open(t), b.open(t)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"1h"}`)
		time.Sleep(time.Second)
		later.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"1h"}`)
		time.Sleep(time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- a.Shutdown(t.Context()) }()
		f := w.expect("refused")
		if f["kind"] != "draining" || f["ticket"] == nil {
			t.Fatalf("%v", f)
		}
		again := b.open(t)
		again.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"1h","ticket":"%s"}`, f["ticket"])
		time.Sleep(time.Second)
		if _, err := b.client.Release(t.Context(), "db", held.Capability, 0); err != nil {
			t.Error(err)
		}
		again.expect("granted")
		_ = again.Close()
		later.expect("granted")
		w.expect("draining")
		w.closed()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
