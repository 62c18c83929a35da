package policies

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// version is a program at work under a policy's name. It lives as long as somebody holds a reference: the policy while it is the
// current one, and each call. The last to let go closes the runtime.
type version struct {
	generation int64
	report     Report
	program    *program
	pool       *pool
	breaker    breaker
	shadow     breaker // of calls in shadow, which must not keep others from being asked
	meter      *meter
	refs       atomic.Int64
	spawn      func(func()) // the host's: it waits for what runs there
}

// newVersion has one reference, its maker's.
func newVersion(p *program, r Report, generation int64, slots int, m *meter, spawn func(func())) *version {
	v := &version{
		generation: generation, report: r, program: p, pool: newPool(p, slots, m), meter: m, spawn: spawn,
	}
	v.refs.Store(1)
	m.runtimes.Add(1)
	return v
}

// retain takes a reference, unless the last is gone.
func (v *version) retain() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (v *version) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	v.pool.close()
	v.program.close()
	v.meter.runtimes.Add(-1)
}

// decide evaluates a request for a binding. The error is the request's own end.
func (v *version) decide(ctx context.Context, b *Binding, r *Request) (Decision, error) {
	breaker := &v.breaker
	if b.Mode == ModeShadow {
		breaker = &v.shadow
	}
	allowed, probe := breaker.allow(time.Now())
	if !allowed {
		return v.failed(&Fault{FaultBreakerOpen, ""}, b, r), nil
	}
	if err := v.pool.enter(ctx); err != nil {
		if probe {
			breaker.skipped()
		}
		if fault, ok := errors.AsType[*Fault](err); ok {
			return v.failed(fault, b, r), nil
		}
		return Decision{}, err
	}
	defer v.pool.leave()
	d := v.ask(b, r)
	breaker.ended(time.Now(), d.Fault != nil, probe)
	v.meter.evaluated(d.Outcome, d.Elapsed)
	return d, nil
}

// ask evaluates in an instance. One that turns out to have been closed by the deadline of a call before, which had answered
// already, is replaced once.
func (v *version) ask(b *Binding, r *Request) Decision {
	fresh := b.Isolation == IsolationFresh
	for retried := false; ; retried = true {
		i, err := v.pool.take(b.Config, fresh)
		if err != nil {
			fault, _ := errors.AsType[*Fault](err)
			return v.failed(fault, b, r)
		}
		began := time.Now()
		answer, fault, late := i.run(r, b.timeout())
		took := time.Since(began)
		d, logs := i.call.answered(answer), i.call.said.logs // before somebody else has the instance
		i.settle(took)
		v.after(i, fault, late, fresh)
		if late && !retried {
			continue
		}
		if fault != nil {
			d = v.failed(fault, b, r)
			d.Logs = logs
		}
		d.Elapsed = took
		return d
	}
}

// after gives an instance back, or throws it away.
func (v *version) after(i *instance, fault *Fault, late, fresh bool) {
	switch {
	case late:
		v.pool.discard(i, discardClosed)
	case fault != nil:
		v.pool.discard(i, discardFault)
	case fresh:
		v.pool.discard(i, discardFresh)
	default:
		v.pool.put(i)
	}
	if fresh {
		v.prepare(i.config)
	}
}

// prepare makes an instance ahead for the next call that wants a fresh one. A failure shows in that call.
func (v *version) prepare(config string) {
	v.spawn(func() {
		if v.retain() {
			defer v.release()
			_ = v.pool.prepare(config)
		}
	})
}

func (v *version) failed(fault *Fault, b *Binding, r *Request) Decision {
	v.meter.faulted(fault.Kind)
	return faulted(fault, b.OnFault, r)
}

// warm makes as many instances as a predecessor had, up to the number of slots a configuration.
func (v *version) warm(counts map[string]int) error {
	var err error
	for config, n := range counts {
		for range min(n, cap(v.pool.slots)) {
			if e := v.pool.prepare(config); e != nil {
				err = e
				break // the others may still start
			}
		}
	}
	return err
}
