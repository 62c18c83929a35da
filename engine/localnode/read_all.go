package localnode

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/permitd/permitd/engine"
)

// readAll reads what the node remembers, for a merge; see engine.Read.
func (v *visit) readAll(op *engine.Read) {
	v.answer.Says, v.answer.Node = engine.SaysNo, v.record
	from := v.State
	switch {
	case op.RunID != v.RunID || v.record == nil || v.record.RunID != op.RunID:
		return
	case op.Token != engine.Ballot{}:
		if !v.frozenBy(op.Token, op.RunID) {
			return
		}
		if !v.record.EverOK && v.beside != nil && v.record.Pending.Complete {
			from = v.beside
		}
	}
	r := &visit{State: from, now: v.now}
	page := &engine.Page{}
	if op.Semaphore == "" {
		r.list(page, op.Cursor)
		page.FenceFloor = max(v.record.FenceFloor, from.floor)
	} else if m, ok := from.semaphores.Get(op.Semaphore); ok {
		r.semaphore = m
		page.Semaphores = []engine.SemaphoreCopy{r.copyOf(m, op.Cursor)}
		if leases := page.Semaphores[0].Leases; len(leases) >= engine.ReadMax {
			page.Next = leases[len(leases)-1].Lease
		}
	}
	v.answer.Says, v.answer.Page = engine.SaysDone, page
}

// tombstonesFrom begins the cursors that list tombstones.
const tombstonesFrom = "\xff"

// list lists semaphores by name, then tombstones by number. Names are UTF-8, so none begins as a cursor of the latter.
func (v *visit) list(page *engine.Page, cursor string) {
	if cursor == "" {
		for name, r := range v.cluster {
			page.Registers = append(page.Registers, engine.RegisterCopy{Name: name, Promise: r.promise, Ballot: r.ballot, Value: r.value})
		}
		slices.SortFunc(page.Registers, func(a, b engine.RegisterCopy) int { return cmp.Compare(a.Name, b.Name) })
	}
	if len(cursor) == 0 || cursor[:1] != tombstonesFrom {
		page.Next = tombstonesFrom + "0"
		v.semaphores.Ascend(cursor, func(name string, _ *semaphore) bool {
			switch {
			case name == cursor:
			case len(page.Names) == engine.ReadMax:
				page.Next = page.Names[len(page.Names)-1]
				return false
			default:
				page.Names = append(page.Names, name)
			}
			return true
		})
		return
	}
	from, _ := strconv.Atoi(cursor[1:])
	// Of an ok node the heap may change between two pages, but what a page skipped for that is on the other sources, or was forgotten.
	for i := from; i < len(v.forgets.items); i++ {
		if i == from+engine.ReadMax {
			page.Next = tombstonesFrom + strconv.Itoa(i)
			return
		}
		t := v.forgets.items[i]
		if v.now < t.at {
			page.Tombstones = append(page.Tombstones, engine.TombstoneCopy{
				Semaphore: t.semaphore.name, Lease: t.lease,
				Tombstone: t.told(v.now),
			})
		}
	}
}

// copyOf is a semaphore for a merge, or after a cursor a further part of it. What is over is left out.
func (v *visit) copyOf(m *semaphore, cursor string) engine.SemaphoreCopy {
	c := engine.SemaphoreCopy{Name: m.name, Further: cursor != ""}
	if cursor == "" {
		c.Promise, c.Ballot, c.Value = m.promise, m.ballot, m.value
		c.LastFence, c.LongestTTL, c.Wait = m.lastFence, micros(m.longestTTL), micros(max(0, m.waitEnd-v.now))
		for _, x := range v.coolingOf(m) {
			if x.Left > 0 {
				c.Cooling = append(c.Cooling, x)
			}
		}
		for _, p := range v.placesOf(m) {
			c.Places = append(c.Places, p.Place)
		}
	}
	m.leases.Ascend(cursor, func(id string, l *lease) bool {
		if id == cursor {
			return true
		}
		if len(c.Leases) >= engine.ReadMax {
			return false
		}
		for _, l := range append([]*lease{l}, m.twins[id]...) {
			if v.now < l.at {
				c.Leases = append(c.Leases, v.recordOf(l))
			}
		}
		return true
	})
	return c
}
