package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// registerRounds bounds the tries of one change of a register; each loses only to another writer who got further.
const registerRounds = 30

// register is a CASPaxos register with the nodes as acceptors (Rystsov, "CASPaxos: Replicated State Machines
// without logs"): linearizable as long as a quorum answers.
type register struct {
	e          *Engine
	kind, name string
}

// read returns the chosen value. A value that only some nodes have accepted is completed first.
func (r register) read(ctx context.Context) (Value, Ballot, error) {
	answers := r.e.gather(ctx, func(*peer) Op { return &Peek{Kind: r.kind, Name: r.name} }, func(answers []*Answer) bool {
		_, ok := chosen(answers)
		return ok
	})
	if a, ok := chosen(answers); ok {
		return a.Value, a.Definition, nil
	}
	if answered(answers) < r.e.quorum {
		return Value{}, Ballot{}, ErrQuorumUnavailable
	}
	return r.change(ctx, largestAccepted(answers), func(v Value) (Value, error) { return v, nil })
}

// largestAccepted is the largest ballot under which one of those who answered has accepted a value.
func largestAccepted(answers []*Answer) (largest Ballot) {
	for _, a := range answers {
		if a != nil && largest.Less(a.Definition) {
			largest = a.Definition
		}
	}
	return largest
}

// chosen finds Q answers that name one ballot: its value was chosen.
func chosen(answers []*Answer) (*Answer, bool) {
	for i, a := range answers {
		if a == nil {
			continue
		}
		alike := 0
		for _, b := range answers[i:] {
			if b != nil && b.Definition == a.Definition {
				alike++
			}
		}
		if alike >= quorum.Size(len(answers)) {
			return a, true
		}
	}
	return nil, false
}

// change writes what next makes of the chosen value. seen is a ballot that is in use: a smaller one would lose. An error of
// next ends it and nothing is written, except that a half-done write of somebody else may be completed. next may be called several
// times; it has to recognise a value of its own that an earlier try has written.
func (r register) change(ctx context.Context, seen Ballot, next func(Value) (Value, error)) (Value, Ballot, error) {
	ballot := Ballot{Counter: seen.Counter + 1, Replica: r.e.replica}
	if seen == (Ballot{}) {
		ballot.Counter = r.e.latestTime(r.e.cfg.Now()) // what was sent before a register of this name was dropped is below it
	}
	for range registerRounds {
		if ctx.Err() != nil {
			return Value{}, Ballot{}, ctx.Err()
		}
		v, written, larger, err := r.try(ctx, ballot, next)
		if err != nil || written {
			return v, ballot, err
		}
		ballot.Counter = larger.Counter + 1
		if err := pause(ctx, time.Millisecond+random(4*time.Millisecond)); err != nil {
			return Value{}, Ballot{}, err
		}
	}
	return Value{}, Ballot{}, fmt.Errorf("%w: the register %s %q is contended", ErrQuorumUnavailable, r.kind, r.name)
}

// try is one round under one ballot. Not written and no error: somebody has the larger ballot, or an accept is not known to
// have reached a quorum.
func (r register) try(ctx context.Context, ballot Ballot, next func(Value) (Value, error)) (v Value, written bool, larger Ballot, err error) {
	says := func(want Says) func(*Answer) bool { return func(a *Answer) bool { return a.Says == want } }
	answers := r.e.gather(ctx, func(*peer) Op { return &Prepare{Kind: r.kind, Name: r.name, Ballot: ballot} }, r.e.quorumOf(says(SaysPromised)))
	promised, latest, larger := 0, (*Answer)(nil), ballot
	for _, a := range answers {
		switch {
		case a == nil:
		case a.Says == SaysPromised:
			promised++
			if latest == nil || latest.Definition.Less(a.Definition) {
				latest = a
			}
		case larger.Less(a.Promise):
			larger = a.Promise
		}
	}
	if promised < r.e.quorum {
		if answered(answers) < r.e.quorum {
			return Value{}, false, larger, ErrQuorumUnavailable
		}
		return Value{}, false, larger, nil
	}
	v, refused := next(latest.Value)
	switch alone := r.kind == RegisterSemaphore && latest.Definition == (Ballot{}); {
	case alone && (refused != nil || v == Value{}):
		// Somebody has taken it off the nodes meanwhile. Nobody finds a promise that is all they have; a tombstone is swept.
		v = Value{Deleted: true}
	case refused != nil:
		return latest.Value, false, larger, refused
	}
	promises := answers
	accept := &Accept{Kind: r.kind, Name: r.name, Ballot: ballot, Value: v}
	answers = r.e.gather(ctx, func(*peer) Op { return accept }, r.e.quorumOf(says(SaysAccepted)))
	for _, a := range answers {
		if a != nil && larger.Less(a.Promise) {
			larger = a.Promise
		}
	}
	// Promises of an era that is over are none: their nodes may have forgotten them, though not for good.
	r.e.current(promises)
	written = r.e.quorumOf(says(SaysPromised))(promises) && r.e.quorumOf(says(SaysAccepted))(answers)
	return v, written && refused == nil, larger, refused
}

// pause sleeps, or returns the context's error when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// learnSecret reads the cluster secret, or makes it. It is called by the steering when a quorum votes.
func (e *Engine) learnSecret() {
	e.mu.Lock()
	known, ours := e.secret != nil && !e.secretLost, string(e.secret)
	e.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, 10*e.cfg.NodeTimeout)
	defer cancel()
	r := register{e, RegisterCluster, "secret"}
	v, ballot, err := r.read(ctx)
	if err == nil && v.Data == "" {
		v, _, err = r.change(ctx, ballot, func(v Value) (Value, error) {
			if v.Data == "" {
				v.Data = cmp.Or(ours, newID()+newID()) // 160 random bits
			}
			return v, nil
		})
	}
	if err != nil {
		e.cfg.Log.Warn("the cluster secret can not be read yet", "error", err)
		return // the next probe, at most a second away, tries again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secret, e.secretLost = []byte(v.Data), false
	e.secretNow.Store(&secret{key: e.secret})
	e.changedLocked()
}
