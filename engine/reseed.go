package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// reseed is one try to copy to a node what a quorum of the others remembers, so that it votes again (quorum.md section 5).
type reseed struct {
	e     *Engine
	p     *peer
	seen  *Probe // by which it was judged
	index int
	token Ballot
	era   int64 // that the node will be of
	runID string
	start time.Duration

	sources []*peer
}

// marksMax bounds how often a reseed starts over with a larger era.
const marksMax = 20

// run freezes the node, lets a quorum of the others know that its era is over, and only then reads what they remember.
func (s *reseed) run() error {
	record, err := s.e.freeze(s.p, s.seen, tokenOver(s.seen, s.e.replica))
	if err != nil {
		return err
	}
	s.token, s.runID = record.Token, record.RunID
	if err := s.mark(record); err != nil {
		return err
	}
	merged, known, err := s.read()
	if err != nil {
		return err
	}
	load := Load{
		Token: s.token, RunID: s.runID, Cluster: s.e.clusterID(), N: len(s.e.peers), Index: s.index, Known: known, Wait: merged.wait,
	}
	if err := s.e.load([]*peer{s.p}, merged, func(*peer) Load { return load }); err != nil {
		return err
	}
	return s.e.commit([]*peer{s.p}, func(*peer) *Commit { return &Commit{Token: s.token, RunID: s.runID} })
}

// mark tells the others that the node's era is over, until a quorum of them remembers one new era by this token.
func (s *reseed) mark(record *NodeRecord) error {
	e := s.e
	s.era = e.eraOf(s.index)
	for _, known := range [][]int64{record.Known, record.identity().Known, pendingKnown(record)} {
		if s.index < len(known) {
			s.era = max(s.era, known[s.index])
		}
	}
	for range marksMax {
		s.era++
		mark := &Mark{Node: s.index, Era: s.era, Token: s.token}
		answers := e.askEach(e.ctx, e.others(s.p), func(*peer) Op { return mark })
		s.sources = s.sources[:0]
		refused := false
		for i, a := range answers {
			switch {
			case a == nil:
			case a.Says == SaysDone:
				s.sources = append(s.sources, e.peers[i])
			case a.Node != nil:
				refused = true
				s.era = max(s.era, a.Node.Known[s.index])
			}
		}
		if len(s.sources) >= e.quorum {
			known := make([]int64, len(e.peers))
			known[s.index] = s.era
			e.learn(known)
			return nil
		}
		if !refused {
			break
		}
		e.rest(jitter())
	}
	return fmt.Errorf("only %d of the others know that its era is over, %d are needed", len(s.sources), e.quorum)
}

func pendingKnown(r *NodeRecord) []int64 {
	if r.Pending == nil {
		return nil
	}
	return r.Pending.Known
}

// read reads the sources and merges what they remember; known is what the node has to know of eras.
func (s *reseed) read() (merged *memory, known []int64, err error) {
	e := s.e
	reads := e.readEach(s.sources, func(p *peer) Read { return Read{RunID: p.runID()} })
	var all []*memory
	known = make([]int64, len(e.peers))
	for i, r := range reads {
		if r.err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", s.sources[i].node.Name(), r.err)
		}
		all = append(all, r.memory)
		for x, era := range r.record.Known {
			known[x] = max(known[x], era)
		}
	}
	e.learn(known)
	for i, r := range reads { // a source of which another knows that its era is over was no evidence
		if r.record.Era < e.eraOf(r.record.Index) {
			return nil, nil, fmt.Errorf("reading %s: %w", s.sources[i].node.Name(), errMoving)
		}
	}
	if known[s.index] != s.era {
		return nil, nil, errOvertaken
	}
	return merge(all), known, nil
}

// others are the nodes that vote, less one.
func (e *Engine) others(p *peer) []*peer {
	return slices.DeleteFunc(e.voters(), func(q *peer) bool { return q == p })
}

func (e *Engine) voters() []*peer {
	return slices.DeleteFunc(slices.Clone(e.peers), func(p *peer) bool { return !p.voting.Load() })
}

// tokenOver is a token of a replica that is larger than the one a node has.
func tokenOver(pr *Probe, replica string) Ballot {
	return Ballot{Counter: tokenOf(pr).Counter + 1, Replica: replica}
}

// runID is that of the server when it was last seen.
func (p *peer) runID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probe.RunID
}

// freeze freezes one node, if it is still as it was seen.
func (e *Engine) freeze(p *peer, seen *Probe, token Ballot) (*NodeRecord, error) {
	op := &Freeze{Token: token, Was: tokenOf(seen), Cluster: e.clusterID(), RunID: seen.RunID}
	a := e.askEach(e.ctx, []*peer{p}, func(*peer) Op { return op })[p.pos]
	switch {
	case a == nil:
		return nil, fmt.Errorf("freezing it: %w", ErrTimeout)
	case a.Says != SaysDone:
		return nil, fmt.Errorf("freezing it: %w", errOvertaken)
	}
	return a.Node, nil
}

// load lays the memory beside what the nodes have, page by page.
func (e *Engine) load(nodes []*peer, m *memory, begin func(*peer) Load) error {
	pages := m.pages()
	for seq, page := range pages {
		answers := e.askEach(e.ctx, nodes, func(p *peer) Op {
			op := begin(p)
			op.Seq, op.Page, op.More = seq, page, seq < len(pages)-1
			return &op
		})
		for _, p := range nodes {
			if a := answers[p.pos]; a == nil || a.Says != SaysDone {
				return fmt.Errorf("loading %s: %w", p.node.Name(), refusalOf(a))
			}
		}
	}
	return nil
}

// commit switches nodes to what was loaded.
func (e *Engine) commit(nodes []*peer, op func(*peer) *Commit) error {
	answers := e.askEach(e.ctx, nodes, func(p *peer) Op { return op(p) })
	for _, p := range nodes {
		if a := answers[p.pos]; a == nil || a.Says != SaysDone {
			return fmt.Errorf("committing %s: %w", p.node.Name(), refusalOf(a))
		}
	}
	return nil
}

func refusalOf(a *Answer) error {
	if a == nil {
		return ErrTimeout
	}
	return errOvertaken
}

// askEach asks nodes, those that are out too, and waits until all have answered, or the node time-out has passed. The answers
// are by position; nil stands for none that counts.
func (e *Engine) askEach(ctx context.Context, nodes []*peer, op func(*peer) Op) []*Answer {
	type said struct {
		pos int
		a   *Answer
	}
	answers := make([]*Answer, len(e.peers))
	heard := make(chan said, len(nodes))
	ctx, cancel := context.WithTimeout(ctx, e.cfg.NodeTimeout)
	defer cancel()
	for _, p := range nodes {
		what := op(p)
		done := func(a *Answer) { heard <- said{p.pos, a} }
		if ForNodesOut(what) {
			p.node.Send(&Call{Header: &Header{}, Op: what, Done: func(a *Answer) {
				p.takeRecord(a)
				done(a)
			}})
			continue
		}
		p.node.Send(p.askAgain(what, 0, nil, func() bool { return ctx.Err() == nil }, done))
	}
	for range nodes {
		select {
		case <-ctx.Done():
			return answers
		case h := <-heard:
			if h.a.Err == nil {
				answers[h.pos] = h.a
			}
		}
	}
	return answers
}
