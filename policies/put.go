package policies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Change is who changes a policy, and what the change depends on.
type Change struct {
	By    string // for people
	IfRev int64  // > 0: only this revision; -1: only if there is no such policy
}

// Put uploads a module and puts it to work: once Put has returned, every new call here runs it. created tells that there was
// no such policy. Errors besides those of the store: *NameError, *Refusal, ErrRevMismatch, ErrTooManyPolicies, ErrClosed.
func (h *Host) Put(ctx context.Context, name string, in io.Reader, by Change) (_ Status, created bool, err error) {
	if err := validName(name); err != nil {
		return Status{}, false, err
	}
	wasm, err := readModule(in)
	if err != nil {
		return Status{}, false, err
	}
	return h.put(ctx, name, wasm, by)
}

// sumLeast is how many digits of a SHA-256 name a version at least.
const sumLeast = 8

// Revert puts a stored version to work again. sum is its SHA-256, or as many of the first digits as no other version has, but sumLeast.
func (h *Host) Revert(ctx context.Context, name, sum string, by Change) (Status, error) {
	x, err := h.index(ctx)
	if err != nil {
		return Status{}, err
	}
	e := x.Policies[name]
	if e == nil {
		return Status{}, ErrUnknownPolicy
	}
	var found []Stored
	for _, v := range e.Versions {
		if len(sum) >= sumLeast && strings.HasPrefix(v.SHA256, sum) {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		return Status{}, ErrUnknownVersion
	}
	wasm, err := h.read(ctx, found[0].SHA256)
	if err != nil {
		return Status{}, err
	}
	s, _, err := h.put(ctx, name, wasm, by)
	return s, err
}

// Check is Put without its consequences.
func (h *Host) Check(ctx context.Context, in io.Reader) (Report, error) {
	wasm, err := readModule(in)
	if err != nil {
		return Report{}, err
	}
	p, report, err := h.workshop.build(ctx, wasm)
	if err != nil {
		return report, err
	}
	p.close()
	return report, nil
}

func (h *Host) put(ctx context.Context, name string, wasm []byte, by Change) (Status, bool, error) {
	p, report, err := h.workshop.build(ctx, wasm)
	if err != nil {
		return Status{}, false, err
	}
	if err := h.Rebind(ctx); err != nil {
		p.close()
		return Status{}, false, err
	}
	of, err := h.lock(name)
	if err != nil {
		p.close()
		return Status{}, false, err
	}
	defer of.mu.Unlock()
	v := newVersion(p, report, 0, h.cfg.Slots, &of.meter, h.spawn)
	of.meter.compiled(time.Duration(report.CompileMS) * time.Millisecond)
	if err := of.warm(v, h.configs(name)); err != nil {
		v.release()
		h.forgetEmpty(of)
		return Status{}, false, warmRefusal(err)
	}
	e, created, err := h.store(ctx, name, wasm, report, by)
	if err != nil {
		v.release()
		h.forgetEmpty(of)
		return Status{}, false, err
	}
	h.install(of, v, e.Rev)
	return h.status(of, name, e), created, nil
}

// warmRefusal is a module that does not start where the one before it did.
func warmRefusal(err error) error {
	fault, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	return &Refusal{
		StageInstantiate, fault.Error(), "an instance for each configuration that is bound",
		"bind the semaphores to a configuration that this module takes, or upload it under another name",
	}
}

// store writes the module and then the index, and looks whether somebody dropped the module in between.
func (h *Host) store(ctx context.Context, name string, wasm []byte, r Report, by Change) (e *entry, created bool, err error) {
	if err := h.cfg.Store.WriteBlob(ctx, r.SHA256, wasm); err != nil {
		return nil, false, err
	}
	var before map[string]bool
	after, err := h.change(ctx, func(x *index) error {
		before = x.sums()
		created = x.Policies[name] == nil
		_, err := x.put(name, Stored{r.SHA256, time.Now().UTC().Truncate(time.Millisecond), by.By}, r, by.IfRev)
		return err
	})
	if err != nil {
		return nil, false, errors.Join(err, h.dropUnused(ctx, map[string]bool{r.SHA256: true}))
	}
	if _, err := h.cfg.Store.ReadBlob(ctx, r.SHA256); errors.Is(err, ErrNoBlob) {
		if err := h.cfg.Store.WriteBlob(ctx, r.SHA256, wasm); err != nil {
			return nil, false, err
		}
	}
	if err := h.dropUnused(ctx, before); err != nil {
		h.cfg.Log.Warn("modules that no policy has were not removed", "error", err)
	}
	return after.Policies[name], created, nil
}

// install puts a version to work unless a later one is. The caller holds the policy's mu.
func (h *Host) install(of *policy, v *version, generation int64) {
	v.generation = generation
	h.mu.RLock()
	gone := h.closed || h.policies[of.name] != of
	h.mu.RUnlock()
	if gone || of.generation() >= generation {
		v.release()
		return
	}
	of.swap(v)
	of.setHere(HereReady, nil)
}

// dropUnused removes modules that the index does not name. Somebody may upload one of them at this moment: who is in the index
// afterwards gets it back, and who comes later looks himself.
func (h *Host) dropUnused(ctx context.Context, sums map[string]bool) error {
	x, err := h.index(ctx)
	if err != nil {
		return err
	}
	used := x.sums()
	for sum := range sums {
		if used[sum] {
			continue
		}
		if err := h.drop(ctx, sum); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) drop(ctx context.Context, sum string) error {
	wasm, err := h.cfg.Store.ReadBlob(ctx, sum)
	if errors.Is(err, ErrNoBlob) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := h.cfg.Store.DropBlob(ctx, sum); err != nil {
		return err
	}
	x, err := h.index(ctx)
	if err != nil {
		return err
	}
	if !x.sums()[sum] {
		return nil
	}
	return h.cfg.Store.WriteBlob(ctx, sum, wasm)
}

// index reads the index.
func (h *Host) index(ctx context.Context) (*index, error) {
	data, err := h.cfg.Store.ReadIndex(ctx)
	if err != nil {
		return nil, err
	}
	return decodeIndex(data)
}

// change changes the index and returns it as it is then.
func (h *Host) change(ctx context.Context, next func(*index) error) (*index, error) {
	data, err := h.cfg.Store.ChangeIndex(ctx, func(old []byte) ([]byte, error) {
		x, err := decodeIndex(old)
		if err != nil {
			return nil, err
		}
		if err := next(x); err != nil {
			return nil, err
		}
		return x.encode()
	})
	if err != nil {
		return nil, err
	}
	return decodeIndex(data)
}

// read reads a module and checks that it is the one.
func (h *Host) read(ctx context.Context, name string) ([]byte, error) {
	wasm, err := h.cfg.Store.ReadBlob(ctx, name)
	if err != nil {
		return nil, err
	}
	if got := sum(wasm); got != name {
		return nil, fmt.Errorf("the store has %s under the name %s", got, name)
	}
	return wasm, nil
}
