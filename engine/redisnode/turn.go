package redisnode

import (
	"time"

	"github.com/permitd/permitd/engine"
)

// turnsMax is how many operations one script executes in turn: the server does nothing else meanwhile.
const turnsMax = 16

// apart is how long no operations are executed in turn after a script was refused since the server's memory is used up.
const apart = 10 * time.Second

// turn says which semaphore and which lease ("" for none) an operation is about that can be executed in turn with others, and how much
// of a script that takes: the script of the one with the largest rank has those with smaller ones too.
func turn(op engine.Op) (semaphore, lease string, rank int) {
	switch op := op.(type) {
	case *engine.Claim:
		return op.Semaphore, op.Lease, 3
	case *engine.Release:
		return op.Semaphore, op.Lease, 2
	case *engine.Line:
		return op.Semaphore, "", 1
	}
	return "", "", 0
}

// inTurn returns how many of the first calls one script executes: those that follow one another on one semaphore. Where memory is used
// up a script with a claim is refused, so releases go by themselves then.
func (l *lane) inTurn(calls []waiting) int {
	first := calls[0].call
	semaphore, _, rank := turn(first.Op)
	if rank == 0 || time.Since(l.full) < apart {
		return 1
	}
	n := 1
	for n < min(len(calls), turnsMax) {
		next := calls[n].call
		if other, _, rank := turn(next.Op); rank == 0 || other != semaphore || next.Header != first.Header {
			break
		}
		n++
	}
	return n
}

// turns writes calls that are executed in turn.
func (e *encoder) turns(a *arguments, calls []*engine.Call) {
	first, script, most := calls[0], calls[0].Op, 0
	for _, c := range calls {
		if _, _, rank := turn(c.Op); rank > most {
			script, most = c.Op, rank
		}
	}
	semaphore, lease, _ := turn(first.Op)
	e.start(a, script, sevenKeys)
	e.leaseKeys(a, first.Header, semaphore)
	a.text(e.head)
	if len(calls) > 1 {
		a.number(0)
	} else {
		a.number(first.At)
	}
	a.word(lease)
	for _, c := range calls {
		_, lease, _ := turn(c.Op)
		a.text(engine.OpName(c.Op))
		a.number(c.At)
		a.word(lease)
		var p engine.Placement
		if c.Fill != nil {
			p = c.Fill()
		}
		switch op := c.Op.(type) {
		case *engine.Claim:
			a.claim(op, p)
		case *engine.Release:
			a.release(op, p)
		case *engine.Line:
			a.line(op, p)
		}
	}
}
