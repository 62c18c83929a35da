package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// Limits of what may be asked for (design.md section 8).
const (
	LimitMax        = 1_000_000          // permits of a semaphore
	WeightMax       = 10_000             // permits of one request
	NameMax         = 200                // bytes of a name
	HolderMax       = 128                // bytes of a holder
	TTLMin          = time.Second        // of a request
	TTLDefault      = 30 * time.Second   // of a definition that names none
	TTLMaxDefault   = time.Hour          // likewise, of ttl_max
	TTLMaxMax       = 7 * 24 * time.Hour // the longest ttl_max of a definition
	WaitDefault     = 10 * time.Second   // of a request that names none; for the faces
	WaitMax         = 10 * time.Minute   // over REST
	WaitMaxChannel  = 24 * time.Hour     // over the lease channel and the hold stream
	GraceMax        = 10 * time.Minute   // for which a lease lives on whose connection has ended; for the faces
	MaxWaitersMax   = 10_000_000
	MaxWaitersUsual = 100_000
	PriorityMax     = 100
	PriorityStep    = 10 * time.Second // the head start of one priority
	DescriptionMax  = 1000             // bytes
	SemaphoresUsual = 100_000          // that may be created on use
)

// Definition says what a semaphore is. The zero value of a field is its default.
type Definition struct {
	Limit        int           // 1 to LimitMax; required
	TTL          time.Duration // of requests that name none; TTLDefault (at most TTLMax)
	TTLMax       time.Duration // the longest a request may ask for; TTLMaxDefault
	MaxWaiters   int           // beyond it requests are refused at once; MaxWaitersUsual
	MinHold      time.Duration // permits come back no earlier than this after the grant; none
	HoldMax      time.Duration // the age after which a lease is renewed no more; none
	PriorityStep time.Duration // PriorityStep
	Paused       bool          // grants stop, the line stays
	Description  string
	Policy       Binding `json:",omitzero"` // asked about each new request, by Ask.Weigh; none
}

// Semaphore is a semaphore as the majority of the nodes know it.
type Semaphore struct {
	Name       string
	Rev        int64 // grows by one with each change
	Declared   bool  // by an operator; else created on first use
	ChangedAt  time.Time
	ChangedBy  string
	Definition Definition // with defaults filled in
	Status     Status
}

// Status is what a semaphore does now. Limit = InUse + Cooling + Available - OverCommitted.
type Status struct {
	InUse, Cooling, Available, OverCommitted int
	GrantingIn                               time.Duration // nothing is granted before, after a cold start; 0: no such wait
	Waiting                                  int           // of all replicas
	OldestWait                               time.Duration // of all replicas; 0: nobody waits
	NextExpiry                               time.Duration // until the next lease ends by itself; 0: none will
	Leases                                   int
	LongestTTL                               time.Duration // the longest granted yet, so far as nodes remember
	GrantedTotal                             int64         // by this replica
	LastGrant                                time.Time     // by this replica; zero: none yet
	Stalled                                  bool
}

// HolderInfo says, for people, who holds or waits.
type HolderInfo struct {
	Holder    string // free text from the client
	Principal string // who is authenticated
	Address   string // of the client
	Via       string // http, channel, hold, fleetlock
}

// Ask is a request for permits.
type Ask struct {
	Permits  int           // 1 to min(limit, WeightMax); 0 means 1
	AllFree  bool          // instead of Permits: all that is free, up to WeightMax; Wait must be 0
	Wait     time.Duration // how long it may stay in line; 0: a try, which never overtakes a waiter
	TTL      time.Duration // 0: the definition's; Never: until released; else TTLMin to the definition's TTLMax
	Priority int           // -PriorityMax to PriorityMax; a head start, see Definition.PriorityStep
	Kept     bool          // the engine renews the lease until it is released, cancelled or lost
	Holder   HolderInfo
	Key      string      // names the request: asking again with it, on any replica, is the same request; of Holder.Principal alone
	Ticket   string      // of a Refusal: resumes its place in line
	Create   *Definition // creates the semaphore when there is none; compared with what it was created by
	Digest   uint64      // of what the request says besides, to Weigh: with another one it is not the request that the key names; 0: nothing
	// Weigh asks the policy that the semaphore is bound to, if it is, what the request weighs. It is called once, without locks, when
	// the request comes in as a new one: what asks again by a key or a ticket brings along what was said the first time. Ask calls it
	// before it returns (then Standing.Inline is set), or a goroutine of the engine's. Its error ends the request. nil: it weighs what
	// it asks for.
	Weigh func(Standing) (Weighed, error)
}

// Lease is a grant.
type Lease struct {
	Capability string // ID and MAC: what its holder alone has
	ID         string
	Semaphore  string
	Requested  int
	Weight     int
	Slots      quorum.Slots
	Fence      int64
	Holder     string
	TTL        time.Duration // Never: until released; then Validity and RenewAfter are 0
	Validity   time.Duration // from now on
	RenewAfter time.Duration
	Replayed   bool // it was granted before, to the same request or to whom it is attached from
	Policy     PolicyVersion
}

