package client

import (
	"context"
	"errors"
	"time"
)

// Hold is a lease that lives as long as its channel. Lease is what was granted, whatever was given back of it since. Safe
// for concurrent use.
type Hold struct {
	Lease

	ch         *Channel
	lost       chan struct{}
	validUntil time.Time // this and reason are guarded by ch.mu
	reason     string
}

func newHold(ch *Channel, l Lease) *Hold {
	return &Hold{Lease: l, ch: ch, lost: make(chan struct{}), validUntil: time.Now().Add(l.Validity)}
}

// Acquire asks for permits and waits for the verdict. When ctx ends first, the request is cancelled: nothing is
// held of it. A *Problem of kind no_permit tells that there was none in time.
func (ch *Channel) Acquire(ctx context.Context, semaphore string, ask Ask) (*Hold, error) {
	ref, heard, err := ch.ask(func(ref string) any {
		j := ask.json()
		j.Type, j.Ref, j.Semaphore = "acquire", ref, semaphore
		return j
	})
	if err != nil {
		return nil, err
	}
	a, err := ch.wait(ctx, ref, heard)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, errors.Join(err, ch.cancel(ref, heard))
	}
	return a.hold, err
}

// Attach takes over a lease that is held elsewhere: over HTTP, by a channel that has ended, through another replica. From then on
// it lives as long as this channel, and for grace after that. A *Problem tells that it is over. When ctx ends first, it may be
// this channel's all the same.
func (ch *Channel) Attach(ctx context.Context, semaphore, capability string, grace time.Duration) (*Hold, error) {
	ref, heard, err := ch.ask(func(ref string) any {
		return attachJSON{Type: "attach", Ref: ref, Semaphore: semaphore, Lease: capability, Grace: grace.String()}
	})
	if err != nil {
		return nil, err
	}
	a, err := ch.wait(ctx, ref, heard)
	return a.hold, err
}

// cancel tells the server that nobody waits for an answer; what it has granted by then it takes back.
func (ch *Channel) cancel(of string, heard chan answer) error {
	select {
	case a := <-heard: // it came at the last moment
		if a.hold != nil {
			ch.drop(a.hold)
		}
	default:
	}
	_, _, err := ch.ask(func(ref string) any {
		return struct {
			Type string `json:"type"`
			Ref  string `json:"ref"`
			Of   string `json:"of"`
		}{"cancel", ref, of}
	})
	return err
}

// Release gives the lease back and waits until that is certain. It may be repeated.
func (h *Hold) Release(ctx context.Context) error { return h.release(ctx, 0) }

// ReleaseAllBut gives back all but the weight keep.
func (h *Hold) ReleaseAllBut(ctx context.Context, keep int) error { return h.release(ctx, keep) }

// Close gives the lease back and does not wait until that is certain: the server goes on with it by itself. Its error is that
// of a channel that is closed, which gives everything back.
func (h *Hold) Close() error {
	ref, _, err := h.giveBack(0)
	if err == nil {
		h.ch.forget(ref)
	}
	return err
}

func (h *Hold) release(ctx context.Context, keep int) error {
	ref, heard, err := h.giveBack(keep)
	if err != nil {
		return err
	}
	_, err = h.ch.wait(ctx, ref, heard)
	return err
}

// giveBack sends the release of all but keep.
func (h *Hold) giveBack(keep int) (ref string, heard chan answer, err error) {
	ref, heard, err = h.ch.ask(func(ref string) any {
		return releaseJSON{Type: "release", Ref: ref, Lease: h.Capability, Keep: keep}
	})
	if err == nil && keep == 0 {
		h.ch.drop(h)
	}
	return ref, heard, err
}

// Renew lengthens the lease at once to ttl; 0: as before. The server renews it anyway while the channel lives.
func (h *Hold) Renew(ctx context.Context, ttl time.Duration) error {
	ref, heard, err := h.ch.ask(func(ref string) any {
		return renewJSON{Type: "renew", Ref: ref, Lease: h.Capability, TTL: ttlText(ttl)}
	})
	if err != nil {
		return err
	}
	_, err = h.ch.wait(ctx, ref, heard)
	return err
}

// Lost is closed when the lease is over without having been released: the server said so, its validity ended, or the
// channel did. Whoever holds it must stop using what it stands for.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Reason tells why the lease was lost; "" while it is not.
func (h *Hold) Reason() string {
	h.ch.mu.Lock()
	defer h.ch.mu.Unlock()
	return h.reason
}

// Valid returns how long the lease may still be trusted.
func (h *Hold) Valid() time.Duration {
	h.ch.mu.Lock()
	defer h.ch.mu.Unlock()
	if h.reason != "" {
		return 0
	}
	return max(0, time.Until(h.validUntil))
}

// lose ends the hold; ch.mu is held.
func (h *Hold) lose(reason string) {
	if h.ch.holds[h.ID] != h {
		return
	}
	delete(h.ch.holds, h.ID)
	h.reason = reason
	close(h.lost)
}

// drop forgets a hold that its holder gives back.
func (ch *Channel) drop(h *Hold) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.holds[h.ID] == h {
		delete(ch.holds, h.ID)
	}
}
