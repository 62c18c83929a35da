package server

// These are what requests may say and answers that are written by hand, for the OpenAPI document alone: parameters are read by
// decode.go, from the query, a form or JSON, and a test sends what is documented and validates what comes back.

// acquireBody asks for permits. All may be left out.
type acquireBody struct {
	Permits    int               `json:"permits,omitempty" minimum:"1" maximum:"10000" default:"1"` // or all_free: as many as are free, without a wait
	Wait       string            `json:"wait,omitempty" example:"25s" default:"10s"`                // a time with its unit, up to 10m (hold: 24h); 0 is a try, which never overtakes a waiter
	TTL        string            `json:"ttl,omitempty" example:"1h"`                                // from 1s to the semaphore's ttl_max; 0: until released, for operators
	Holder     string            `json:"holder,omitempty" maxLength:"128" example:"db7/nightly"`
	Priority   int               `json:"priority,omitempty" minimum:"-100" maximum:"100" default:"0"` // a head start of priority_step each; capped by the token
	Key        string            `json:"key,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._~-]+$"`  // names the request: made again, it is the same one; of the principal and the semaphore alone
	Ticket     string            `json:"ticket,omitempty"`                                            // of a refusal: resumes the place in line, for 10 minutes
	Attributes map[string]string `json:"attributes,omitempty"`                                        // what the semaphore's policy may know: up to 64, 16 KiB in all; in a form attr.KEY=VALUE
	Create     *createBody       `json:"create,omitempty"`                                            // makes the semaphore when there is none; in a form, and in short, its limit alone
}

// holdBody asks for permits that are held as long as a connection lives.
type holdBody struct {
	acquireBody
	Grace string `json:"grace,omitempty" example:"30s" default:"0s"` // up to 10m: how long the lease lives on, renewed, when the connection has ended, to be attached
}

// attachBody takes a lease over.
type attachBody struct {
	Semaphore string `json:"semaphore"`
	Lease     string `json:"lease"`
	Grace     string `json:"grace,omitempty" default:"0s"`
}

// createBody is a semaphore that is created on use.
type createBody struct {
	Limit      int    `json:"limit" minimum:"1" maximum:"1000000" validate:"required" example:"3"`
	TTL        string `json:"ttl,omitempty" default:"30s"`
	TTLMax     string `json:"ttl_max,omitempty" default:"1h"`
	MinHold    string `json:"min_hold,omitempty" default:"0s"`
	HoldMax    string `json:"hold_max,omitempty" default:"0s"`
	MaxWaiters int    `json:"max_waiters,omitempty" default:"100000"`
}

// definitionBody declares a semaphore.
type definitionBody struct {
	Limit        int          `json:"limit" minimum:"1" maximum:"1000000" validate:"required" example:"10"`
	TTL          string       `json:"ttl,omitempty" default:"30s"`            // of requests that name none
	TTLMax       string       `json:"ttl_max,omitempty" default:"1h"`         // the longest a request may ask for
	MaxWaiters   int          `json:"max_waiters,omitempty" default:"100000"` // beyond it requests are refused at once
	MinHold      string       `json:"min_hold,omitempty" default:"0s"`        // permits come back no earlier than this after the grant
	HoldMax      string       `json:"hold_max,omitempty" default:"0s"`        // the age after which a lease is renewed no more
	PriorityStep string       `json:"priority_step,omitempty" default:"10s"`  // the head start of one priority
	Paused       bool         `json:"paused,omitempty" default:"false"`       // grants stop, the line stays
	Description  string       `json:"description,omitempty" maxLength:"1000" default:""`
	Policy       *bindingBody `json:"policy,omitempty"` // that weighs each request; or its name alone
}

// patchBody is a merge patch (RFC 7396) of a definition: what is left out stays, null puts the default back.
type patchBody struct {
	Limit        int    `json:"limit,omitempty" minimum:"1" maximum:"1000000" example:"20"`
	TTL          string `json:"ttl,omitempty" extensions:"x-nullable"`
	TTLMax       string `json:"ttl_max,omitempty" extensions:"x-nullable"`
	MaxWaiters   int    `json:"max_waiters,omitempty" extensions:"x-nullable"`
	MinHold      string `json:"min_hold,omitempty" extensions:"x-nullable"`
	HoldMax      string `json:"hold_max,omitempty" extensions:"x-nullable"`
	PriorityStep string `json:"priority_step,omitempty" extensions:"x-nullable"`
	Paused       bool   `json:"paused,omitempty" extensions:"x-nullable"`
	Description  string `json:"description,omitempty" maxLength:"1000" extensions:"x-nullable"`

	Policy *bindingBody `json:"policy,omitempty" extensions:"x-nullable"` // merged too; null ends the binding
}

