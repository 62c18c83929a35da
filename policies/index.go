package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// Errors of the registry.
var (
	ErrUnknownPolicy   = errors.New("there is no such policy")
	ErrUnknownVersion  = errors.New("the policy has no such version, or several whose SHA-256 begins so; at least 8 digits, of those that GET lists")
	ErrRevMismatch     = errors.New("the policy was changed meanwhile")
	ErrTooManyPolicies = fmt.Errorf("there are %d policies already", PoliciesMax)
	ErrUnavailable     = errors.New("the policy is not to be had")
	ErrClosed          = errors.New("the policies are closed")
)

// InUseError says which semaphores a policy is bound to.
type InUseError struct{ Semaphores []string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("semaphores that the policy is bound to: %d, %q among them", len(e.Semaphores), e.Semaphores[0])
}

// NameError is a name that no policy can have.
type NameError struct{ Detail string }

func (e *NameError) Error() string { return "name: " + e.Detail }

func validName(name string) error {
	switch {
	case name == "" || len(name) > NameMax:
		return &NameError{fmt.Sprintf("%d bytes, from 1 to %d", len(name), NameMax)}
	case !utf8.ValidString(name):
		return &NameError{"not UTF-8"}
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return &NameError{"it has control characters"}
		}
	}
	return nil
}

// Stored is a version of a policy as the index has it.
type Stored struct {
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
}

// entry is a policy in the index; the first version is the one in force.
type entry struct {
	Rev      int64    `json:"rev"`
	Report   Report   `json:"report"` // of the version in force
	Versions []Stored `json:"versions"`
}

// index is what all replicas agree on. Rev counts its changes, so that revisions grow across deletions.
type index struct {
	Rev      int64             `json:"rev"`
	Policies map[string]*entry `json:"policies"`
}

func decodeIndex(data []byte) (*index, error) {
	x := &index{Policies: map[string]*entry{}}
	if len(data) == 0 {
		return x, nil
	}
	if err := json.Unmarshal(data, x); err != nil {
		return nil, fmt.Errorf("the index of policies can not be read: %w", err)
	}
	return x, nil
}

func (x *index) encode() ([]byte, error) { return json.Marshal(x) }

// put makes a version the one in force. ifRev > 0 asks for that revision; 0 for any, -1 for none. The same version again changes
// nothing, so a repeated request is answered as the first one was.
func (x *index) put(name string, v Stored, r Report, ifRev int64) (*entry, error) {
	e := x.Policies[name]
	switch {
	case e != nil && e.Versions[0].SHA256 == v.SHA256 && ifRev <= e.Rev:
		return e, nil
	case ifRev > 0 && (e == nil || e.Rev != ifRev), ifRev < 0 && e != nil:
		return nil, ErrRevMismatch
	case e == nil && len(x.Policies) >= PoliciesMax:
		return nil, ErrTooManyPolicies
	case e == nil:
		e = &entry{}
		x.Policies[name] = e
	}
	x.Rev++
	e.Rev, e.Report = x.Rev, r
	e.Versions = slices.DeleteFunc(e.Versions, func(s Stored) bool { return s.SHA256 == v.SHA256 })
	e.Versions = slices.Insert(e.Versions, 0, v)
	e.Versions = e.Versions[:min(len(e.Versions), versionsKept)]
	return e, nil
}

// drop removes a policy.
func (x *index) drop(name string, ifRev int64) error {
	e := x.Policies[name]
	switch {
	case e == nil:
		return ErrUnknownPolicy
	case ifRev > 0 && e.Rev != ifRev:
		return ErrRevMismatch
	}
	x.Rev++
	delete(x.Policies, name)
	return nil
}

// sums are the modules that the index names.
func (x *index) sums() map[string]bool {
	sums := map[string]bool{}
	for _, e := range x.Policies {
		for _, v := range e.Versions {
			sums[v.SHA256] = true
		}
	}
	return sums
}
