package policies

import (
	"fmt"
	"time"
)

// OnFault is what happens to a request whose policy gave no answer.
type OnFault string

// What may happen.
const (
	OnFaultDeny           OnFault = "deny" // the default
	OnFaultAllowRequested OnFault = "allow_requested"
	OnFaultUnavailable    OnFault = "unavailable"
)

// Isolation is what an instance's memory is shared with.
type Isolation string

// The isolations. State that a module keeps between calls is shared by all requests with pooled.
const (
	IsolationPooled Isolation = "pooled" // the default
	IsolationFresh  Isolation = "fresh"  // each call has an instance of its own
)

// Mode is whether a policy's word counts.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce" // the default
	ModeShadow  Mode = "shadow"  // evaluated and compared, not enforced
)

// Binding ties a semaphore to a policy. The zero value of a field is its default.
type Binding struct {
	Policy    string        // its name; required
	Config    string        // what config_get tells, up to ConfigMax bytes
	OnFault   OnFault       // deny
	Timeout   time.Duration // of one evaluation, TimeoutMin to TimeoutMax; TimeoutUsual
	Isolation Isolation     // pooled
	Mode      Mode          // enforce
}

// BindingError is a field of a binding that can not be.
type BindingError struct{ Field, Detail string }

func (e *BindingError) Error() string { return e.Field + ": " + e.Detail }

// Validate reports the first field that is out of its range, as a *BindingError.
func (b Binding) Validate() error {
	wrong := func(field, format string, args ...any) error {
		return &BindingError{field, fmt.Sprintf(format, args...)}
	}
	if err := validName(b.Policy); err != nil {
		return wrong("name", "%v", err)
	}
	if len(b.Config) > ConfigMax {
		return configError(b.Config)
	}
	if b.Timeout != 0 && (b.Timeout < TimeoutMin || b.Timeout > TimeoutMax) {
		return wrong("timeout", "%v, from %v to %v", b.Timeout, TimeoutMin, TimeoutMax)
	}
	switch b.OnFault {
	case "", OnFaultDeny, OnFaultAllowRequested, OnFaultUnavailable:
	default:
		return wrong("on_fault", "one of deny, allow_requested, unavailable")
	}
	switch b.Isolation {
	case "", IsolationPooled, IsolationFresh:
	default:
		return wrong("isolation", "pooled or fresh")
	}
	switch b.Mode {
	case "", ModeEnforce, ModeShadow:
	default:
		return wrong("mode", "enforce or shadow")
	}
	return nil
}

// configError is that of a configuration beyond ConfigMax.
func configError(config string) error {
	return &BindingError{"config", fmt.Sprintf("%d bytes, at most %d", len(config), ConfigMax)}
}

func (b Binding) timeout() time.Duration {
	if b.Timeout == 0 {
		return TimeoutUsual
	}
	return b.Timeout
}
