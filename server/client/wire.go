package client

import "time"

// askJSON is an Ask on its way; over the channel it is a frame.
type askJSON struct {
	Type      string      `json:"type,omitempty"`
	Ref       string      `json:"ref,omitempty"`
	Semaphore string      `json:"semaphore,omitempty"`
	Permits   any         `json:"permits,omitempty"` // a number, or all_free
	Wait      string      `json:"wait,omitempty"`
	TTL       string      `json:"ttl,omitempty"`
	Holder    string      `json:"holder,omitempty"`
	Priority  int         `json:"priority,omitempty"`
	Key       string      `json:"key,omitempty"`
	Ticket    string      `json:"ticket,omitempty"`
	Grace     string      `json:"grace,omitempty"`
	Create    *Definition `json:"create,omitempty"`

	Attributes map[string]string `json:"attributes,omitempty"`
}

func (a Ask) json() askJSON {
	j := askJSON{
		TTL: ttlText(a.TTL), Holder: a.Holder, Priority: a.Priority, Key: a.Key, Ticket: a.Ticket, Create: a.Create, Attributes: a.Attributes,
	}
	if a.Grace > 0 {
		j.Grace = a.Grace.String()
	}
	switch a.Permits {
	case 0:
	case AllFree:
		j.Permits = "all_free"
	default:
		j.Permits = a.Permits
	}
	switch a.Wait {
	case 0:
	case NoWait:
		j.Wait = "0"
	default:
		j.Wait = a.Wait.String()
	}
	return j
}

func ttlText(ttl time.Duration) string {
	switch ttl {
	case 0:
		return ""
	case Forever:
		return "0"
	default:
		return ttl.String()
	}
}

type attachJSON struct {
	Type      string `json:"type"`
	Ref       string `json:"ref"`
	Semaphore string `json:"semaphore"`
	Lease     string `json:"lease"`
	Grace     string `json:"grace"`
}

type releaseJSON struct {
	Type  string `json:"type,omitempty"`
	Ref   string `json:"ref,omitempty"`
	Lease string `json:"lease"`
	Keep  int    `json:"keep,omitempty"`
}

type decisionJSON struct {
	Without []string `json:"without,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	DryRun  bool     `json:"dry_run,omitempty"`
}

type renewJSON struct {
	Type  string `json:"type,omitempty"`
	Ref   string `json:"ref,omitempty"`
	Lease string `json:"lease"`
	TTL   string `json:"ttl,omitempty"`
}

type leaseJSON struct {
	Lease        string `json:"lease"`
	ID           string `json:"id"`
	Semaphore    string `json:"semaphore"`
	Requested    int    `json:"requested"`
	Weight       int    `json:"weight"`
	Slots        string `json:"slots"`
	Fence        int64  `json:"fence"`
	Holder       string `json:"holder"`
	TTLMS        int64  `json:"ttl_ms"`
	ValidityMS   int64  `json:"validity_ms"`
	RenewAfterMS int64  `json:"renew_after_ms"`
	Replayed     bool   `json:"replayed"`

	Policy LeasePolicy `json:"policy"`
}

func (l leaseJSON) lease() Lease {
	return Lease{
		Capability: l.Lease, ID: l.ID, Semaphore: l.Semaphore, Requested: l.Requested, Weight: l.Weight,
		Slots: l.Slots, Fence: l.Fence, Holder: l.Holder,
		TTL: millis(l.TTLMS), Validity: millis(l.ValidityMS), RenewAfter: millis(l.RenewAfterMS), Replayed: l.Replayed, Policy: l.Policy,
	}
}

type releasedJSON struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Weight    int    `json:"weight"`
	CoolingMS int64  `json:"cooling_ms"`
}

func (r releasedJSON) released() Released {
	return Released{ID: r.ID, Held: r.State == "held", Weight: r.Weight, Cooling: millis(r.CoolingMS)}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
