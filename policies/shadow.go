package policies

import "time"

// differencesKept is how many differences of a policy in shadow are listed.
const differencesKept = 20

// Difference is a request that a policy in shadow would have treated otherwise than as if there were none.
type Difference struct {
	At         time.Time `json:"at"`
	Semaphore  string    `json:"semaphore"`
	Holder     string    `json:"holder,omitempty"`
	Generation int64     `json:"generation"`
	Requested  int64     `json:"requested"`
	Outcome    Outcome   `json:"decision"`
	Weight     int64     `json:"weight,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Priority   *int      `json:"priority,omitempty"`
	TTLMS      int64     `json:"ttl_ms,omitempty"`
	Fault      *Fault    `json:"fault,omitempty"`
}

// differs tells whether a decision is other than what happens without a policy.
func (d *Decision) differs(r *Request) bool {
	return d.Act != ActAllow || d.Weight != r.Requested || d.HasPriority || d.TTL != 0 || d.Fault != nil
}

// shadowed notes what a policy would have done, and decides as if there were none.
func (m *meter) shadowed(d Decision, r *Request) Decision {
	if d.differs(r) {
		m.differ(d, r)
	}
	return Decision{
		Outcome: OutcomeNone, Weight: r.Requested, Elapsed: d.Elapsed, Policy: d.Policy, Generation: d.Generation, SHA256: d.SHA256,
	}
}

func (m *meter) differ(d Decision, r *Request) {
	entry := Difference{
		At: time.Now().UTC().Truncate(time.Millisecond), Semaphore: r.Semaphore, Holder: r.Holder, Generation: d.Generation, Requested: r.Requested, Outcome: d.Outcome,
		Weight: d.Weight, Reason: d.Reason, TTLMS: d.TTL.Milliseconds(), Fault: d.Fault,
	}
	if d.HasPriority {
		entry.Priority = new(d.Priority)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.differed++
	m.differences = append(m.differences, entry)
	if len(m.differences) > differencesKept {
		m.differences = append([]Difference(nil), m.differences[len(m.differences)-differencesKept:]...)
	}
}

// lastDifferences are the latest, the newest last.
func (m *meter) lastDifferences() []Difference {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Difference(nil), m.differences...)
}
