package client

import "time"

// What Ask.Wait, Ask.TTL and Ask.Permits may be besides a time or a number.
const (
	NoWait  time.Duration = -1 // a try, which never overtakes a waiter
	Forever time.Duration = -1 // the TTL of a lease that lives until it is released
	AllFree int           = -1 // as many permits as are free, without a wait
)

// Ask is a request for permits. The zero value asks for one, as the server's defaults say.
type Ask struct {
	Permits  int           // 1; or AllFree
	Wait     time.Duration // 10 s; or NoWait
	TTL      time.Duration // the semaphore's; or Forever, over REST
	Holder   string        // who people see: the server makes one up
	Priority int           // -100 to 100
	Key      string        // names the request: made again, at any replica, it is the same one
	Ticket   string        // of a Problem: resumes the place in line at any replica

	Attributes map[string]string // what the semaphore's policy may know

	Grace  time.Duration // how long the lease lives on when its channel has ended, to be attached; over the channel
	Create *Definition   // makes the semaphore when there is none
}

// Definition says what a semaphore is. Zero fields take the server's defaults.
type Definition struct {
	Limit        int    `json:"limit"`
	TTL          string `json:"ttl,omitempty"` // durations as text: "30s"
	TTLMax       string `json:"ttl_max,omitempty"`
	MaxWaiters   int    `json:"max_waiters,omitempty"`
	MinHold      string `json:"min_hold,omitempty"`
	HoldMax      string `json:"hold_max,omitempty"`
	PriorityStep string `json:"priority_step,omitempty"`
	Paused       bool   `json:"paused,omitempty"`
	Description  string `json:"description,omitempty"`

	Policy *Binding `json:"policy,omitempty"`
}

// Lease is a grant. The times are those of the answer's arrival; 0 of a lease that lives until it is released.
type Lease struct {
	Capability string // what its holder alone has
	ID         string
	Semaphore  string
	Requested  int
	Weight     int
	Slots      string // "0-3,7"
	Fence      int64
	Holder     string
	TTL        time.Duration
	Validity   time.Duration
	RenewAfter time.Duration
	Replayed   bool // it was granted before, to the same request or to whom it was attached from
	Policy     LeasePolicy
}

// Released tells what a release did.
type Released struct {
	ID      string
	Held    bool
	Weight  int // what is still held
	Cooling time.Duration
}

// Semaphore is a semaphore as the server tells of it.
type Semaphore struct {
	Name       string     `json:"name"`
	Rev        int64      `json:"rev"`
	Declared   bool       `json:"declared"`
	ChangedAt  time.Time  `json:"changed_at"`
	ChangedBy  string     `json:"changed_by"`
	Definition Definition `json:"definition"`
	Status     Status     `json:"status"`
}

// Status is what a semaphore does: limit = in use + cooling + available - over-committed.
type Status struct {
	InUse         int   `json:"in_use"`
	Cooling       int   `json:"cooling"`
	Available     int   `json:"available"`
	OverCommitted int   `json:"over_committed"`
	GrantingInMS  int64 `json:"granting_in_ms"` // after a cold start nothing is granted before
	Waiting       int   `json:"waiting"`
	OldestWaitMS  int64 `json:"oldest_wait_ms"`
	NextExpiryMS  int64 `json:"next_expiry_ms"`
	GrantedTotal  int64 `json:"granted_total"` // by the replica that was asked, since it started
	Stalled       bool  `json:"stalled"`
}

// LeaseInfo is a lease in a list.
type LeaseInfo struct {
	ID          string    `json:"id"`
	Semaphore   string    `json:"semaphore"`
	Weight      int       `json:"weight"`
	Slots       string    `json:"slots"`
	Fence       int64     `json:"fence"`
	Holder      string    `json:"holder"`
	Principal   string    `json:"principal"`
	Address     string    `json:"address"`
	Via         string    `json:"via"`
	State       string    `json:"state"` // held or cooling
	GrantedAt   time.Time `json:"granted_at"`
	AgeMS       int64     `json:"age_ms"`
	ExpiresInMS *int64    `json:"expires_in_ms"` // nil: it does not
}

// Nodes are the nodes as the server sees them.
type Nodes struct {
	Quorum int    `json:"quorum"`
	Items  []Node `json:"items"`
}

// Decided is the nodes after an operator's decision about them, and what it gives up.
type Decided struct {
	Nodes
	GivesUp []string `json:"gives_up"`
}

// Node is one of them.
type Node struct {
	Node          string    `json:"node"`
	Index         *int      `json:"index"` // nil: it is not known
	State         string    `json:"state"`
	Reason        string    `json:"reason"`
	Since         time.Time `json:"since"`
	Era           int64     `json:"era"`
	ClockOffsetMS int64     `json:"clock_offset_ms"`
	LatencyMS     float64   `json:"latency_ms"`
	Warning       string    `json:"warning"`     // what is wrong with it though it votes; "": nothing
	GrantingAt    time.Time `json:"granting_at"` // after a cold start it grants nothing before; zero: no such wait
}
