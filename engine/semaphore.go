package engine

import (
	"hash/fnv"
	"sync"
	"time"
)

// semaphore is what this replica knows of one semaphore, and its part of the line.
//
// Lock order: semaphore.mu, then keeper.mu or peer.mu. What is to be sent is queued while mu is held and sent, in one go a
// node, before it is let go; so all nodes get one order, and a release and the claim that follows it share a pipeline.
type semaphore struct {
	e    *Engine
	name string

	mu     sync.Mutex // guards what follows
	outbox [][]*Call  // by node: queued, not yet sent
	gone   bool       // forgotten by the engine: look it up again

	def        *stored // nil: not read yet
	ballot     Ballot  // of def
	reading    bool
	arrivals   []*Request // wait for the definition
	line       line
	leases     map[string]*lease       // by id: what this replica granted or attached
	releasing  map[*releasing]struct{} // not acknowledged by all yet
	places     []Order                 // by node: this replica's own place there, as last told
	lining     []bool                  // by node: a line is under way
	unanswered []int                   // by node: claims under way there
	givingBack []int                   // by node: give-backs under way there
	free       int                     // free slots, as last told, less what was claimed since
	inUse      int                     // as last told
	restsUntil time.Duration           // likewise: nothing is granted before, free slots or not; the wait after a cold start
	freeSeen   int                     // free slots, as last told …
	freeAt     time.Duration           // … and when
	fence      int64                   // the largest seen
	toldFence  int64                   // the largest of a grant that was told here
	roomAt     time.Duration           // now, while claims follow from a release here or a wake; else 0
	elsewhere  int                     // waiters of other replicas, as last told
	before     int                     // those of them before this replica's head, as last told
	recheck    *time.Timer             // next claim of the head without a wake; see setRecheck
	recheckAt  time.Duration
	touched    time.Duration // last use, for forgetting it
	active     time.Duration // when this replica last granted, renewed or released
	shrink     shrink

	named   map[string]*Request      // by lease id: with a key or a ticket, that seek or wait
	away    map[string]kept          // by lease id: places kept
	turns   map[string]chan struct{} // by lease id: closed when the last who takes it up from the nodes is done
	cleaned time.Duration            // when leftovers were last looked for
	created struct {                 // what the last request brought that may create it, and what that is in params
		of   Definition
		text string
	}
	lastInfo struct { // what was told of the last lease that was claimed, and what that is as its Info
		of   info
		text string
	}

	granted   int64
	lastGrant time.Time
}

// locked runs f with mu held and sends what it queued.
func (s *semaphore) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.flush()
}

// queue adds a call to what will be sent to a node. mu is held.
func (s *semaphore) queue(p *peer, c *Call) { s.outbox[p.pos] = append(s.outbox[p.pos], c) }

// flush sends what is queued. mu is held: sending only appends to lanes.
func (s *semaphore) flush() {
	for i, calls := range s.outbox {
		if len(calls) > 0 {
			s.e.peers[i].node.Send(calls...)
			clear(calls)
			s.outbox[i] = calls[:0]
		}
	}
}

// semaphore returns the replica's state of a semaphore, locked. The caller flushes and unlocks it.
func (e *Engine) semaphore(name string) *semaphore {
	for {
		e.semMu.Lock()
		s := e.sems[name]
		if s == nil {
			s = &semaphore{
				e: e, name: name, outbox: make([][]*Call, len(e.peers)), line: newLine(),
				leases: map[string]*lease{}, releasing: map[*releasing]struct{}{}, places: make([]Order, len(e.peers)), lining: make([]bool, len(e.peers)),
				unanswered: make([]int, len(e.peers)), givingBack: make([]int, len(e.peers)),
			}
			s.named, s.away, s.turns = map[string]*Request{}, map[string]kept{}, map[string]chan struct{}{}
			e.sems[name] = s
		}
		e.semMu.Unlock()
		s.mu.Lock()
		if !s.gone {
			s.touched = e.cfg.Now()
			return s
		}
		s.mu.Unlock()
	}
}

// known returns the replica's state of a semaphore if it has any, locked; else nil.
func (e *Engine) known(name string) *semaphore {
	e.semMu.Lock()
	s := e.sems[name]
	e.semMu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return nil
	}
	return s
}

// unlock sends what is queued and lets mu go.
func (s *semaphore) unlock() {
	s.flush()
	s.mu.Unlock()
}

// semaphoreIdle is how long a semaphore that nothing happens on is remembered.
const semaphoreIdle = time.Minute

// forgetIdle drops what the replica knows of semaphores that nothing happens on.
func (e *Engine) forgetIdle(now time.Duration) {
	for _, s := range e.semaphores() {
		s.mu.Lock()
		if now-s.touched > semaphoreIdle && s.line.len() == 0 && len(s.leases) == 0 && len(s.releasing) == 0 && len(s.arrivals) == 0 && !s.reading {
			s.gone = true
			if s.recheck != nil {
				s.recheck.Stop()
			}
			e.semMu.Lock()
			delete(e.sems, s.name)
			e.semMu.Unlock()
		}
		s.mu.Unlock()
	}
}

// limit is the limit as this replica knows it. mu is held and def is known.
func (s *semaphore) limit() int { return s.def.Definition.Limit }

// start is where this replica looks for free slots: replicas start at different places so that they rarely collide.
func (s *semaphore) start() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.e.replica))
	return int(h.Sum32() % uint32(s.limit()))
}
