package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readBatch is how many semaphores of a node are read at once.
const readBatch = 32

// reading is what was read of one node.
type reading struct {
	memory *memory
	record *NodeRecord // as of the first page
	err    error
}

// readEach reads nodes, all at once.
func (e *Engine) readEach(nodes []*peer, begin func(*peer) Read) []reading {
	reads := make([]reading, len(nodes))
	var all sync.WaitGroup
	for i, p := range nodes {
		all.Go(func() {
			r := reader{e: e, p: p, op: begin(p), reading: reading{memory: newMemory()}}
			r.err = r.read()
			reads[i] = r.reading
		})
	}
	all.Wait()
	return reads
}

// reader reads one node.
type reader struct {
	e  *Engine
	p  *peer
	op Read
	reading
}

// read reads the lists first, then each semaphore.
func (r *reader) read() error {
	names := map[string]struct{}{}
	for next := []Read{r.op}; len(next) > 0; {
		pages, err := r.ask(next)
		if err != nil {
			return err
		}
		for _, name := range pages[0].Names {
			names[name] = struct{}{}
		}
		r.memory.take(pages[0])
		next[0].Cursor = pages[0].Next
		if next[0].Cursor == "" {
			break
		}
	}
	var next []Read
	for name := range names {
		op := r.op
		op.Semaphore = name
		next = append(next, op)
	}
	for len(next) > 0 {
		batch := next[:min(len(next), readBatch)]
		pages, err := r.ask(batch)
		if err != nil {
			return err
		}
		rest := next[len(batch):]
		for i, page := range pages {
			r.memory.take(page)
			if page.Next != "" {
				again := batch[i]
				again.Cursor = page.Next
				rest = append(rest, again)
			}
		}
		next = rest
	}
	return nil
}

// ask asks for pages, in one pipeline.
func (r *reader) ask(ops []Read) ([]*Page, error) {
	type said struct {
		i int
		a *Answer
	}
	ctx, cancel := context.WithTimeout(r.e.ctx, r.e.cfg.NodeTimeout)
	defer cancel()
	heard := make(chan said, len(ops))
	calls := make([]*Call, len(ops))
	for i := range ops {
		op := ops[i]
		done := func(a *Answer) { heard <- said{i, a} }
		if ForNodesOut(&op) {
			calls[i] = &Call{Header: &Header{}, Op: &op, Done: done}
		} else {
			calls[i] = r.p.askAgain(&op, 0, nil, func() bool { return ctx.Err() == nil }, done)
		}
	}
	r.p.node.Send(calls...)
	pages := make([]*Page, len(ops))
	for range ops {
		select {
		case <-ctx.Done():
			return nil, ErrTimeout
		case h := <-heard:
			switch {
			case h.a.Err != nil:
				return nil, h.a.Err
			case h.a.Says != SaysDone || h.a.Node == nil || h.a.Page == nil:
				return nil, fmt.Errorf("it says %s: %w", h.a.Says, errOvertaken)
			case r.record == nil:
				r.record = h.a.Node
				r.memory.wait = max(0, time.Duration(h.a.Node.WaitEnd-h.a.Time)*time.Microsecond)
			case r.record.term() != h.a.Node.term():
				return nil, errMoving // what it said before came out of another memory
			}
			pages[h.i] = h.a.Page
		}
	}
	return pages, nil
}
