package server

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
)

// Goroutines and memory are back at their level when connections have come and gone, whatever they held and waited for.
func TestNothingIsLeftOfConnectionsThatCameAndWent(t *testing.T) {
	// Not parallel: goroutines are counted.
	const atOnce, memoryMore = 100, 8 << 20
	s := serve(t)
	s.declare(t, "db", atOnce/2)
	round := func() {
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/v1/ws", nil)
				if err != nil {
					t.Error(err)
					return
				}
				w := &wire{conn, t} // which the test does not keep, as it does others
				w.expect("welcome")
				w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":"1h"}`) // one half waits
				w.send(`{"type":"watch","ref":"2","topic":"semaphore:db"}`)
				w.next("state")
				if i%3 == 0 {
					w.send(`{"type":"cancel","ref":"3","of":"1"}`)
				}
				_ = w.Close() // without a word
			})
		}
		all.Wait()
		eventually(t, "nothing is held, nobody waits", func() bool {
			sem, err := s.engine.Semaphore(t.Context(), "db")
			return err == nil && sem.Status.InUse == 0 && sem.Status.Waiting == 0
		})
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what pools have kept
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 3 { // buffers, maps and pools have grown
		round()
	}
	goroutines, memory := runtime.NumGoroutine(), heap()
	for range stormHolders / atOnce {
		round()
	}
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	if now := heap(); now > memory+memoryMore {
		t.Errorf("%d bytes are in use, were %d", now, memory)
	}
}