// Refusal says that a request was not granted in time, and how things stand.
type Refusal struct {
	Limit, InUse, Waiting, Ahead int
	Paused                       bool
	Resting                      time.Duration // after a cold start: nothing is granted before leases that the nodes may have forgotten have ended
	RetryAfter                   time.Duration // when trying again may help; > 0
	Ticket                       string        // of one that has waited: resumes its place on any replica, for TicketValid
	PlaceKept                    time.Duration // for so long its key resumes its place here; 0: it has none
}

// Outcome is what became of a request: Refusal is nil exactly if it was granted.
type Outcome struct {
	Lease   Lease
	Refusal *Refusal
}

// Events is how a request hears what becomes of it. The engine calls one method at a time for a request, in the order in
// which things happened, with locks held: a method must not block and must not call the engine.
//
// A request ends with Refused or Failed, or after Granted with Lost or the release of its lease; nothing is called after
// its end, nor once Cancel has returned.
type Events interface {
	Waiting(ahead int) // it is in line; again when ahead changed, at most once a second
	Granted(Lease)
	Refused(Refusal)
	Failed(error)            // one of the errors below
	Renewed(v time.Duration) // validity; of kept leases
	Expiring(v time.Duration, reason string)
	// Lost is told expired where hold_max was reached or this replica was stopped for too long, released (by its capability, from
	// elsewhere), broken, moved, deleted, or quorum_lost where renewals failed.
	Lost(reason string)
}

// Released tells what a release did.
type Released struct {
	ID      string
	Held    bool // a part is still held
	Weight  int  // what is still held
	Cooling time.Duration
	Again   bool // it had ended before: this release has changed nothing
}

// LeaseInfo is a lease for people and lists. It has no capability.
type LeaseInfo struct {
	ID, Semaphore string
	Weight        int
	Slots         quorum.Slots
	Fence         int64
	HolderInfo
	Policy    PolicyVersion
	Cooling   bool
	GrantedAt time.Time
	Age       time.Duration
	ExpiresIn time.Duration // Never: it does not
}

// NodeStatus is a node as this replica sees it.
type NodeStatus struct {
	Name        string
	Index       int    // -1: not known yet
	State       string // up, down, suspended, readmitting, out, replaced
	Reason      string // of a state that is not up
	Since       time.Time
	Era         int64
	ClockOffset time.Duration // node clock less the median of all that are known; 0 while unknown
	Latency     time.Duration // of the last probe
	Warning     string        // what is wrong with it though it votes; "": nothing
	GrantingAt  time.Time     // after a cold start it grants nothing before, and later on semaphores that had longer leases; zero: no such wait
}

// Errors of requests. What a caller asked for did not happen, unless said otherwise.
var (
	ErrUnknownSemaphore  = errors.New("there is no such semaphore")
	ErrTooManySemaphores = errors.New("too many semaphores were created on use")
	ErrQuorumUnavailable = errors.New("fewer than a quorum of the nodes answered")
	ErrNotConfirmed      = errors.New("not confirmed by a quorum yet; the server keeps trying")
	ErrDraining          = errors.New("the server is shutting down")
	ErrTooManyWaiters    = errors.New("too many wait already")
	ErrRevMismatch       = errors.New("the semaphore was changed meanwhile")
	ErrSemaphoreInUse    = errors.New("the semaphore has holders")
	ErrUnknownLease      = errors.New("there is no such lease") // the capability is not ours
	ErrLeaseExpired      = errors.New("the lease has expired")  // or ended longer ago than nodes remember
	ErrLeaseReleased     = errors.New("the lease was released")
	ErrLeaseBroken       = errors.New("the lease was broken by an operator")
	ErrInProgress        = errors.New("the nodes do not agree yet on what became of the lease")
	ErrCancelled         = errors.New("the request was cancelled")
)

// DrainingError is ErrDraining for a request that has waited: its ticket resumes the place on another replica.
type DrainingError struct{ Ticket string }

func (e *DrainingError) Error() string { return ErrDraining.Error() }

// Is makes it an ErrDraining.
func (e *DrainingError) Is(target error) bool { return target == ErrDraining }

// WeightError: more permits were asked for than the semaphore has.
type WeightError struct{ Requested, Weight, Limit int }

func (e *WeightError) Error() string {
	return fmt.Sprintf("weight %d exceeds the limit %d", e.Weight, e.Limit)
}

// DefinitionConflict: the semaphore was created by another definition than the request brings.
type DefinitionConflict struct{ Yours, Existing Definition }

func (e *DefinitionConflict) Error() string { return "the semaphore was created by another definition" }

// InvalidError: a field of a definition or a request is out of its range.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// Condition makes a change depend on what is there. The zero value asks for nothing.
type Condition struct {
	IfRev    int64 // > 0: only this revision
	IfAbsent bool  // only if there is no such semaphore
}
