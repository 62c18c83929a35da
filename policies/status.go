package policies

import (
	"context"
	"maps"
	"slices"
)

// Status is a policy as the index has it, and what it is on this replica.
type Status struct {
	Name        string       `json:"name"`
	Rev         int64        `json:"rev"`
	SHA256      string       `json:"sha256"`
	ABI         int          `json:"abi"`
	Report      Report       `json:"report"`
	Versions    []Stored     `json:"versions"` // the one in force first
	UsedBy      []string     `json:"used_by"`
	Here        Here         `json:"here,omitempty"`   // left out of what was not stored
	HereRev     int64        `json:"here_rev"`         // of the version at work here; 0: none is
	HereWhy     string       `json:"reason,omitempty"` // of failed
	Differences []Difference `json:"differences,omitempty"`
}

// List returns all policies, by name.
func (h *Host) List(ctx context.Context) ([]Status, error) {
	x, err := h.index(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Status, 0, len(x.Policies))
	for _, name := range slices.Sorted(maps.Keys(x.Policies)) {
		all = append(all, h.describe(name, x.Policies[name]))
	}
	return all, nil
}

// Get returns one policy, or ErrUnknownPolicy.
func (h *Host) Get(ctx context.Context, name string) (Status, error) {
	x, err := h.index(ctx)
	if err != nil {
		return Status{}, err
	}
	e := x.Policies[name]
	if e == nil {
		return Status{}, ErrUnknownPolicy
	}
	return h.describe(name, e), nil
}

// Module returns the module in force, as it was uploaded.
func (h *Host) Module(ctx context.Context, name string) ([]byte, error) {
	x, err := h.index(ctx)
	if err != nil {
		return nil, err
	}
	e := x.Policies[name]
	if e == nil {
		return nil, ErrUnknownPolicy
	}
	return h.read(ctx, e.Versions[0].SHA256)
}

func (h *Host) describe(name string, e *entry) Status { return h.status(h.policy(name), name, e) }

// status describes a policy; of is nil where this replica does not know it yet.
func (h *Host) status(of *policy, name string, e *entry) Status {
	s := Status{
		Name: name, Rev: e.Rev, SHA256: e.Versions[0].SHA256, ABI: e.Report.ABI, Report: e.Report,
		Versions: slices.Clone(e.Versions), UsedBy: h.users(name), Here: HereCompiling,
	}
	if of == nil {
		return s
	}
	here, why := of.state()
	s.Here, s.HereRev, s.Differences = here, of.generation(), of.meter.lastDifferences()
	if why != nil {
		s.HereWhy = why.Error()
	}
	return s
}

// Metrics returns what each policy has done here, by name.
func (h *Host) Metrics() map[string]Metrics {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make(map[string]Metrics, len(h.policies))
	for name, p := range h.policies {
		m := p.meter.metrics()
		if v := p.acquire(); v != nil {
			m.Busy, m.Idle = v.pool.count()
			m.BreakerOpen, m.Generation = v.breaker.isOpen(), v.generation
			v.release()
		}
		all[name] = m
	}
	return all
}
