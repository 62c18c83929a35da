package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckBinding looks whether a binding can work: its fields, whether there is such a policy, and whether the module takes the
// configuration. The errors are *BindingError, ErrUnknownPolicy, ErrUnavailable and those of the store.
func (h *Host) CheckBinding(ctx context.Context, b Binding) error {
	if err := b.Validate(); err != nil {
		return err
	}
	x, err := h.index(ctx)
	if err != nil {
		return err
	}
	if x.Policies[b.Policy] == nil {
		return ErrUnknownPolicy
	}
	p := h.policy(b.Policy)
	if p == nil {
		return ErrUnavailable
	}
	v := p.acquire()
	if v == nil {
		return ErrUnavailable
	}
	defer v.release()
	i, logs, err := v.program.instantiate(b.Config)
	if err == nil {
		i.close()
		return nil
	}
	fault, _ := errors.AsType[*Fault](err)
	var detail strings.Builder
	detail.WriteString(fault.Error())
	for _, line := range logs {
		detail.WriteString("; " + line.Text)
	}
	return &BindingError{"config", detail.String()}
}

// Bind notes that a semaphore is bound to a policy, so that the policy is kept and its instances are made ahead. A binding of the
// same semaphore before it is replaced.
func (h *Host) Bind(semaphore string, b Binding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(semaphore, b)
}

// Unbind forgets the binding of a semaphore.
func (h *Host) Unbind(semaphore string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(semaphore, Binding{})
}

// note takes over a binding; the zero one is none. mu is held.
func (h *Host) note(semaphore string, b Binding) {
	if h.since != nil {
		h.since[semaphore] = b
	}
	if b == (Binding{}) {
		delete(h.bound, semaphore)
	} else {
		h.bound[semaphore] = b
	}
}

// Ready tells whether every policy that is bound here is at work; the error names one that is not.
func (h *Host) Ready() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for semaphore, b := range h.bound {
		p := h.policies[b.Policy]
		if p == nil || p.current.Load() == nil {
			return fmt.Errorf("policy %q of semaphore %q: %w", b.Policy, semaphore, ErrUnavailable)
		}
	}
	return nil
}

// configs are the configurations bound to a policy here, an instance each.
func (h *Host) configs(name string) map[string]int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	configs := map[string]int{}
	for _, b := range h.bound {
		if b.Policy == name && len(configs) < h.cfg.Slots {
			configs[b.Config] = 1
		}
	}
	return configs
}

// Rebind takes over the bindings of all semaphores as Config.Bindings reads them, and what is bound while it does.
func (h *Host) Rebind(ctx context.Context) error {
	if h.cfg.Bindings == nil {
		return nil
	}
	select {
	case h.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.reading }()
	h.mu.Lock()
	h.since = map[string]Binding{}
	h.mu.Unlock()
	all, err := h.cfg.Bindings(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.since
	h.since = nil
	if err != nil {
		return err
	}
	h.bound = all
	for semaphore, b := range since {
		h.note(semaphore, b)
	}
	return nil
}

// users are the semaphores bound to a policy, as of the last Rebind and what was bound here since.
func (h *Host) users(name string) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	users := []string{}
	for semaphore, b := range h.bound {
		if b.Policy == name {
			users = append(users, semaphore)
		}
	}
	slices.Sort(users)
	return users
}
