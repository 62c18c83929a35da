package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/permitd/permitd/engine"
)

// lane is what the goroutine has that sends the calls.
type lane struct {
	*Node
	batch    []waiting
	commands []*command // used again in every batch
	exec     deadline
	told     string              // the failure that was logged last, until there is a connection
	warned   map[error]time.Time // when each kind of error was logged last
	full     time.Time           // when a script was last refused since the server's memory is used up
}

// serve keeps a connection and sends the calls over it, until Close, which ends it by cutting the connection.
func (n *Node) serve() {
	l := &lane{Node: n, exec: deadline{Context: context.Background()}, warned: map[error]time.Time{}}
	defer func() { fail(n.queue.close(), engine.ErrClosed) }()
	var pause backoff
	for n.ctx.Err() == nil {
		err := l.once(&pause)
		if n.ctx.Err() != nil {
			return
		}
		l.down(err)
		l.refuse(fmt.Errorf("%w: %w", engine.ErrDown, err), pause.next())
	}
}

// once makes a link and works over it until it fails; it returns why.
func (l *lane) once(pause *backoff) error {
	link, err := l.connect()
	if err != nil {
		return err
	}
	defer link.close()
	began := time.Now()
	err = l.work(link)
	pause.lasted(time.Since(began))
	return err
}

// down tells that there is no connection.
func (l *lane) down(err error) {
	if text := err.Error(); text != l.told {
		l.told = text
		l.cfg.Log.Debug("no connection", "err", err)
	}
	l.tell(func(e engine.NodeEvents) { e.Down(err) })
}

// connect makes a link and tells of it. Meanwhile calls fail at once.
func (l *lane) connect() (*link, error) {
	type result struct {
		link  *link
		probe engine.Probe
		err   error
	}
	made := make(chan result, 1)
	go func() {
		link, probe, err := l.Node.connect(l.ctx)
		made <- result{link, probe, err}
	}()
	for {
		select {
		case r := <-made:
			if r.err == nil {
				l.up(r.link, r.probe)
			}
			return r.link, r.err
		case <-l.queue.ready:
			l.failQueued(fmt.Errorf("%w: it is being connected to", engine.ErrDown))
		}
	}
}

// up tells of a new connection.
func (l *lane) up(link *link, p engine.Probe) {
	l.told = ""
	if link.refusal == nil {
		l.cfg.Log.Debug("connected", "server", p.Version)
	} else {
		l.cfg.Log.Debug("connected, but it does not count", "server", p.Version, "reason", link.refusal)
	}
	l.tell(func(e engine.NodeEvents) { e.Probed(p, true) })
}

// refuse lets calls fail at once for a while.
func (l *lane) refuse(err error, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-l.ctx.Done():
			return
		case <-l.queue.ready:
			l.failQueued(err)
		}
	}
}

func (l *lane) failQueued(err error) {
	l.batch = l.queue.take(l.batch[:0])
	fail(l.batch, err)
}

// fail answers calls that were not executed, or of which that is not known.
func fail(calls []waiting, err error) {
	for _, w := range calls {
		w.call.Done(&engine.Answer{Err: err})
	}
}

// work sends calls over a link until it fails, and returns why.
func (l *lane) work(link *link) error {
	look := time.NewTicker(probePause)
	defer look.Stop()
	for {
		if link.suspect {
			if err := l.look(link); err != nil {
				return err
			}
		}
		select {
		case <-l.ctx.Done():
			return engine.ErrClosed
		case <-look.C:
			link.suspect = true
		case <-l.queue.ready:
			l.batch = l.fit(link, l.queue.take(l.batch[:0]))
			if err := l.send(link, l.batch); err != nil {
				return err
			}
		}
	}
}

// look probes the server and tells what it saw.
func (l *lane) look(link *link) error {
	before := link.refusal
	l.exec.at = time.Now().Add(l.cfg.NodeTimeout)
	p, err := link.look(&l.exec)
	if err != nil {
		return err
	}
	switch {
	case link.refusal != nil && (before == nil || before.Error() != link.refusal.Error()):
		l.cfg.Log.Debug("it does not count", "reason", link.refusal)
	case link.refusal == nil && before != nil:
		l.cfg.Log.Debug("it counts again")
	}
	l.tell(func(e engine.NodeEvents) { e.Probed(p, false) })
	return nil
}

