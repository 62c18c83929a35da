package localnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
)

// probePause is how often the node is looked at.
const probePause = time.Second

// look looks at the node again and again until it is closed.
func (n *Node) look() {
	tick := time.NewTicker(probePause)
	defer tick.Stop()
	for {
		select {
		case <-n.closed:
			return
		case <-tick.C:
			n.probe(false)
		}
	}
}

// probe tells the replica how the node is.
func (n *Node) probe(first bool) {
	n.telling.Lock()
	defer n.telling.Unlock()
	sent := n.now()
	p := engine.Probe{
		Time: n.clock().Microseconds(), Sent: sent, RunID: n.state.RunID, Version: "embedded", Record: n.record.Load(), Durable: n.store != nil,
	}
	p.Received = n.now()
	p.Refusal = refusal(p.Record)
	if p.Record != nil && p.Record.Format > engine.FormatNow {
		p.Fatal = true
	}
	if broken := n.broken.Load(); broken != nil {
		p.Refusal = errors.Join(p.Refusal, *broken)
	}
	n.events.Probed(p, first)
}

// refusal says why a node with this record does not count; nil: it does, or it is blank and answers so itself.
func refusal(r *engine.NodeRecord) error {
	switch {
	case r == nil:
		return nil
	case r.Format > engine.FormatNow:
		return fmt.Errorf("its record has format %d, this version knows %d at most", r.Format, engine.FormatNow)
	case r.State != engine.StateOK:
		return fmt.Errorf("its record is %s", r.State)
	}
	return nil
}
