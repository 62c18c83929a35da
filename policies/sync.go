package policies

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sync brings this replica to what the index says: it loads what is new, keeps the old version of a policy until the new one is
// warm, and lets go what is deleted. Call it at the start, when a change is announced, and now and then, since it also ends
// instances that have been idle for too long. The error joins what could not be loaded; the rest works.
func (h *Host) Sync(ctx context.Context) error {
	x, err := h.index(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range x.Policies {
		names[name] = true
	}
	h.mu.RLock()
	for name := range h.policies {
		names[name] = true
	}
	h.mu.RUnlock()
	for name := range names {
		if e := h.refresh(ctx, name); e != nil {
			err = errors.Join(err, fmt.Errorf("policy %q: %w", name, e))
		}
	}
	h.trim()
	return errors.Join(err, h.sweep(ctx))
}

// refresh brings one policy to what the index says once nobody else loads it.
func (h *Host) refresh(ctx context.Context, name string) error {
	of, err := h.lock(name)
	if err != nil {
		return err
	}
	defer of.mu.Unlock()
	x, err := h.index(ctx)
	if err != nil {
		h.forgetEmpty(of)
		return err
	}
	e := x.Policies[name]
	if e == nil {
		h.forget(of)
		return nil
	}
	if of.generation() >= e.Rev {
		return nil
	}
	if err := of.tooSoon(e.Rev); err != nil {
		return err
	}
	of.setHere(HereCompiling, nil)
	if err := h.load(ctx, of, e); err != nil {
		of.failed(e.Rev, err)
		return err
	}
	return nil
}

// load loads the version in force. The caller holds the policy's mu.
func (h *Host) load(ctx context.Context, of *policy, e *entry) error {
	wasm, err := h.read(ctx, e.Versions[0].SHA256)
	if err != nil {
		return err
	}
	p, report, err := h.workshop.build(ctx, wasm)
	if err != nil {
		return err
	}
	of.meter.compiled(time.Duration(report.CompileMS) * time.Millisecond)
	v := newVersion(p, report, 0, h.cfg.Slots, &of.meter, h.spawn)
	if err := of.warm(v, h.configs(of.name)); err != nil { // a binding that is about to change, maybe: the rest must not wait for it
		h.cfg.Log.Warn("a policy does not take the configuration of a semaphore", "policy", of.name, "error", err)
	}
	h.install(of, v, e.Rev)
	return nil
}

// forget lets go a policy that is deleted. The caller holds its mu.
func (h *Host) forget(of *policy) {
	h.mu.Lock()
	if h.policies[of.name] == of {
		delete(h.policies, of.name)
	}
	h.mu.Unlock()
	of.swap(nil)
}

// forgetEmpty lets go a policy under whose name nothing came to work. The caller holds its mu.
func (h *Host) forgetEmpty(of *policy) {
	if of.current.Load() == nil {
		h.forget(of)
	}
}

// trim ends instances that have been idle for too long.
func (h *Host) trim() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, p := range h.policies {
		if v := p.acquire(); v != nil {
			v.pool.trim(time.Now())
			v.release()
		}
	}
}

// sweep removes compiled code that no policy has any more, and has the modules kept that there are. What is being uploaded at this moment is compiled again if need be.
func (h *Host) sweep(ctx context.Context) error {
	x, err := h.index(ctx)
	if err != nil {
		return err
	}
	used := x.sums()
	return errors.Join(h.workshop.sweep(func(sum string) bool { return used[sum] }), h.cfg.Store.MendBlobs(ctx, used))
}
