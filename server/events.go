package server

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// eventsMax is how many events are kept.
const eventsMax = 1000

// Types of events. Those of operators are acts: they are logged and counted too.
const (
	actDeclared   = "semaphore_declared" // by PUT, or by PATCH of what was created on use
	actChanged    = "semaphore_changed"
	actDeleted    = "semaphore_deleted"
	actBroken     = "lease_broken"
	actReadmitted = "node_readmitted"
	actRecovered  = "nodes_recovered"

	eventStarted = "started"
	eventLost    = "lease_lost"
	eventNode    = "node_changed"
	eventTokens  = "tokens_changed"

	actPolicyPut     = "policy_put" // also: gone back to a stored version
	actPolicyDeleted = "policy_deleted"
	eventPolicyFault = "policy_fault"
	eventCold        = "cold_start" // all nodes were out at once, and this replica has put together what they remembered
)

// event is something that happened at this replica.
type event struct {
	ID        string `json:"id"` // the replica's name, and a number that grows by one
	At        string `json:"at"`
	Replica   string `json:"replica"`
	Type      string `json:"type"`
	By        string `json:"by,omitempty"` // the principal
	Address   string `json:"address,omitempty"`
	Semaphore string `json:"semaphore,omitempty"`
	Rev       int64  `json:"rev,omitempty"`
	Lease     string `json:"lease,omitempty"` // its id
	Holder    string `json:"holder,omitempty"`
	Weight    int    `json:"weight,omitempty"`
	Node      string `json:"node,omitempty"`
	State     string `json:"state,omitempty"` // of the node
	Reason    string `json:"reason,omitempty"`

	Policy     string `json:"policy,omitempty"`
	Generation int64  `json:"generation,omitempty"` // of the policy, as it was asked
	SHA256     string `json:"sha256,omitempty"`     // of the module

	number int64
}

// events are the last that happened. Whoever follows them reads on from a number: nobody is waited for.
type events struct {
	replica string

	mu      sync.Mutex // guards what follows
	kept    []event    // the oldest first; only the last eventsMax count
	last    int64      // number
	changed chan struct{}
}

func newEvents(replica string) *events {
	return &events{replica: replica, changed: make(chan struct{})}
}

// add never blocks and may be called under locks of the engine.
func (e *events) add(v event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	v.number, v.Replica, v.At = e.last, e.replica, formatTime(time.Now())
	v.ID = e.replica + "-" + strconv.FormatInt(e.last, 10)
	if len(e.kept) == 2*eventsMax { // seldom, since all are moved
		e.kept = e.kept[:copy(e.kept, e.kept[eventsMax:])]
	}
	e.kept = append(e.kept, v)
	close(e.changed)
	e.changed = make(chan struct{})
}

// after returns the events behind a number, how many in between are kept no more, and what is closed with the next one.
func (e *events) after(number int64) (list []event, missed int64, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept := e.kept[max(0, len(e.kept)-eventsMax):]; number < e.last {
		first := kept[0].number
		missed = max(0, first-number-1)
		list = append(list, kept[max(0, number+1-first):]...)
	}
	return list, missed, e.changed
}

// number returns the number of an event's id; ok is false for one of another replica, or of this one before a restart.
func (e *events) number(id string) (number int64, ok bool) {
	replica, text, _ := strings.Cut(id, "-")
	number, ok = parseInteger(text)
	e.mu.Lock()
	defer e.mu.Unlock()
	return number, ok && replica == e.replica && number >= 0 && number <= e.last
}

// acted tells what an operator did: as an event, in the log, and as a number. Whoever looks for the culprit later finds it in
// the log of the replica that was asked.
func (s *Server) acted(c echo.Context, who *principal, v event) {
	v.By, v.Address = who.name, s.clientAddress(c.Request())
	s.events.add(v)
	s.metrics.acts.WithLabelValues(v.Type).Inc()
	fields := []any{"act", v.Type, "by", v.By, "address", v.Address}
	if v.Semaphore != "" {
		fields = append(fields, "semaphore", v.Semaphore)
	}
	if v.Rev > 0 {
		fields = append(fields, "rev", v.Rev)
	}
	if v.Lease != "" {
		fields = append(fields, "lease", v.Lease, "holder", v.Holder, "weight", v.Weight)
	}
	if v.Policy != "" {
		fields = append(fields, "policy", v.Policy, "generation", v.Generation, "sha256", v.SHA256)
	}
	if v.Reason != "" {
		fields = append(fields, "reason", v.Reason)
	}
	s.log.Info("operator act", append(fields, "request_id", requestID(c.Response().Header()))...)
}

// grantOf is what events tell of a lease that somebody has.
type grantOf struct {
	weight int
	policy *engine.PolicyVersion // that weighed it; nil: none did
}

func newGrantOf(l *engine.Lease) grantOf {
	g := grantOf{weight: l.Weight}
	if l.Policy != (engine.PolicyVersion{}) {
		g.policy = new(l.Policy) // a copy: the lease itself stays off the heap
	}
	return g
}

// lost tells that a holder, who is still there, has lost its lease.
func (s *Server) lost(semaphore, lease, by, reason string, g grantOf) {
	s.metrics.lostLease(semaphore, reason)
	v := event{Type: eventLost, Semaphore: semaphore, Lease: lease, By: by, Reason: reason, Weight: g.weight}
	if g.policy != nil {
		v.Policy, v.Generation = g.policy.Name, g.policy.Generation
	}
	s.events.add(v)
}

// lookEvery is how often the states of the nodes are looked at.
const lookEvery = time.Second

// followNodes makes events of what nodes become, until the server stops.
func (s *Server) followNodes() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	known := map[string]string{}
	var coldStarts int64
	for {
		if n := s.engine.ColdStarts(); n > coldStarts {
			coldStarts = n
			s.events.add(event{Type: eventCold})
		}
		_, nodes := s.engine.Nodes()
		for _, n := range nodes {
			if known[n.Name] != n.State {
				s.events.add(event{Type: eventNode, Node: n.Name, State: n.State, Reason: oneLine(n.Reason)})
			}
			known[n.Name] = n.State
		}
		select {
		case <-tick.C:
		case <-s.stopped:
			return
		}
	}
}
