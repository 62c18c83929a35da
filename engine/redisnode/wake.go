package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// earIdle is how long the wake channel may be silent before the server is asked whether it is still there, and how long
// it has for the answer.
const earIdle = 5 * time.Second

// channel is where the messages of a replica come, which is a word, or those of every replica, which is none.
func (n *Node) channel(replica string) string { return n.cfg.Prefix + ":wake:" + replica }

// listen hears the wake channels of this replica until Close, which ends it by cutting the connection.
func (n *Node) listen() {
	var pause backoff
	told := "" // the failure that was logged last
	for n.ctx.Err() == nil {
		began := time.Now()
		err := n.hear()
		pause.lasted(time.Since(began))
		if kindOf(err) != nil && err.Error() != told {
			told = err.Error()
			n.cfg.Log.Warn("wake-ups are not heard", "err", err)
		}
		select {
		case <-n.ctx.Done():
		case <-time.After(pause.next()):
		}
	}
}

// hear subscribes and delivers messages until the connection fails; it returns why.
func (n *Node) hear() error {
	ctx, cancel := context.WithTimeout(n.ctx, linkMax)
	defer cancel()
	client, err := n.ear.open(ctx, &n.cfg, n.server)
	if err != nil {
		return err
	}
	defer func() {
		n.ear.cut()
		_ = client.Close()
	}()
	channel := client.Subscribe(ctx)
	defer func() { _ = channel.Close() }()
	if err := channel.Subscribe(ctx, n.channel(word(n.replica)), n.channel(engine.EveryReplica)); err != nil {
		return err
	}
	asked := false
	for {
		message, err := channel.ReceiveTimeout(n.ctx, earIdle)
		timeout, isNet := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			asked = false
			n.deliver(message)
		case isNet && timeout.Timeout() && !asked:
			asked = true
			if err := channel.Ping(&deadline{n.ctx, time.Now().Add(earIdle)}); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// deliver tells the engine of a message.
func (n *Node) deliver(message any) {
	m, ok := message.(*redis.Message)
	if !ok { // an answer to SUBSCRIBE or PING
		return
	}
	replica := n.replica
	if m.Channel == n.channel(engine.EveryReplica) {
		replica = engine.EveryReplica
	}
	wake, err := parseWake(replica, m.Payload)
	if err != nil {
		n.cfg.Log.Warn("a wake-up cannot be read", "err", err)
		return
	}
	n.tell(func(e engine.NodeEvents) { e.Woken(wake) })
}

// parseWake reads "index arrival seq slot free semaphore", as scripts/prelude/line.lua and scripts/accept.lua publish it, or
// "index 0 0 -1 0 lease semaphore", as scripts/release.lua does for every replica.
func parseWake(replica, payload string) (engine.Wake, error) {
	f := fields{rest: payload}
	w := engine.Wake{Node: f.int(), Order: engine.Order{Arrival: f.number(), Seq: f.number(), Replica: replica}, Slot: f.int(), Free: f.int()}
	if replica == engine.EveryReplica && w.Slot < 0 {
		w.Slot, w.Lease = 0, f.text()
	}
	w.Semaphore = f.remainder()
	if f.end() != nil {
		return engine.Wake{}, fmt.Errorf("wake-up %q: %w", payload, f.err)
	}
	return w, nil
}
