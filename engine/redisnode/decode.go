package redisnode

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/permitd/permitd/engine"
)

// decode makes an answer of what the script of op replied; the headers of the scripts say what that is.
func decode(op engine.Op, value any) (*engine.Answer, error) {
	r, err := newReply(value)
	if err != nil {
		return nil, err
	}
	f := &r.head
	a := &engine.Answer{Says: engine.Says(f.next()), Time: f.number()}
	switch a.Says {
	case engine.SaysOut:
		a.State = f.next()
		a.Reason = f.remainder()
	case engine.SaysStale:
		a.Known = f.eras()
	case engine.SaysLate:
	default:
		a.More = f.flag()
		r.decode(a, op)
	}
	if f.end() != nil {
		return nil, fmt.Errorf("%w: %w", errReply, f.err)
	}
	return a, nil
}

// decode reads what is left of the answer to an operation that was executed.
func (r *reply) decode(a *engine.Answer, op engine.Op) {
	f := &r.head
	switch op := op.(type) {
	case *engine.Claim:
		f.lease(a)
		f.line(a)
		a.BeforeIs, a.NextEnd, a.Beyond = f.order(), f.duration(), f.slots()
	case *engine.Mend, *engine.Renew, *engine.Attach:
		f.lease(a)
	case *engine.Release:
		f.lease(a)
		f.line(a)
	case *engine.Line:
		f.line(a)
		a.Free = f.int()
	case *engine.Find:
		r.find(a, op.Lease)
	case *engine.View:
		r.view(a)
	case *engine.GetBlob:
		if a.Says == engine.SaysDone {
			pieces := fields{rest: r.take()}
			a.Pieces, a.Data = pieces.int(), r.take()
			r.note(pieces.end())
		}
	case *engine.Names, *engine.Blobs:
		if len(r.rest) > 0 {
			a.Names = r.rest
		}
	case *engine.Prepare, *engine.Accept, *engine.Peek:
		r.register(a)
	case *engine.Drop:
		if a.Says == engine.SaysNo {
			r.register(a)
		}
	case *engine.Read:
		if a.Says == engine.SaysDone {
			r.page(a, op)
			return
		}
		r.nodeRecord(a)
	case *engine.Freeze, *engine.Load, *engine.Commit, *engine.Mark, *engine.Suspend, *engine.Note:
		r.nodeRecord(a)
	}
}

// nodeRecord reads the record that is all the rest of an answer.
func (r *reply) nodeRecord(a *engine.Answer) {
	var err error
	if a.Node, err = parseRecord(r.rest); err != nil {
		r.note(err)
	}
}

// lease reads "<slots> <fence> <ver> <expiry> <ballot> <free>".
func (f *fields) lease(a *engine.Answer) {
	a.Slots, a.Fence, a.Ver, a.Left = f.slots(), f.number(), f.number(), f.left(a.Time)
	a.Definition, a.Free = f.ballot(), f.int()
}

// line reads "<place> <elsewhere> <before>".
func (f *fields) line(a *engine.Answer) {
	a.Place, a.Elsewhere, a.Before = f.order(), f.int(), f.int()
}

// record reads a lease as scripts/prelude/lease.lua has it.
func (r *reply) record(lease, text string, now int64) engine.Record {
	f := fields{rest: text}
	l := engine.Record{Left: f.left(now), Fence: f.number(), Ver: f.number(), Slots: f.slots(), By: f.text(), Owner: f.owner()}
	l.Ballot, l.First, l.Copy = f.ballot(), f.flag(), f.flag()
	l.Age, l.Touched = since(now, f.number()), since(now, f.number())
	l.Lease, l.Info = lease, f.remainder()
	r.note(f.end())
	return l
}

func (r *reply) find(a *engine.Answer, lease string) {
	further := r.head.int()
	if text := r.take(); text != "" {
		l := r.record(lease, text, a.Time)
		a.Record = &l
	}
	for i := 0; i < further && r.head.err == nil; i++ {
		a.Twins = append(a.Twins, r.record(lease, r.take(), a.Time))
	}
	for len(r.rest) > 0 {
		f := fields{rest: r.take()}
		t := f.tombstone(a.Time)
		a.Tombstones = append(a.Tombstones, t)
		r.note(f.end())
	}
	slices.SortFunc(a.Tombstones, func(s, t engine.Tombstone) int { return cmp.Compare(s.By, t.By) })
}

func (r *reply) view(a *engine.Answer) {
	f := &r.head
	v := &engine.ViewPage{LastFence: f.number(), LongestTTL: f.duration(), Wait: f.left(a.Time)}
	a.View = v
	cooling, places := f.int(), f.int()
	v.Next = r.take()
	v.Definition, v.Value = r.value()
	for i := 0; i < cooling && f.err == nil; i++ {
		c := fields{rest: r.take()}
		over := fields{rest: r.take()}
		v.Cooling = append(v.Cooling, engine.Cooling{Slots: c.slots(), Lease: c.text(), Left: over.left(a.Time)})
		r.note(cmp.Or(c.end(), over.end()))
	}
	for i := 0; i < places && f.err == nil; i++ {
		v.Places = append(v.Places, r.place(a.Time))
	}
	for len(r.rest) > 1 {
		id := fields{rest: r.take()}
		v.Leases = append(v.Leases, r.record(id.text(), r.take(), a.Time))
		r.note(id.end())
	}
	slices.SortFunc(v.Leases, func(l, m engine.Record) int { return cmp.Or(cmp.Compare(l.Lease, m.Lease), cmp.Compare(l.By, m.By)) })
	slices.SortFunc(v.Cooling, func(c, d engine.Cooling) int {
		return cmp.Or(cmp.Compare(c.Left, d.Left), cmp.Compare(c.Lease, d.Lease), cmp.Compare(c.Slots.First(), d.Slots.First()))
	})
}

// place reads a place as scripts/prelude/line.lua has it.
func (r *reply) place(now int64) engine.Placed {
	f := fields{rest: r.take()}
	p := engine.Placed{Place: engine.Place{Order: f.order(), Weight: f.int(), Count: f.int(), Total: f.int(), Oldest: since(now, f.number())}}
	f.next() // when it was stated
	passed := f.number()
	p.Passed = passed != 0 && now >= passed
	r.note(f.end())
	return p
}

// register reads the answer to an operation on a register.
func (r *reply) register(a *engine.Answer) {
	switch a.Says {
	case engine.SaysNo:
		promise := fields{rest: r.take()}
		a.Promise = promise.ballot()
		r.note(promise.end())
	case engine.SaysPromised, engine.SaysDone:
		a.Definition, a.Value = r.value()
	}
}

// value reads a definition as scripts/prelude/semaphore.lua has it, and its data.
func (r *reply) value() (engine.Ballot, engine.Value) {
	definition, data := r.take(), r.take()
	if definition == "" {
		return engine.Ballot{}, engine.Value{} // there is none
	}
	f := fields{rest: definition}
	ballot := f.ballot()
	value := engine.Value{Limit: f.int(), MinHold: f.duration(), Paused: f.flag(), Deleted: f.flag(), Data: data}
	r.note(f.end())
	return ballot, value
}
