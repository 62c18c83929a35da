package server

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/server/client"
)

// faults.md 26: all holders of a replica come back at once when it is restarted. None is lost, and each costs the nodes a look and
// an attachment, no more.
func TestFiveThousandHoldersComeBackAtOnce(t *testing.T) {
	t.Parallel()
	const holders = stormHolders
	synctest.Test(t, func(t *testing.T) {
		list, _ := replicas(t, 2, enginetest.Faults{})
		a, b := list[0], list[1]
		a.declare(t, "db", holders)
		wires, leases := make([]*wire, holders), make([]client.Lease, holders)
		for i := range holders {
			wires[i] = a.open(t)
			leases[i] = wires[i].acquire(`"ttl":"10m"`)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- a.Shutdown(t.Context()) }()
		var all sync.WaitGroup
		for i, w := range wires {
			all.Go(func() {
				w.expect("draining")
				if code := w.closed(); code != websocket.CloseServiceRestart {
					t.Errorf("closed with %d", code)
				}
				_ = w.Close()
				again := b.open(t)
				again.send(`{"type":"attach","ref":"1","semaphore":"db","lease":"%s"}`, leases[i].Capability)
				if f := again.expect("granted"); f["fence"] != float64(leases[i].Fence) || f["slots"] != leases[i].Slots {
					t.Errorf("%v, was %+v", f, leases[i])
				}
				wires[i] = again
			})
		}
		all.Wait()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if got := b.inUse(t); got != holders {
			t.Errorf("%d in use", got)
		}
		metrics := scrape(t, b)
		for op, most := range map[string]int{"find": 3 * holders, "attach": 3 * holders, "claim": 0, "release": 0} {
			asked := 0
			for _, node := range []string{"A", "B", "C"} {
				n, _ := strconv.Atoi(metrics[`permitd_node_request_duration_seconds_count{node="`+node+`",op="`+op+`",outcome="answered"}`]) // "": none
				asked += n
			}
			if asked > most {
				t.Errorf("%d times %s of the nodes", asked, op)
			}
		}
		for _, w := range wires {
			_ = w.Close()
		}
		time.Sleep(time.Second)
		if got := b.inUse(t); got != 0 {
			t.Errorf("%d in use when all have left", got)
		}
	})
}
