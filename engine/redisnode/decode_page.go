package redisnode

import (
	"strings"

	"github.com/permitd/permitd/engine"
)

// page reads the answer to a read, as scripts/prelude/page.lua writes it. What is over is left out.
func (r *reply) page(a *engine.Answer, op *engine.Read) {
	f := &r.head
	n := f.int()
	if n < 0 || n > len(r.rest) {
		f.fail("number of fields", "more")
		return
	}
	var err error
	if a.Node, err = parseRecord(r.rest[:n]); err != nil {
		r.note(err)
	}
	r.rest = r.rest[n:]
	a.Page = &engine.Page{}
	if op.Semaphore == "" {
		r.lists(a)
		return
	}
	a.Page.Semaphores = []engine.SemaphoreCopy{r.semaphoreCopy(a, op)}
	if c := &a.Page.Semaphores[0]; !c.Further && emptyCopy(c) {
		a.Page.Semaphores = nil // there is no such semaphore any more
	}
}

func emptyCopy(c *engine.SemaphoreCopy) bool {
	return c.Promise == (engine.Ballot{}) && c.Ballot == (engine.Ballot{}) && c.LastFence == 0 && c.LongestTTL == 0 && c.Wait == 0 &&
		len(c.Leases) == 0 && len(c.Cooling) == 0 && len(c.Places) == 0
}

// lists reads names, registers and tombstones.
func (r *reply) lists(a *engine.Answer) {
	f, p := &r.head, a.Page
	names, registers := f.int(), f.int()
	p.FenceFloor, p.Next = f.number(), r.take()
	for i := 0; i < names && f.err == nil; i++ {
		p.Names = append(p.Names, r.take())
	}
	for i := 0; i < registers && f.err == nil; i++ {
		c := engine.RegisterCopy{Name: r.take()}
		c.Ballot, c.Value = r.value()
		c.Promise = r.promise()
		p.Registers = append(p.Registers, c)
	}
	for len(r.rest) > 1 {
		lease, semaphore, _ := strings.Cut(r.take(), " ")
		id := fields{rest: lease}
		t := engine.TombstoneCopy{Semaphore: semaphore, Lease: id.text()}
		r.note(id.end())
		for text := range strings.SplitSeq(r.take(), ",") {
			f := fields{rest: text}
			t.Tombstone = f.tombstone(a.Time)
			if r.note(f.end()); t.Left > 0 {
				p.Tombstones = append(p.Tombstones, t)
			}
		}
	}
}

// tombstone reads one as scripts/prelude/tombstones.lua has it.
func (f *fields) tombstone(now int64) engine.Tombstone {
	return engine.Tombstone{By: f.text(), Left: f.left(now), AnyOwner: f.flag(), Owner: f.owner(), Why: f.text(), Age: since(now, f.number())}
}

// promise reads one; an empty text is none.
func (r *reply) promise() (b engine.Ballot) {
	if text := r.take(); text != "" {
		f := fields{rest: text}
		b = f.ballot()
		r.note(f.end())
	}
	return b
}

// semaphoreCopy reads a semaphore, or a further part of it.
func (r *reply) semaphoreCopy(a *engine.Answer, op *engine.Read) engine.SemaphoreCopy {
	f := &r.head
	c := engine.SemaphoreCopy{Name: op.Semaphore, Further: op.Cursor != ""}
	c.LastFence, c.LongestTTL, c.Wait = f.number(), f.duration(), f.duration()
	cooling, places := f.int(), f.int()
	a.Page.Next = r.take()
	if !c.Further {
		c.Ballot, c.Value = r.value()
		c.Promise = r.promise()
	}
	for i := 0; i < cooling && f.err == nil; i++ {
		x, over := fields{rest: r.take()}, fields{rest: r.take()}
		cool := engine.Cooling{Slots: x.slots(), Lease: x.text(), Left: over.left(a.Time)}
		r.note(x.end())
		r.note(over.end())
		if cool.Left > 0 {
			c.Cooling = append(c.Cooling, cool)
		}
	}
	for i := 0; i < places && f.err == nil; i++ {
		c.Places = append(c.Places, r.place(a.Time).Place)
	}
	for len(r.rest) > 1 {
		id := fields{rest: r.take()}
		l := r.record(id.text(), r.take(), a.Time)
		if r.note(id.end()); l.Left > 0 {
			c.Leases = append(c.Leases, l)
		}
	}
	return c
}
