package policies

import "context"

// Delete removes a policy that no semaphore is bound to. Errors besides those of the store: ErrUnknownPolicy, ErrRevMismatch,
// *InUseError.
func (h *Host) Delete(ctx context.Context, name string, ifRev int64) error {
	users, err := h.users(ctx, name)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return &InUseError{users}
	}
	var before map[string]bool
	if _, err := h.change(ctx, func(x *index) error {
		before = x.sums()
		return x.drop(name, ifRev)
	}); err != nil {
		return err
	}
	if err := h.refresh(ctx, name); err != nil {
		return err
	}
	return h.dropUnused(ctx, before)
}