// fit fails the calls that are not to be written and returns the others.
func (l *lane) fit(link *link, batch []waiting) []waiting {
	oldest := time.Now().Add(-l.cfg.NodeTimeout)
	fit := batch[:0]
	for _, w := range batch {
		switch {
		case w.sent.Before(oldest):
			w.call.Done(&engine.Answer{Err: fmt.Errorf("%w: others were before it", engine.ErrTimeout)})
		case link.refusal != nil && (link.fatal || !engine.ForNodesOut(w.call.Op)):
			w.call.Done(&engine.Answer{Err: fmt.Errorf("%w: %w", engine.ErrOut, link.refusal)})
		default:
			fit = append(fit, w)
		}
	}
	return fit
}

// changesRecord reports whether the node may count afterwards though it did not before, or the other way round.
func changesRecord(op engine.Op) bool {
	switch op.(type) {
	case *engine.Freeze, *engine.Load, *engine.Commit, *engine.Suspend:
		return true
	}
	return false
}

// send writes calls as one pipeline and hands out the answers. Its error is that of the connection; whatever the server answers is
// an answer.
func (l *lane) send(link *link, batch []waiting) error {
	if len(batch) == 0 {
		return nil
	}
	pipe := link.conn.Pipeline()
	count := 0
	for rest := batch; len(rest) > 0; count++ {
		c := l.command(count)
		for _, w := range rest[:l.inTurn(rest)] {
			c.calls = append(c.calls, w.call)
			link.suspect = link.suspect || changesRecord(w.call.Op)
		}
		link.encoder.encode(&c.arguments, c.calls...)
		_ = pipe.Process(&l.exec, c) // it only puts it down
		rest = rest[len(c.calls):]
	}
	l.exec.at = time.Now().Add(l.cfg.NodeTimeout)
	sent := l.now()
	_, _ = pipe.Exec(&l.exec) // every command has its own error
	received := l.now()

	var failed error
	for _, c := range l.commands[:count] {
		err := l.failure(link, c)
		if failed == nil && connectionOver(err) {
			failed = err
		}
		for i, call := range c.calls {
			a := l.answer(c, i, err)
			a.Sent, a.Received = sent, received
			call.Done(a)
		}
	}
	return failed
}

// failure looks at what has become of a command, and returns its error.
func (l *lane) failure(link *link, c *command) error {
	err := c.Err()
	kind := kindOf(err)
	if kind == nil {
		return err
	}
	link.suspect = link.suspect || hintsAtRestart(kind)
	switch kind {
	case ErrNoScript:
		link.encoder = nil
	case ErrMemory:
		l.full = time.Now()
	}
	l.warn(kind, err)
	return err
}

// connectionOver reports whether the connection cannot be used any more after an error of a command.
func connectionOver(err error) bool {
	kind := kindOf(err)
	return err != nil && (kind == nil || needsHandshake(kind))
}

// answer reads the answer to the i-th call of a command that has failed with err.
func (l *lane) answer(c *command, i int, err error) *engine.Answer {
	switch {
	case err == nil:
		value := c.Val()
		if several, ok := value.([]any); ok && len(c.calls) > 1 && len(several) == len(c.calls) {
			value = several[i]
		}
		a, err := decode(c.calls[i].Op, value)
		if err != nil {
			err = fmt.Errorf("%w: %w", engine.ErrBroken, err)
			l.warn(errReply, err)
			return &engine.Answer{Err: err}
		}
		return a
	case kindOf(err) == nil:
		return &engine.Answer{Err: l.lost(err)}
	}
	return &engine.Answer{Err: named(err)}
}

// lost says what a failure of the connection means for the calls under way.
func (l *lane) lost(err error) error {
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case l.ctx.Err() != nil:
		return engine.ErrClosed
	case isNet && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", engine.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", engine.ErrLost, err)
}

// warnPause is how long an error that the server answers with again and again is not logged again.
const warnPause = 10 * time.Second

// warn logs what the server answered with.
func (l *lane) warn(kind, err error) {
	if now := time.Now(); now.Sub(l.warned[kind]) >= warnPause {
		l.warned[kind] = now
		l.cfg.Log.Warn("it answers with an error", "kind", kind, "err", err)
	}
}
