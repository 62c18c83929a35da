package server

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of watching.
const (
	watchesMax   = 100                    // of a connection
	topicEvery   = 250 * time.Millisecond // at most four states a second
	topicShare   = 9                      // reading a topic takes at most a tenth of the time
	topicItems   = 1000                   // of a topic
	topicTimeMax = 5 * time.Second        // for the nodes to answer
	topicMax     = 256                    // bytes of its name
)

// topics are what channels watch. Each has one reader, however many watch it, as long as somebody does.
type topics struct {
	mu   sync.Mutex // guards open, and the watches of each topic
	open map[string]*topic
}

// topic is something to watch: it is read again and again, and who comes in between is told what was read last.
type topic struct {
	watches map[*watch]bool
	moved   chan struct{} // capacity 1: somebody came or went
}

// watch is a topic as one channel watches it. What it has been told is of the topic's reader alone.
type watch struct {
	c    *channel
	ref  string
	name string

	told *picture // nil: nothing yet
	seq  int64
	busy atomic.Bool // its last frame is not written yet: the next one waits, and tells all that has changed by then
}

// stateFrame tells a picture, or what has changed of it.
type stateFrame struct {
	Type  string   `json:"type"`
	Ref   string   `json:"ref"`
	Topic string   `json:"topic"`
	Seq   int64    `json:"seq"`
	Full  bool     `json:"full"`
	Items []any    `json:"items"`
	Gone  []string `json:"gone,omitempty"`
}

// watchFrame is a stateFrame on its way.
type watchFrame struct {
	w     *watch
	state stateFrame
}

func (f *watchFrame) appendTo(b []byte) []byte {
	text, _ := json.Marshal(&f.state) // of strings and numbers: it cannot fail
	f.w.busy.Store(false)
	return append(b, text...)
}

// unwatchedFrame answers an unwatch.
type unwatchedFrame struct {
	Type  string `json:"type"`
	Ref   string `json:"ref"`
	Topic string `json:"topic"`
}

// watch begins to tell a topic. A second watch of one topic takes the place of the first.
func (c *channel) watch(p *params, ref string) error {
	name := p.text("topic", topicMax)
	if err := firstError(p.end(), c.mayWatch(name)); err != nil {
		return err
	}
	w := &watch{c: c, ref: ref, name: name}
	c.mu.Lock()
	old := c.watches[name]
	if old == nil && len(c.watches) >= watchesMax {
		c.mu.Unlock()
		return newProblem(kindClientLimit, "a connection has up to %d watches", watchesMax)
	}
	if c.watches == nil {
		c.watches = map[string]*watch{}
	}
	c.watches[name] = w
	c.mu.Unlock()
	c.server.topics.leave(old)
	c.server.topics.join(c.server, w)
	return nil
}

const semaphoreTopic = "semaphore:"

const policiesTopic = "policies"

// mayWatch refuses topics that there are none of, and those that the token does not allow.
func (c *channel) mayWatch(name string) error {
	who := c.who.Load()
	semaphore, one := strings.CutPrefix(name, semaphoreTopic)
	switch {
	case one:
		return firstError(checkName("topic", semaphore), who.may(scopeRead), who.mayUse(semaphore))
	case name == "semaphores" || name == "nodes" || name == policiesTopic || name == "events":
		return who.may(scopeRead)
	}
	return badRequest("topic", "topics are semaphores, semaphore:NAME, nodes, policies and events")
}

// unwatch ends the telling of a topic.
func (c *channel) unwatch(p *params, ref string) error {
	name := p.text("topic", topicMax)
	if err := p.end(); err != nil {
		return err
	}
	c.mu.Lock()
	w := c.watches[name]
	delete(c.watches, name)
	c.mu.Unlock()
	c.server.topics.leave(w)
	c.send(jsonFrame{unwatchedFrame{"unwatched", ref, name}})
	return nil
}

// unwatchAll ends all watches of a connection that ends.
func (c *channel) unwatchAll() {
	c.mu.Lock()
	watches := c.watches
	c.watches = nil
	c.mu.Unlock()
	for _, w := range watches {
		c.server.topics.leave(w)
	}
}

// join adds a watch to its topic, and starts the reader of a topic that nobody watched.
func (ts *topics) join(s *Server, w *watch) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[w.name]
	if t == nil {
		t = &topic{watches: map[*watch]bool{}, moved: make(chan struct{}, 1)}
		if ts.open == nil {
			ts.open = map[string]*topic{}
		}
		ts.open[w.name] = t
		s.channels.work.Go(func() { s.follow(w.name, t) })
	}
	t.watches[w] = true
	t.move()
}

// leave ends a watch; nil is none.
func (ts *topics) leave(w *watch) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if w == nil {
		return
	}
	if t := ts.open[w.name]; t != nil && t.watches[w] {
		delete(t.watches, w)
		t.move()
	}
}

func (t *topic) move() {
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// watching returns who watches a topic; when it is nobody, the topic is closed.
func (ts *topics) watching(name string) []*watch {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[name]
	if len(t.watches) == 0 {
		delete(ts.open, name)
		return nil
	}
	list := make([]*watch, 0, len(t.watches))
	for w := range t.watches {
		list = append(list, w)
	}
	return list
}

// follow reads a topic and tells who watches it, until nobody does.
func (s *Server) follow(name string, t *topic) {
	var last *picture
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			begun := time.Now()
			if now, err := s.picture(name); err == nil { // else nothing is known, and nothing is told
				last = now
			}
			cost := time.Since(begun)
			next.Reset(max(topicEvery-cost, cost*topicShare))
		case <-t.moved:
		}
		list := s.topics.watching(name)
		if list == nil {
			return
		}
		for _, w := range list {
			w.tell(last)
		}
	}
}

// tell sends what the watch has not been told yet.
func (w *watch) tell(now *picture) {
	if now == nil || now == w.told || w.busy.Load() {
		return
	}
	who := w.c.who.Load()
	if who.may(scopeRead) != nil { // any more
		return
	}
	state := stateFrame{Type: "state", Ref: w.ref, Topic: w.name, Full: w.told == nil, Items: []any{}}
	for _, key := range now.keys {
		i := now.items[key]
		if who.sees(i.semaphore) && (w.told == nil || i.differs(w.told.items[key])) {
			state.Items = append(state.Items, i.shown)
		}
	}
	for _, key := range w.told.all() {
		if i := w.told.items[key]; now.items[key] == nil && i.gone != "" && who.sees(i.semaphore) {
			state.Gone = append(state.Gone, i.gone)
		}
	}
	if w.told = now; !state.Full && len(state.Items)+len(state.Gone) == 0 {
		return
	}
	w.seq++
	state.Seq = w.seq
	w.busy.Store(true)
	w.c.send(&watchFrame{w, state})
}
