package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// startCold makes all nodes one cluster again of which fewer than a quorum are ok: after a power cut, a restart of everything, or
// of the only one. All are frozen, so there is an instant at which nobody could grant anything; what all remember is merged,
// and all commit to it, in one new era (quorum.md section 5).
func (e *Engine) startCold(probes []*Probe) error {
	given := e.givenUp()
	nodes := slices.DeleteFunc(slices.Clone(e.peers), func(p *peer) bool { return given[p.pos] })
	c := &coldStart{e: e, nodes: nodes, seen: probes, token: e.largerToken(probes), given: given}
	if err := c.freeze(); err != nil {
		return err
	}
	if err := c.read(); err != nil {
		return err
	}
	if err := c.loadAndCommit(); err != nil {
		return err
	}
	e.coldStarts.Add(1)
	e.recovered()
	e.cfg.Log.Warn("cold start: what the nodes remembered was put together", "memories", c.memories, "blank", c.blank, "given_up", len(given),
		"era", c.era, "wait", c.wait)
	return nil
}

// coldStart is one try.
type coldStart struct {
	e     *Engine
	nodes []*peer // less those given up
	seen  []*Probe
	token Ballot
	given map[int]bool // positions; nil: no operator has decided anything

	merged          *memory
	memories, blank int // nodes; blank are also those whose clock jumped, as their leases may have lapsed early
	index           []int
	era             int64
	wait            time.Duration // before anything is granted on semaphores of which nobody knows better
}

// freeze freezes the nodes that are out, and the others only when so many are frozen that no quorum can vote any more.
func (c *coldStart) freeze() error {
	e := c.e
	isOut := func(p *peer) bool { return !p.voting.Load() }
	frozen := 0
	for _, out := range []bool{true, false} {
		for _, p := range c.nodes {
			if isOut(p) != out {
				continue
			}
			if !out && frozen+len(c.given) < len(e.peers)-e.quorum+1 {
				return errMoving
			}
			if _, err := e.freeze(p, c.seen[p.pos], c.token); err != nil {
				return fmt.Errorf("%s: %w", p.node.Name(), err)
			}
			frozen++
		}
	}
	return nil
}

// read reads all nodes that remember the cluster and merges that.
func (c *coldStart) read() error {
	e := c.e
	reads := e.readEach(c.nodes, func(p *peer) Read { return Read{Token: c.token, RunID: p.runID()} })
	probes := make([]*Probe, len(e.peers))
	var all []*memory
	for i, r := range reads {
		p := c.nodes[i]
		if r.err != nil {
			return fmt.Errorf("reading %s: %w", p.node.Name(), r.err)
		}
		probes[p.pos] = &Probe{RunID: r.record.RunID, Record: r.record}
		for _, known := range [][]int64{r.record.Known, r.record.identity().Known, pendingKnown(r.record)} {
			for _, era := range known {
				c.era = max(c.era, era)
			}
		}
		switch {
		case !e.remembers(r.record):
			c.blank++
			continue
		case r.record.Reason != "": // it was suspended: leases may have lapsed early
			c.blank++
		}
		c.memories++
		r.memory.boundEnds()
		all = append(all, r.memory)
	}
	c.era++
	if left := e.memories(probes); left < e.quorum && c.given == nil {
		return fmt.Errorf("now that all are frozen, only %d of them have a full memory of the cluster", left)
	}
	if c.memories == 0 {
		return errors.New("no node remembers the cluster")
	}
	var ok bool
	if c.index, ok = e.indexes(probes); !ok && len(c.given) == 0 {
		return errMoving
	}
	c.merged = merge(all)
	c.setWaits()
	return nil
}

// boundEnds takes back what a clock that was set back has added: nothing lasts longer than the longest TTL that the node has granted.
func (m *memory) boundEnds() {
	for _, c := range m.semaphores {
		longest := cmp.Or(c.LongestTTL, claimTTLMax)
		for i := range c.Leases {
			r := &c.Leases[i]
			if r.Left != Never {
				r.Left = min(r.Left, longest)
			}
			r.Age, r.Touched = max(0, r.Age), max(0, r.Touched) // it was granted before now
		}
		for i := range c.Cooling {
			c.Cooling[i].Left = min(c.Cooling[i].Left, max(c.Value.MinHold, claimTTLMax)) // it may have begun under a longer min_hold
		}
		c.Wait = min(c.Wait, max(longest, claimTTLMax))
	}
}

// setWaits makes semaphores wait until no lease can be held any more that all nodes have forgotten: unless they keep what they
// acknowledged, and no more of them have lost it than a quorum makes up for.
func (c *coldStart) setWaits() {
	e := c.e
	c.wait = c.merged.wait
	if e.cfg.DurableNodes && c.blank+len(c.given) <= len(e.peers)-e.quorum {
		return
	}
	c.wait = max(c.wait, claimTTLMax)
	seen := e.longestTTLs()
	for name, m := range c.merged.semaphores {
		m.LongestTTL = max(m.LongestTTL, seen[name])
		m.Wait = max(m.Wait, m.LongestTTL, claimTTLMax)
		delete(seen, name)
	}
	for _, ttl := range seen { // of semaphores that all nodes have forgotten
		c.wait = max(c.wait, ttl)
	}
}

// loadAndCommit loads all nodes, and only when all have acknowledged that lets them commit.
func (c *coldStart) loadAndCommit() error {
	e := c.e
	known := slices.Repeat([]int64{c.era}, len(e.peers))
	load := func(p *peer) Load {
		return Load{
			Token: c.token, RunID: p.runID(), Cluster: e.clusterID(), N: len(e.peers), Index: c.index[p.pos], Known: known, Wait: c.wait,
		}
	}
	if err := e.load(c.nodes, c.merged, load); err != nil {
		return err
	}
	return e.commit(c.nodes, func(p *peer) *Commit { return &Commit{Token: c.token, RunID: p.runID()} })
}
