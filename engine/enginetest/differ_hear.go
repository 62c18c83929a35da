package enginetest

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// ears are what one replica hears.
type ears struct {
	woken  chan engine.Wake
	probed chan engine.Probe // has room for the first one
}

// Probed keeps the first probe.
func (e *ears) Probed(p engine.Probe, _ bool) {
	select {
	case e.probed <- p:
	default:
	}
}

// Down is noticed by the answer that does not come.
func (e *ears) Down(error) {}

// Woken keeps a wake.
func (e *ears) Woken(w engine.Wake) { e.woken <- w }

// compareWake waits for a wake that the state has sent, by its replica if that is there, or by all.
func (d *differ) compareWake(op engine.Op, want engine.Wake) {
	d.Helper()
	if want.Order.Replica == engine.EveryReplica {
		for _, ears := range d.ears {
			d.compareHeard(op, ears, want)
		}
	} else if ears := d.ears[want.Order.Replica]; ears != nil {
		d.compareHeard(op, ears, want)
	}
}

func (d *differ) compareHeard(op engine.Op, ears *ears, want engine.Wake) {
	d.Helper()
	select {
	case got := <-ears.woken:
		if got != want {
			d.fail("%s %+v\nthe state sends %+v\nthe node sends %+v", engine.OpName(op), op, want, got)
		}
	case <-time.After(wakeWithin):
		d.fail("%s %+v\nthe state sends %+v, the node nothing", engine.OpName(op), op, want)
	}
}

// listen returns when every replica hears its wakes: nodes may still be subscribing. Each gets one over a semaphore of its own;
// whoever has heard it has also heard of the changes before it, if it could.
func (d *differ) listen() {
	d.Helper()
	header := &engine.Header{Cluster: clusterID, Index: 1, Known: []int64{7, 7, 7}}
	for replica := range d.ears {
		d.quietly(header, engine.Placement{}, &engine.Accept{
			Kind: engine.RegisterSemaphore, Name: listeningTo(replica), Ballot: engine.Ballot{Counter: 1, Replica: me}, Value: engine.Value{Limit: 1},
		})
	}
	for replica, ears := range d.ears {
		semaphore := listeningTo(replica)
		for try := int64(1); !d.heard(ears, header, semaphore, engine.Order{Arrival: try, Replica: replica, Seq: try}); try++ {
			if try > 1000 {
				d.fail("%s hears no wakes", replica)
			}
		}
		d.both(header, 0, engine.Placement{Mode: engine.PlaceAlways}, &engine.Line{Semaphore: semaphore, Replica: replica})
	}
}

func listeningTo(replica string) string { return "listening " + replica }

// quietly is both without a comparison.
func (d *differ) quietly(header *engine.Header, placement engine.Placement, op engine.Op) {
	d.Helper()
	a := d.send([]step{{header: header, placement: placement, op: op}})[0]
	d.state.Apply(a.Time, header, 0, placement, op)
}

// heard states a place that is woken, and reports whether its replica has heard it soon.
func (d *differ) heard(ears *ears, header *engine.Header, semaphore string, order engine.Order) bool {
	d.Helper()
	op := &engine.Line{Semaphore: semaphore, Replica: order.Replica}
	placement := engine.Placement{Mode: engine.PlaceAlways, Place: engine.Place{Order: order, Weight: 1, Count: 1, Total: 1}}
	d.quietly(header, placement, op)
	soon := time.After(20 * time.Millisecond)
	for {
		select {
		case w := <-ears.woken:
			if w.Order == order {
				return true
			}
		case <-soon:
			return false
		}
	}
}

// quiet fails the test if a replica has heard more wakes than the state has sent.
func (d *differ) quiet() {
	d.Helper()
	time.Sleep(20 * time.Millisecond)
	for replica, ears := range d.ears {
		select {
		case got := <-ears.woken:
			d.fail("the node sent %s %+v, the state nothing", replica, got)
		default:
		}
	}
}
