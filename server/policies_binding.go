package server

import (
	"cmp"
	"context"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

// bindingJSON ties a semaphore to a policy, as clients read and write it.
type bindingJSON struct {
	Name      string `json:"name"`
	Config    string `json:"config,omitempty"`
	OnFault   string `json:"on_fault" enums:"deny,allow_requested,unavailable"`
	Timeout   string `json:"timeout"`
	Isolation string `json:"isolation" enums:"pooled,fresh"`
	Mode      string `json:"mode" enums:"enforce,shadow"`
}

func bindingJSONOf(b engine.Binding) *bindingJSON {
	if b == (engine.Binding{}) {
		return nil
	}
	return &bindingJSON{
		Name: b.Policy, Config: b.Config, OnFault: b.OnFault, Timeout: formatDuration(b.Timeout), Isolation: b.Isolation, Mode: b.Mode,
	}
}

// bindingOf is a binding as the host of policies has it.
func bindingOf(b engine.Binding) policies.Binding {
	return policies.Binding{
		Policy: b.Policy, Config: b.Config, OnFault: policies.OnFault(b.OnFault), Timeout: b.Timeout,
		Isolation: policies.Isolation(b.Isolation), Mode: policies.Mode(b.Mode),
	}
}

// PolicyBindings are the bindings of all semaphores, for the host of policies.
func PolicyBindings(e *engine.Engine) func(context.Context) (map[string]policies.Binding, error) {
	return func(ctx context.Context) (map[string]policies.Binding, error) {
		bound, err := e.Bindings(ctx)
		if err != nil {
			return nil, err
		}
		all := make(map[string]policies.Binding, len(bound))
		for semaphore, b := range bound {
			all[semaphore] = bindingOf(b)
		}
		return all, nil
	}
}

// binding takes the policy of a definition: an object, or its name alone. In a merge patch what is not named stays as it is in b,
// and null ends the binding.
func (p *params) binding(b engine.Binding) engine.Binding {
	v := p.find("policy")
	switch {
	case v == nil:
		return b
	case v.null():
		v.taken = true
		return engine.Binding{}
	case !v.json || v.text[0] != '{':
		return filledBinding(engine.Binding{Policy: p.text("policy", policies.NameMax)})
	}
	v.taken = true
	o := &params{prefix: p.prefix + "policy.", nulls: p.nulls}
	o.addJSON(v.text)
	text := func(name, now string, most int) string {
		if !o.given(name) {
			return now
		}
		return o.text(name, most)
	}
	b.Policy = text("name", b.Policy, policies.NameMax)
	b.Config = text("config", b.Config, policies.ConfigMax)
	b.OnFault = text("on_fault", b.OnFault, wordMax)
	b.Isolation = text("isolation", b.Isolation, wordMax)
	b.Mode = text("mode", b.Mode, wordMax)
	b.Timeout = o.span("timeout", b.Timeout)
	if b.Policy == "" {
		o.refuse("name", "%sname is missing", o.prefix)
	}
	if err := o.end(); err != nil && p.err == nil {
		p.err = err
	}
	return filledBinding(b)
}

// wordMax is more than the bytes of any word of a choice.
const wordMax = 32

// filledBinding is a binding with its defaults.
func filledBinding(b engine.Binding) engine.Binding {
	b.OnFault = cmp.Or(b.OnFault, string(policies.OnFaultDeny))
	b.Timeout = cmp.Or(b.Timeout, policies.TimeoutUsual)
	b.Isolation = cmp.Or(b.Isolation, string(policies.IsolationPooled))
	b.Mode = cmp.Or(b.Mode, string(policies.ModeEnforce))
	return b
}

// checkBinding refuses a binding that can not work. One that was in force before may stay, whatever has become of its policy.
func (s *Server) checkBinding(ctx context.Context, b, before engine.Binding) error {
	switch {
	case b == engine.Binding{} || b == before:
		return nil
	case s.policies == nil:
		return newProblem(kindUnknownPolicy, "%s", errNoPolicies.Error())
	}
	err := s.policies.CheckBinding(ctx, bindingOf(b))
	if err == policies.ErrUnknownPolicy {
		return newProblem(kindUnknownPolicy, "there is no policy %q", b.Policy)
	}
	return problemOfPolicy(err)
}

// bound tells the host of policies what a semaphore is bound to now.
func (s *Server) bound(sem *engine.Semaphore) {
	switch b := sem.Definition.Policy; {
	case s.policies == nil:
	case b == engine.Binding{}:
		s.policies.Unbind(sem.Name)
	default:
		s.policies.Bind(sem.Name, bindingOf(b))
	}
}

// policyVersionJSON is a policy as it was when it weighed a request.
type policyVersionJSON struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}
