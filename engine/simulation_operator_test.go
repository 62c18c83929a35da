package engine_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
)

// operator changes definitions, one thing after the other, while another operator does the same.
type operator struct {
	w    *world
	dice dice
}

func (o *operator) live() {
	for o.w.sleep(o.dice.upTo(2*time.Second)) && !o.w.calming.Load() {
		s := pick(o.dice, o.w.plan.semaphores...)
		e := o.w.someEngine(o.dice)
		if e == nil {
			continue
		}
		switch d := o.dice; {
		case d.chance(s.unsteady):
			def := s.def
			def.Limit = 1 + d.IntN(5)
			o.put(e, s.name, def)
		case d.chance(s.paused):
			def := s.def
			def.Paused = true
			o.put(e, s.name, def)
			if o.w.sleep(d.upTo(3 * time.Second)) {
				o.put(e, s.name, s.def)
			}
		case d.chance(s.deleted):
			o.remove(e, s.name)
			if o.w.sleep(d.upTo(time.Second)) && d.chance(0.7) {
				o.put(e, s.name, s.def)
			}
		case d.chance(0.3):
			o.look(e, s.name)
		}
	}
}

func (o *operator) put(e *engine.Engine, name string, def engine.Definition) {
	o.w.called("Put", func(ctx context.Context) {
		asked := o.w.now()
		_, _, err := e.Put(ctx, name, def, engine.Condition{}, "operator")
		o.expect("Put", e, err, asked)
	})
}

func (o *operator) remove(e *engine.Engine, name string) {
	o.w.called("Delete", func(ctx context.Context) {
		asked := o.w.now()
		err := e.Delete(ctx, name, engine.Condition{}, "operator")
		o.expect("Delete", e, err, asked, engine.ErrSemaphoreInUse, engine.ErrUnknownSemaphore)
	})
}

// look reads the status: its numbers must agree with each other.
func (o *operator) look(e *engine.Engine, name string) {
	o.w.called("Semaphore", func(ctx context.Context) {
		asked := o.w.now()
		s, err := e.Semaphore(ctx, name)
		o.expect("Semaphore", e, err, asked, engine.ErrUnknownSemaphore)
		st := s.Status
		if err == nil && (s.Definition.Limit != st.InUse+st.Cooling+st.Available-st.OverCommitted || st.Available < 0 || st.OverCommitted < 0) {
			o.w.check(fmt.Errorf("the status of %s, limit %d, is %+v", name, s.Definition.Limit, st))
		}
	})
}

// expect makes every other error a violation, but for those of nodes that are away.
func (o *operator) expect(what string, e *engine.Engine, err error, asked time.Duration, may ...error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for _, m := range may {
		if errors.Is(err, m) {
			return
		}
	}
	if err != nil && !o.w.mayBeAway(e, err, asked) {
		o.w.violatedf("%s: %w", what, err)
	}
}
