package engine_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// busy-replica-starves-its-head: R1 claims for others all the time -> its head is tried within half a second. (It hears no
// wakes, and the others are before its head as they have a higher priority; they want more than there is.)
func TestScheduleBusyReplicaStarvesItsHead(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.playerOver(enginetest.Faults{Timeout: -1, LoseWake: 1}), s.player()
		r2.declare(engine.Definition{Limit: 2})
		l := r2.acquire(engine.Ask{})
		r2.acquire(engine.Ask{})
		head := r1.ask(engine.Ask{Wait: time.Minute})
		busy := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				r1.ask(engine.Ask{Permits: 2, Priority: 1}).mustBeRefused()
			}
		}
		busy(2 * time.Second)
		head.mustWait()
		r2.release(l, 0)
		busy(500 * time.Millisecond)
		head.mustHold()
	})
}

// limit-raised-wakes, end of pause, a dropped record -> the head is served at once. (An expiry with no traffic:
// TestAnExpiryWithNoTrafficServesTheHead.) The waiter's replica hears nothing but the wake of its place.
func TestScheduleLimitRaisedWakes(t *testing.T) {
	for name, test := range map[string]struct {
		before engine.Definition
		room   func(s *stage, p *player, full []*engine.Mend)
	}{
		"a raised limit": {engine.Definition{Limit: 2}, func(_ *stage, p *player, _ []*engine.Mend) {
			p.declare(engine.Definition{Limit: 3})
		}},
		"the end of a pause": {engine.Definition{Limit: 3, Paused: true}, func(_ *stage, p *player, _ []*engine.Mend) {
			p.declare(engine.Definition{Limit: 3})
		}},
		"a dropped record": {engine.Definition{Limit: 2}, func(s *stage, _ *player, full []*engine.Mend) {
			for _, server := range s.Servers { // the first is mended onto the second's slot, and is refused
				move := *full[0]
				move.Slots, move.Ver, move.New = full[1].Slots, 1, true
				if a := s.do(server, &move); a.Says != engine.SaysNo {
					s.t.Errorf("%s says %s to the mend", server.Name(), a.Says)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				r1, r2 := s.player(), s.player()
				r1.declare(test.before)
				var full []*engine.Mend
				for slot := range 2 {
					id := string(rune('a' + slot))
					full = append(full, &engine.Mend{
						Semaphore: db, Lease: id, By: id, Slots: quorum.OneSlot(slot), TTL: time.Minute, Until: s.a.Time() + time.Minute.Microseconds(),
					})
					for _, server := range s.Servers {
						s.do(server, full[slot])
					}
				}
				waiter := r2.ask(engine.Ask{Wait: time.Minute})
				time.Sleep(100 * time.Millisecond)
				waiter.mustWait()
				r2.ways.Hold("wake", engine.EveryReplica)
				test.room(s, r1, full)
				waiter.mustHold() // without any time passing
			})
		})
	}
}

// turns are who asked and who was served, in the order of events. Safe for concurrent use.
type turns struct {
	mu     sync.Mutex // guards what follows
	asked  int
	events []turn
}

// turn is that a request was made, granted (held 1) or released (held -1). Requests are numbered as they are made.
type turn struct {
	at      time.Time
	request int
	held    int
}

func (l *turns) ask() (request int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	l.events = append(l.events, turn{time.Now(), l.asked, 0})
	return l.asked
}

func (l *turns) note(request, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, turn{time.Now(), request, held})
}

// latest is how long at most the head was not served though a permit was free.
func (l *turns) latest(limit int) (latest time.Duration) {
	waiting, held := 0, 0
	var since time.Time // when it was the turn of who is the head now
	for _, e := range l.events {
		turnHasCome := waiting > 0 && held < limit
		switch e.held {
		case 0:
			waiting++
		case 1:
			if turnHasCome {
				latest = max(latest, e.at.Sub(since))
			}
			waiting--
		}
		held += e.held
		if !turnHasCome || e.held == 1 {
			since = e.at
		}
	}
	return latest
}

// inOrder is how much later at most somebody was granted who had asked earlier.
func (l *turns) inOrder() (latest time.Duration) {
	granted := map[int]time.Time{}
	for _, e := range l.events {
		if e.held == 1 {
			granted[e.request] = e.at
		}
	}
	first := granted[l.asked]
	for request := l.asked; request > 0; request-- {
		latest = max(latest, granted[request].Sub(first))
		if granted[request].Before(first) {
			first = granted[request]
		}
	}
	return latest
}

// stale-place-after-grant: 10 replicas, 5 nodes, limit 3 -> everyone within 100 ms of its turn, and what a claim left where
// it was refused is taken back.
func TestScheduleStalePlaceAfterGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, replicas, rounds = 3, 10, 30
		c := enginetest.NewCluster(t, 5)
		c.Form()
		var all []*player
		faults := near
		faults.Slow, faults.SlowMax = 0.1, 5*time.Millisecond // so that a claim reaches some nodes before a release does
		for range replicas {
			faults.Seed++
			ways := c.Replica(faults)
			all = append(all, &player{openOn(t, c, ways), t, nil, nil, nil, ways})
		}
		all[0].declare(engine.Definition{Limit: limit})
		log := &turns{}
		var workers sync.WaitGroup
		for i, r := range all {
			workers.Go(func() {
				time.Sleep(time.Duration(i) * 1700 * time.Microsecond)
				for range rounds {
					request := log.ask()
					l := r.now(t, engine.Ask{Wait: time.Minute})
					log.note(request, 1)
					time.Sleep(10 * time.Millisecond)
					for _, server := range c.Servers {
						if slices.ContainsFunc(server.Look(db).Places, func(p engine.Placed) bool { return p.Order.Replica == r.Replica() }) {
							t.Errorf("a replica that waits for nothing has a place on %s", server.Name())
						}
					}
					time.Sleep(10 * time.Millisecond)
					log.note(request, -1)
					r.giveBack(l)
					time.Sleep(time.Duration(1+i) * 137 * time.Microsecond)
				}
			})
		}
		workers.Wait()
		if latest := log.latest(limit); latest > 100*time.Millisecond {
			t.Errorf("a permit was free for %v while somebody waited", latest)
		}
		if latest := log.inOrder(); latest > 100*time.Millisecond {
			t.Errorf("somebody was granted %v later than one who had asked after it", latest)
		}
	})
}
