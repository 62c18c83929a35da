package policies

import (
	"testing"
	"time"
)

func TestTheBreakerOpensDoublesAndCloses(t *testing.T) {
	t.Parallel()
	var b breaker
	at := time.Unix(1000, 0)
	for n := range breakerFaults - 1 {
		b.ended(at.Add(time.Duration(n)*time.Second), true, false)
	}
	if allowed, probe := b.allow(at); !allowed || probe || b.isOpen() {
		t.Fatal("four faults opened it")
	}
	at = at.Add(5 * time.Second)
	b.ended(at, true, false)
	for wait := time.Second; wait <= 2*time.Minute; wait *= 2 {
		wait = min(wait, time.Minute)
		if allowed, _ := b.allow(at.Add(wait - 1)); allowed {
			t.Fatalf("it let a call through before %v", wait)
		}
		at = at.Add(wait)
		allowed, probe := b.allow(at)
		if !allowed || !probe {
			t.Fatalf("it let no call through after %v", wait)
		}
		if allowed, _ := b.allow(at); allowed {
			t.Fatal("it let a second call through")
		}
		if wait == time.Minute {
			break
		}
		b.ended(at, true, true)
	}
	b.skipped()
	if allowed, probe := b.allow(at); !allowed || !probe {
		t.Fatal("a probe that reached nobody was not repeated")
	}
	b.ended(at, false, true)
	if allowed, probe := b.allow(at); !allowed || probe {
		t.Fatal("a good answer did not close it")
	}
	b.ended(at, true, false)
	if b.isOpen() {
		t.Error("the faults of before count")
	}
}

func TestFaultsFarApartDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	var b breaker
	at := time.Unix(1000, 0)
	for range 50 {
		b.ended(at, true, false)
		at = at.Add(2600 * time.Millisecond) // four of them in 10 s
	}
	if b.isOpen() {
		t.Error("it is open")
	}
}

func TestACallOfBeforeChangesNothingOfAnOpenBreaker(t *testing.T) {
	t.Parallel()
	var b breaker
	at := time.Unix(1000, 0)
	for range breakerFaults + 3 {
		b.ended(at, true, false)
	}
	b.ended(at, false, false)
	if allowed, _ := b.allow(at.Add(breakerOpenMin - 1)); allowed {
		t.Error("a late answer closed it")
	}
	if allowed, probe := b.allow(at.Add(breakerOpenMin)); !allowed || !probe {
		t.Error("late faults prolonged it")
	}
}

func TestAPolicyThatRecoversIsAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{})
	put(t, h, "p", moody())
	b := &Binding{Policy: "p"}
	for range breakerFaults {
		ask(t, h, b, askTrap)
	}
	if d := ask(t, h, b, 1); d.Fault == nil || d.Fault.Kind != FaultBreakerOpen {
		t.Fatalf("%+v", d)
	}
	opened := time.Now()
	for time.Since(opened) < 10*time.Second { // the breaker goes by real time, as its modules do
		if d := ask(t, h, b, 1); d.Fault == nil {
			if waited := time.Since(opened); waited < breakerOpenMin*9/10 {
				t.Errorf("asked again after %v", waited)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("never asked again")
}
