package engine_test

import (
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
)

// countTheReached lets nodes that are not reached say what the others said: a quorum of those that are reached is enough.
func countTheReached(w *world) {
	said := &hearsay{yes: map[string]*engine.Answer{}, waiting: map[string][]func(*engine.Answer){}}
	w.wrap = func(n engine.Node) engine.Node { return &echo{Node: n, said: said} }
}

// hearsay is what some node said yes to, by attempt, and who waits to hear it.
type hearsay struct {
	mu      sync.Mutex // guards what follows
	yes     map[string]*engine.Answer
	waiting map[string][]func(*engine.Answer)
}

// echo is a node that, while it is not reached, says yes to claims that another has said yes to, and what its own clock would say.
type echo struct {
	engine.Node
	said *hearsay
	now  func() time.Duration

	mu   sync.Mutex // guards what follows
	last engine.Answer
}

func (e *echo) Start(replica string, now func() time.Duration, events engine.NodeEvents) {
	e.now = now
	e.Node.Start(replica, now, events)
}

func (e *echo) Send(calls ...*engine.Call) {
	for _, c := range calls {
		if claim, ok := c.Op.(*engine.Claim); ok {
			done := c.Done
			c.Done = func(a *engine.Answer) { e.hear(claim.By, a, done) }
		}
	}
	e.Node.Send(calls...)
}

// hear hands an answer on, or somebody's yes where there is none, now or as soon as there is one.
func (e *echo) hear(by string, a *engine.Answer, done func(*engine.Answer)) {
	if a.Err == nil {
		e.mu.Lock()
		e.last = *a
		e.mu.Unlock()
		done(a)
		if a.Says == engine.SaysGranted {
			e.said.tell(by, a)
		}
		return
	}
	hear := func(yes *engine.Answer) { done(e.own(yes)) }
	if yes := e.said.ask(by, hear); yes != nil {
		hear(yes)
	}
}

// own makes an answer of the node's own of another's.
func (e *echo) own(yes *engine.Answer) *engine.Answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := *yes
	a.Received = e.now()
	a.Sent = a.Received - time.Millisecond
	a.Time = e.last.Time + (a.Received - e.last.Received).Microseconds()
	return &a
}

// tell keeps the first yes of an attempt, for those who wait for it, too.
func (h *hearsay) tell(by string, a *engine.Answer) {
	h.mu.Lock()
	waiting := h.waiting[by]
	delete(h.waiting, by)
	if h.yes[by] == nil {
		h.yes[by] = a
	}
	h.mu.Unlock()
	for _, hear := range waiting {
		hear(a)
	}
}

// ask returns the yes of an attempt, or nil and lets hear have it later.
func (h *hearsay) ask(by string, hear func(*engine.Answer)) *engine.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.yes[by] == nil {
		h.waiting[by] = append(h.waiting[by], hear)
	}
	return h.yes[by]
}
