package policies

import "context"

// Delete removes a policy that no semaphore is bound to. Errors besides those of the store: ErrUnknownPolicy, ErrRevMismatch,
// *InUseError.
func (h *Host) Delete(ctx context.Context, name string, ifRev int64) error {
	if err := h.unused(ctx, name); err != nil {
		return err
	}
	var before map[string]bool
	var gone *entry
	if _, err := h.change(ctx, func(x *index) error {
		before, gone = x.sums(), x.Policies[name]
		return x.drop(name, ifRev)
	}); err != nil {
		return err
	}
	if err := h.unused(ctx, name); err != nil {
		return h.undelete(ctx, name, gone, err)
	}
	if err := h.refresh(ctx, name); err != nil {
		return err
	}
	return h.dropUnused(ctx, before)
}

// unused looks whether no semaphore is bound to a policy.
func (h *Host) unused(ctx context.Context, name string) error {
	if err := h.Rebind(ctx); err != nil {
		return err
	}
	if users := h.users(name); len(users) > 0 {
		return &InUseError{users}
	}
	return nil
}

// undelete puts a policy back that somebody has bound while it was being deleted.
func (h *Host) undelete(ctx context.Context, name string, gone *entry, why error) error {
	if _, err := h.change(ctx, func(x *index) error {
		if x.Policies[name] == nil {
			x.Policies[name] = gone
		}
		return nil
	}); err != nil {
		return err
	}
	return why
}
