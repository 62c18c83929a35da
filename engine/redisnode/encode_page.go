package redisnode

import (
	"slices"
	"strconv"
	"time"

	"github.com/permitd/permitd/engine"
)

// readPage writes a call that reads a page of an ok node, or of one that is frozen by a token.
func (e *encoder) readPage(a *arguments, c *engine.Call, op *engine.Read) {
	if op.Token == (engine.Ballot{}) {
		e.node(a, op)
		e.stamp(a, c)
	} else {
		e.startScript(a, readFrozen, oneKey)
		e.nodeKey(a)
		a.ballot(op.Token)
	}
	a.text(op.RunID)
	a.text(op.Semaphore)
	a.text(op.Cursor)
}

func (e *encoder) load(a *arguments, op *engine.Load) {
	e.node(a, op)
	a.ballot(op.Token)
	a.text(op.RunID)
	p := a.next()
	p.bytes = append(strconv.AppendInt(p.bytes, int64(op.N), 10), ' ')
	p.bytes = append(strconv.AppendInt(p.bytes, int64(op.Index), 10), ' ')
	p.bytes = append(appendEras(p.bytes, op.Known), ' ')
	p.bytes = appendWord(p.bytes, op.Cluster)
	a.duration(op.Wait)
	a.number(int64(op.Seq))
	a.flag(op.More)
	a.flag(op.Page != nil)
	if op.Page != nil {
		page(a, op.Page)
	}
}

// page adds a page of memory, as load.lua takes it.
func page(a *arguments, page *engine.Page) {
	a.number(page.FenceFloor)
	a.number(int64(len(page.Registers)))
	for i := range page.Registers {
		r := &page.Registers[i]
		a.text(r.Name)
		definition(a, r.Ballot, &r.Value)
		a.ballot(r.Promise)
	}
	a.number(int64(len(page.Semaphores)))
	for i := range page.Semaphores {
		semaphoreCopy(a, &page.Semaphores[i])
	}
	a.number(int64(len(page.Tombstones)))
	for i := range page.Tombstones {
		t := &page.Tombstones[i]
		a.word(t.Lease)
		a.text(t.Semaphore)
		a.word(t.By)
		a.duration(t.Left)
		a.flag(t.AnyOwner)
		a.owner(t.Owner)
		a.word(t.Why)
		a.duration(t.Age)
	}
}

// definition adds a definition as scripts/prelude/semaphore.lua has it, nothing for none, and its data.
func definition(a *arguments, ballot engine.Ballot, v *engine.Value) {
	p := a.next()
	if ballot != (engine.Ballot{}) {
		p.bytes = appendValue(append(appendBallot(p.bytes, ballot), ' '), v)
	}
	a.text(v.Data)
}

// appendValue writes "limit hold paused deleted".
func appendValue(to []byte, v *engine.Value) []byte {
	to = append(strconv.AppendInt(to, int64(v.Limit), 10), ' ')
	to = append(strconv.AppendInt(to, v.MinHold.Microseconds(), 10), ' ')
	return appendFlag(append(appendFlag(to, v.Paused), ' '), v.Deleted)
}

func semaphoreCopy(a *arguments, c *engine.SemaphoreCopy) {
	a.text(c.Name)
	a.flag(c.Further)
	definition(a, c.Ballot, &c.Value)
	a.ballot(c.Promise)
	a.number(c.LastFence)
	a.duration(c.LongestTTL)
	a.duration(c.Wait)
	a.number(int64(len(c.Leases)))
	for i := range c.Leases {
		a.word(c.Leases[i].Lease)
		record(a, &c.Leases[i])
	}
	a.number(int64(len(c.Cooling)))
	for i := range c.Cooling {
		p := a.next()
		p.bytes = appendWord(append(append(p.bytes, c.Cooling[i].Slots.String()...), ' '), c.Cooling[i].Lease)
		a.duration(c.Cooling[i].Left)
	}
	a.number(int64(len(c.Places)))
	inLine := func(p, q engine.Place) int { return p.Order.Compare(q.Order) }
	for _, p := range slices.SortedFunc(slices.Values(c.Places), inLine) {
		a.place(p)
	}
}

// record adds a lease as scripts/prelude/lease.lua has it, but with what is left for its expiry and ages for its times.
func record(a *arguments, l *engine.Record) {
	p := a.next()
	if l.Left == engine.Never {
		p.bytes = append(p.bytes, neverWord...)
	} else {
		p.bytes = appendMicros(p.bytes, l.Left)
	}
	p.bytes = strconv.AppendInt(append(p.bytes, ' '), l.Fence, 10)
	p.bytes = strconv.AppendInt(append(p.bytes, ' '), l.Ver, 10)
	p.bytes = append(append(append(p.bytes, ' '), l.Slots.String()...), ' ')
	p.bytes = appendWord(p.bytes, l.By)
	p.bytes = append(strconv.AppendInt(append(p.bytes, ' '), l.Owner.Gen, 10), ' ')
	p.bytes = append(appendWord(p.bytes, l.Owner.Nonce), ' ')
	p.bytes = append(appendBallot(p.bytes, l.Ballot), ' ')
	p.bytes = append(appendFlag(p.bytes, l.First), " 1 "...)
	p.bytes = append(appendMicros(p.bytes, l.Age), ' ')
	p.bytes = append(appendMicros(p.bytes, l.Touched), ' ')
	p.bytes = append(p.bytes, l.Info...)
}

func appendMicros(to []byte, d time.Duration) []byte {
	return strconv.AppendInt(to, max(0, d.Microseconds()), 10)
}
