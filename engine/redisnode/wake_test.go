package redisnode_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/redisnode"
)

// wake waits for a message about a semaphore that this replica waits for. It states its place again meanwhile: a node may still be
// subscribing, and who was woken and says nothing is passed over.
func (s *subject) wake(semaphore string) engine.Wake {
	s.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		select {
		case w := <-s.woken:
			if w.Semaphore == semaphore {
				return w
			}
		case <-time.After(50 * time.Millisecond):
			s.waits(semaphore)
		}
	}
	s.Fatal("nobody was woken")
	return engine.Wake{}
}

// waits states a place of this replica, and returns it.
func (s *subject) waits(semaphore string) engine.Place {
	s.Helper()
	place := engine.Place{Order: engine.Order{Arrival: 5, Replica: me, Seq: 6}, Weight: 1, Count: 1, Total: 1}
	s.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: semaphore, Replica: me})
	return place
}

func TestAWakeUpNamesNodeSemaphorePlaceSlotAndWhatIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := openMini(t, redisnode.Config{})
		s.formed()
		s.define(db, engine.Value{Limit: 2})
		s.want(engine.SaysGranted, s.do(s.claim(db, "L")))
		s.want(engine.SaysGranted, s.do(s.claim(db, "M")))
		place := s.waits(db)
		s.want(engine.SaysReleased, s.do(s.release(db, "M")))
		want := engine.Wake{Node: 1, Semaphore: db, Order: place.Order, Slot: 1, Free: 1}
		if got := s.wake(db); got != want {
			t.Errorf("got %+v; want %+v", got, want)
		}
	})
}

func TestTheChannelOfEveryReplicaIsNotTheOneOfAReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, mini := openMini(t, redisnode.Config{})
		s.formed()
		synctest.Wait()
		s.define(db, engine.Value{Limit: 1})
		want := engine.Wake{Node: 1, Semaphore: db, Order: engine.Order{Replica: engine.EveryReplica}}
		if got := <-s.told; got != want {
			t.Errorf("told %+v; want %+v", got, want)
		}
		place := engine.Place{Order: engine.Order{Arrival: 5, Replica: engine.EveryReplica, Seq: 6}, Weight: 1, Count: 1, Total: 1}
		s.state(engine.Placement{Mode: engine.PlaceAlways, Place: place}, &engine.Line{Semaphore: db, Replica: engine.EveryReplica})
		mini.Publish("permitd:wake:"+other, "1 5 6 0 1 db")
		synctest.Wait()
		if len(s.told)+len(s.woken) > 0 {
			t.Error("it heard what others are woken by")
		}
	})
}

func TestTheWakeChannelIsHeardAgainAfterItsConnectionWasLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redisnode.Config{Addr: server.Addr(), NodeTimeout: within}).formed()
	s.define(db, engine.Value{Limit: 1})
	s.waits(db)
	s.wake(db)
	client := admin(t, server)
	for range 3 {
		must(t, client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		s.waits(db)
		s.wake(db)
	}
}

func TestASilentWakeChannelIsAskedWhetherItIsStillThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := openWire(t)
		s.formed()
		s.define(db, engine.Value{Limit: 1})
		time.Sleep(time.Minute) // of silence
		s.waits(db)
		s.wake(db)

		w.deaf.Store(true) // as behind a firewall that forgot the connection
		time.Sleep(11 * time.Second)
		w.deaf.Store(false)
		time.Sleep(2 * time.Second)
		s.waits(db)
		s.wake(db)
	})
}

func TestAMessageThatCannotBeReadIsLoggedAndTheNextIsHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, mini := openMini(t, redisnode.Config{})
		s.formed()
		s.define(db, engine.Value{Limit: 1})
		synctest.Wait()
		for _, text := range []string{"", "hello", "1 2 3", "1 2 3 x 5 db"} {
			mini.Publish("permitd:wake:"+me, text)
		}
		s.waits(db)
		if w := s.wake(db); w.Semaphore != db {
			t.Errorf("woken by %+v", w)
		}
		if !s.log.says("cannot be read") {
			t.Error("the log says nothing")
		}
	})
}
