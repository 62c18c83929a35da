package engine

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// writesKept bounds stored.Writes: a writer that did not hear that its write was chosen recognises it as long as no more
// others have been made on top.
const writesKept = 16

// stored is what a semaphore's register holds.
type stored struct {
	Rev        int64       `json:"rev"`
	Declared   bool        `json:"declared,omitempty"`
	ChangedAt  time.Time   `json:"changed_at"`
	ChangedBy  string      `json:"changed_by,omitempty"`
	Definition Definition  `json:"definition"`           // with its defaults filled in
	CreatedBy  *Definition `json:"created_by,omitempty"` // what the request brought that created it on use
	Deleted    bool        `json:"-"`
	Writes     []string    `json:"writes"` // nonces of the last writes, the latest first: their writers know them again
}

// value is how nodes keep it: what they apply themselves stands apart.
func (s *stored) value() Value {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("engine: a definition can not be encoded: %v", err)) // there are only plain fields in it
	}
	return Value{
		Limit: s.Definition.Limit, MinHold: s.Definition.MinHold, Paused: s.Definition.Paused,
		Deleted: s.Deleted, Data: string(data),
	}
}

// semaphore is what a register holds, as callers see it.
func (s *stored) semaphore(name string, status Status) Semaphore {
	return Semaphore{
		Name: name, Rev: s.Rev, Declared: s.Declared, ChangedAt: s.ChangedAt, ChangedBy: s.ChangedBy, Definition: s.Definition,
		Status: status,
	}
}

// storedOf reads a register's value; nil if nothing was ever written.
func storedOf(v Value) (*stored, error) {
	if v.Data == "" {
		return nil, nil
	}
	s := &stored{}
	if err := json.Unmarshal([]byte(v.Data), s); err != nil {
		return nil, fmt.Errorf("engine: a definition can not be read: %w", err)
	}
	s.Deleted = v.Deleted
	return s, nil
}

// filled returns the definition with its defaults.
func (d Definition) filled() Definition {
	or := func(p *time.Duration, usual time.Duration) {
		if *p == 0 {
			*p = usual
		}
	}
	or(&d.TTLMax, max(TTLMaxDefault, d.TTL))
	or(&d.TTL, min(TTLDefault, d.TTLMax))
	or(&d.PriorityStep, PriorityStep)
	if d.MaxWaiters == 0 {
		d.MaxWaiters = MaxWaitersUsual
	}
	return d
}

// Validate reports the first field, if any, that is out of its range, as an *InvalidError. It takes a definition as it
// was given, defaults not filled in.
func (d Definition) Validate() error {
	const day = 24 * time.Hour
	wrong := func(field, format string, args ...any) error {
		return &InvalidError{Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	f := d.filled()
	switch {
	case d.Limit < 1 || d.Limit > LimitMax:
		return wrong("limit", "must be 1 to %d", LimitMax)
	case d.TTLMax != 0 && (d.TTLMax < TTLMin || d.TTLMax > TTLMaxMax):
		return wrong("ttl_max", "must be %v to %v", TTLMin, TTLMaxMax)
	case f.TTL < TTLMin || f.TTL > f.TTLMax:
		return wrong("ttl", "must be %v to ttl_max, %v", TTLMin, f.TTLMax)
	case d.MaxWaiters < 0 || d.MaxWaiters > MaxWaitersMax:
		return wrong("max_waiters", "must be 1 to %d", MaxWaitersMax)
	case d.MinHold < 0 || d.MinHold > day:
		return wrong("min_hold", "must be 0 to 24h")
	case d.HoldMax < 0 || d.HoldMax > 365*day:
		return wrong("hold_max", "must be 0 to a year")
	case d.PriorityStep < 0 || d.PriorityStep > day:
		return wrong("priority_step", "must be 0 to 24h")
	case len(d.Description) > DescriptionMax || !utf8.ValidString(d.Description):
		return wrong("description", "must be UTF-8 of at most %d bytes", DescriptionMax)
	case len(d.Policy.Config) > BindingConfigMax:
		return wrong("policy.config", "must be at most %d bytes", BindingConfigMax)
	}
	return nil
}

// ValidName reports, as an *InvalidError, what is wrong with a semaphore's name: it is any valid UTF-8 of 1 to
// NameMax bytes without control characters.
func ValidName(name string) error {
	switch {
	case name == "":
		return &InvalidError{Field: "name", Detail: "must not be empty"}
	case len(name) > NameMax:
		return &InvalidError{Field: "name", Detail: fmt.Sprintf("must be at most %d bytes", NameMax)}
	case !utf8.ValidString(name):
		return &InvalidError{Field: "name", Detail: "must be valid UTF-8"}
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return &InvalidError{Field: "name", Detail: "must not have control characters"}
		}
	}
	return nil
}