// releaseBody gives a lease back.
type releaseBody struct {
	Lease string `json:"lease" validate:"required"`                              // the secret string of the grant
	Keep  int    `json:"keep,omitempty" minimum:"0" maximum:"10000" default:"0"` // the weight that stays
}

// renewBody lengthens a lease.
type renewBody struct {
	Lease string `json:"lease" validate:"required"`
	TTL   string `json:"ttl,omitempty" example:"1h"` // as before
}

// leaseAnswer is a grant, as appendLease writes it. The three times are left out of a lease that lives until it is released.
type leaseAnswer struct {
	Lease        string `json:"lease" example:"7q3m2k9dhf2raw4e.5n0t…"` // the secret by which its holder renews and releases it
	ID           string `json:"id" example:"7q3m2k9dhf2raw4e"`          // what everybody may know
	Semaphore    string `json:"semaphore"`
	Requested    int    `json:"requested"`
	Weight       int    `json:"weight"`
	Slots        string `json:"slots" example:"4-5"` // the numbers of the permits
	Fence        int64  `json:"fence"`               // of two grants on one permit, the later has the larger one
	Holder       string `json:"holder"`
	TTLMS        int64  `json:"ttl_ms,omitempty"`
	ValidityMS   int64  `json:"validity_ms,omitempty"` // from the arrival of the answer on
	RenewAfterMS int64  `json:"renew_after_ms,omitempty"`
	Replayed     bool   `json:"replayed"`

	Policy *policyVersionJSON `json:"policy,omitempty"` // that weighed it
}

// releasedAnswer says what a release did.
type releasedAnswer struct {
	ID        string `json:"id"`
	State     string `json:"state" enums:"released,held"`
	Weight    int    `json:"weight"`     // that is still held
	CoolingMS int64  `json:"cooling_ms"` // until the permits are free
}

// readmitBody is what readmit takes.
type readmitBody struct {
	Reason string `json:"reason,omitempty"`  // why, for those who will ask
	DryRun bool   `json:"dry_run,omitempty"` // only tell what it gives up
}

// recoverBody is what recover takes.
type recoverBody struct {
	Without []string `json:"without,omitempty"` // the nodes that are given up, by name or index; none: only what they have forgotten
	Reason  string   `json:"reason,omitempty"`  // why, for those who will ask
	DryRun  bool     `json:"dry_run,omitempty"` // only tell what it gives up
}

// bindingBody ties a semaphore to a policy.
type bindingBody struct {
	Name      string `json:"name" validate:"required" maxLength:"200" example:"heavy"`
	Config    string `json:"config,omitempty" maxLength:"16384"`                                         // what the policy reads by config_get
	OnFault   string `json:"on_fault,omitempty" enums:"deny,allow_requested,unavailable" default:"deny"` // when it gives no answer
	Timeout   string `json:"timeout,omitempty" default:"50ms"`                                           // of one evaluation, 20ms to 500ms
	Isolation string `json:"isolation,omitempty" enums:"pooled,fresh" default:"pooled"`                  // fresh: an instance of its own for each request
	Mode      string `json:"mode,omitempty" enums:"enforce,shadow" default:"enforce"`                    // shadow: evaluated and compared, not enforced
}

// evaluateBody is a request that a policy is asked about, for a try. All may be left out.
type evaluateBody struct {
	Requested  int               `json:"requested,omitempty" minimum:"1" maximum:"10000" default:"1"`
	Limit      int               `json:"limit,omitempty" minimum:"1" maximum:"1000000" default:"1000000"`
	Available  int               `json:"available,omitempty"` // the limit
	Waiting    int               `json:"waiting,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Config     string            `json:"config,omitempty"`
	Semaphore  string            `json:"semaphore,omitempty"`
	Holder     string            `json:"holder,omitempty"`
}
