package policies

import (
	"context"
	"time"
)

// Evaluate asks the policy of a binding about a request. The errors are ErrUnavailable where this replica does not have the
// policy, an *AttributeError, and the request's own end; whatever a module does comes as a Decision.
func (h *Host) Evaluate(ctx context.Context, b *Binding, r *Request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	if err := CheckAttributes(r.Attributes); err != nil {
		return Decision{}, err
	}
	p := h.policy(b.Policy)
	if p == nil {
		return Decision{}, ErrUnavailable
	}
	v := p.acquire()
	if v == nil {
		return Decision{}, ErrUnavailable
	}
	defer v.release()
	d, err := v.decide(ctx, b, r)
	if err != nil {
		return Decision{}, err
	}
	d.Policy, d.Generation, d.SHA256 = p.name, v.generation, v.report.SHA256
	if b.Mode == ModeShadow {
		d = p.meter.shadowed(d, r)
	}
	return d, nil
}

// DryRun evaluates a request in an instance of its own: neither metrics nor the breaker hear of it.
func (h *Host) DryRun(ctx context.Context, name, config string, r *Request) (Decision, error) {
	if err := CheckAttributes(r.Attributes); err != nil {
		return Decision{}, err
	}
	p := h.policy(name)
	if p == nil {
		return Decision{}, ErrUnknownPolicy
	}
	v := p.acquire()
	if v == nil {
		return Decision{}, ErrUnavailable
	}
	defer v.release()
	select {
	case h.tries <- struct{}{}:
	case <-ctx.Done():
		return Decision{}, ctx.Err()
	}
	defer func() { <-h.tries }()
	d := v.program.dryRun(config, r)
	d.Policy, d.Generation, d.SHA256 = name, v.generation, v.report.SHA256
	return d, nil
}

// quickMax is what an evaluation takes that is not worth a goroutine of its own.
const quickMax = 20 * time.Microsecond

// Quick reports whether the policy of a binding has answered its trial so fast that whoever asks need not do so in the background.
func (h *Host) Quick(b *Binding) bool {
	p := h.policy(b.Policy)
	if p == nil || b.Isolation == IsolationFresh {
		return false
	}
	v := p.current.Load()
	return v != nil && time.Duration(v.report.EvaluateNS) <= quickMax
}
