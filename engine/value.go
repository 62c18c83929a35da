package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// valueMax bounds a value: it goes over the lanes as a whole.
const valueMax = 512 << 10 // bytes

// ErrTooLargeValue: a value has more bytes than a register keeps.
var ErrTooLargeValue = fmt.Errorf("a value has up to %d bytes", valueMax)

// keptValue is how a register of the cluster keeps a value of a caller.
type keptValue struct {
	Value  []byte   `json:"value"`
	Writes []string `json:"writes"` // as stored.Writes
}

func keptValueOf(v Value) (keptValue, error) {
	var k keptValue
	if v.Data == "" {
		return k, nil
	}
	if err := json.Unmarshal([]byte(v.Data), &k); err != nil {
		return k, fmt.Errorf("engine: a value can not be read: %w", err)
	}
	return k, nil
}

// Value reads a value that all replicas share, nil if there is none; name is the caller's choice, but not "secret". It is linearizable with
// ChangeValue. Errors: ErrQuorumUnavailable, the context's.
func (e *Engine) Value(ctx context.Context, name string) ([]byte, error) {
	v, _, err := register{e, RegisterCluster, name}.read(ctx)
	if err != nil {
		return nil, err
	}
	k, err := keptValueOf(v)
	return k.Value, err
}

// ChangeValue replaces a value by what next makes of it, as one step among all replicas, and returns what was written. next may
// be called several times, and its error ends the change. Errors besides: ErrQuorumUnavailable (whether it was written is not
// known), ErrTooLargeValue, the context's.
func (e *Engine) ChangeValue(ctx context.Context, name string, next func(old []byte) ([]byte, error)) ([]byte, error) {
	r := register{e, RegisterCluster, name}
	_, ballot, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	nonce := newID()
	var written []byte
	_, _, err = r.change(ctx, ballot, func(v Value) (Value, error) {
		k, err := keptValueOf(v)
		if err != nil {
			return Value{}, err
		}
		if slices.Contains(k.Writes, nonce) { // an earlier try was chosen, and perhaps others' on top
			return v, nil
		}
		if written, err = next(k.Value); err != nil {
			return Value{}, err
		}
		if len(written) > valueMax {
			return Value{}, ErrTooLargeValue
		}
		k = keptValue{written, append([]string{nonce}, k.Writes[:min(len(k.Writes), writesKept-1)]...)}
		data, err := json.Marshal(k)
		return Value{Data: string(data)}, err
	})
	return written, err
}

// ValueChanged returns a channel that is closed when some value is heard to have changed; then ask anew. News may be lost: look
// from time to time too.
func (e *Engine) ValueChanged() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.valueChanged
}

// announceRegister tells whoever waits for changed values.
func (e *Engine) announceRegister() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.valueChanged)
	e.valueChanged = make(chan struct{})
}
