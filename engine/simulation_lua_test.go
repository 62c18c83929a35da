package engine_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/engine/quorum"
	"github.com/permitd/permitd/engine/redisnode"
)

// luaNetwork has the real scripts in servers that pretend to be Redis, reached through the real client over pipes. Chunks of
// bytes have a fate, not messages; all clocks are right.
type luaNetwork struct {
	t      *testing.T
	seed   uint64
	minis  []*mini
	script *script
	made   []*wired

	world *world
}

func newLuaNetwork(t *testing.T, p *plan) *luaNetwork {
	n := &luaNetwork{t: t, seed: p.seed, script: &script{start: time.Now()}}
	for i := range p.nodes {
		n.minis = append(n.minis, &mini{redistest.NewMini(), string(rune('A' + i)), newGate()})
	}
	return n
}

func (n *luaNetwork) all() []node {
	list := make([]node, len(n.minis))
	for i, m := range n.minis {
		list[i] = m
	}
	return list
}

func (n *luaNetwork) ways(faults enginetest.Faults, _ bool) []way {
	list := make([]way, len(n.minis))
	for i, m := range n.minis {
		w := &wired{gate: m.gate, faults: faults, dice: newDice(n.seed, fmt.Sprint("way ", len(n.made))), wires: map[*wire]bool{}}
		n.made = append(n.made, w)
		w.dial = func() net.Conn {
			c, err := m.Dialer(context.Background(), "", "")
			if err != nil {
				n.t.Fatal(err)
			}
			return c
		}
		client, err := redisnode.New(redisnode.Config{
			Addr: "127.0.0.1:6379", Dialer: func(context.Context, string, string) (net.Conn, error) { return w.connect() },
		})
		if err != nil {
			n.t.Fatal(err)
		}
		w.Node = &scribe{client, m.name, i, n}
		list[i] = w
	}
	return list
}

func (n *luaNetwork) watch(w *world) { n.world = w }

func (n *luaNetwork) endTranscript() { n.script.end() }

func (n *luaNetwork) show(t *testing.T) { t.Log("the last answers:\n" + n.script.String()) }

func (n *luaNetwork) close() {
	for _, w := range n.made {
		w.end()
	}
	for _, m := range n.minis {
		m.Resume()
		m.Close()
	}
}

// scribe writes down what a replica hears from a node, for failing tests, and tells the world which definitions may be in force.
type scribe struct {
	engine.Node
	name    string
	index   int
	network *luaNetwork
}

// Name is a letter, as of every node of a simulation.
func (s *scribe) Name() string { return s.name }

func (s *scribe) Send(calls ...*engine.Call) {
	for _, c := range calls {
		if accept, ok := c.Op.(*engine.Accept); ok {
			s.network.world.chosen.proposed(accept)
		}
		done := c.Done
		c.Done = func(a *engine.Answer) {
			s.network.script.add(fmt.Sprintf("%s: %s %+v -> %s %v slots=%s fence=%d ver=%d", s.name, engine.OpName(c.Op), c.Op, a.Says, a.Err, a.Slots, a.Fence, a.Ver))
			if a.Err == nil {
				s.network.world.executed(s.index, c.Header, c.Op, a)
			}
			done(a)
		}
	}
	s.Node.Send(calls...)
}

// script is the last lines of what happened.
type script struct {
	start time.Time

	mu    sync.Mutex // guards what follows
	lines []string
	ended bool
}

// scriptMax is how many lines are kept.
const scriptMax = 400

func (s *script) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.lines = append(s.lines, fmt.Sprintf("%12s  %s", time.Since(s.start), line))
		s.lines = s.lines[max(0, len(s.lines)-scriptMax):]
	}
}

func (s *script) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *script) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// mini is a server that pretends to be Redis, as the simulation looks into it.
type mini struct {
	*redistest.Mini
	name string
	gate *gate
}

func (m *mini) Name() string { return m.name }
func (m *mini) Check() error { return nil } // the differential test compares what the scripts keep with the rules in Go
func (m *mini) Pause()       { m.gate.shut() }
func (m *mini) Resume()      { m.gate.lift() }

// Identity reads the cluster and the index of the node record.
func (m *mini) Identity() (cluster string, index int) {
	if m.HGet("permitd:node", "cluster") == "" {
		return "", -1
	}
	return m.HGet("permitd:node", "cluster"), int(number(m.HGet("permitd:node", "index")))
}

// FenceFloor reads the floor of the node record.
func (m *mini) FenceFloor() int64 {
	if floor := m.HGet("permitd:node", "floor"); floor != "" {
		return number(floor)
	}
	return 0
}

// era is the node's own, which its keys carry.
func (m *mini) era() string {
	_, index := m.Identity()
	if known := strings.Split(m.HGet("permitd:node", "known"), ","); index >= 0 && index < len(known) {
		return known[index]
	}
	return "0"
}

// leasePattern is a lease as scripts/prelude/lease.lua writes it.
var leasePattern = regexp.MustCompile(`(?s)^(\S+) (\d+) (\d+) (\S+) (\S*) (\d+ \S*) (\d+ \S*) (\d) (\d) (\d+) (\d+) (.*)$`)

// Look reads what the scripts keep of a semaphore.
func (m *mini) Look(semaphore string) *engine.ViewPage {
	page, now := &engine.ViewPage{}, time.Now().UnixMicro()
	key := "permitd:sem:" + m.era() + ":" + semaphore
	fields, err := m.HKeys(key)
	if err != nil {
		return page // there is none
	}
	slices.Sort(fields)
	for _, field := range fields {
		text := m.HGet(key, field)
		switch id, isLease := strings.CutPrefix(field, "lease:"); {
		case isLease:
			page.Leases = append(page.Leases, leaseOf(id, text, now))
		case field == "state":
			page.LastFence = number(strings.Fields(text)[0])
		case field == "line":
			for place := range strings.SplitSeq(text, ",") {
				if f := strings.Fields(place); len(f) >= 8 && now < number(f[7])+engine.NodeLimits.PlaceLapse.Microseconds() {
					page.Places = append(page.Places, engine.Placed{})
				}
			}
		}
	}
	cools := "permitd:cool:" + m.era() + ":" + semaphore
	cooling, _ := m.ZMembers(cools) // SortedSet would return the set itself, which scripts write to
	for _, member := range cooling {
		until, err := m.ZScore(cools, member)
		if err != nil || until == 0 {
			continue // it has ended just now
		}
		slots, _, _ := strings.Cut(member, " ")
		page.Cooling = append(page.Cooling, engine.Cooling{Slots: slotsOf(slots), Left: time.Duration(int64(until)-now) * time.Microsecond})
	}
	return page
}

func leaseOf(id, text string, now int64) engine.Record {
	f := leasePattern.FindStringSubmatch(text)
	if f == nil {
		panic(fmt.Sprintf("the record of lease %s is %q", id, text))
	}
	r := engine.Record{
		Lease: id, Fence: number(f[2]), Ver: number(f[3]), Slots: slotsOf(f[4]), By: f[5], First: f[8] == "1", Copy: f[9] == "1",
		Left: engine.Never, Age: time.Duration(now-number(f[10])) * time.Microsecond,
		Touched: time.Duration(now-number(f[11])) * time.Microsecond,
	}
	if f[1] != "never" {
		r.Left = time.Duration(max(0, number(f[1])-now)) * time.Microsecond
	}
	return r
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func slotsOf(text string) quorum.Slots {
	slots, err := quorum.ParseSlots(text)
	if err != nil {
		panic(err)
	}
	return slots
}
