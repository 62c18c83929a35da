package engine

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// Node is one independent memory of permits: a Redis server (redisnode) or this process's own store
// (localnode). It executes requests one at a time, each whole or not at all, and answers from its
// own memory and its own clock only. What each operation does is written at its type; the protocol is
// explained in doc.go.
//
// Safe for concurrent use.
type Node interface {
	// Name is how people see the node: an address without credentials, or a directory.
	Name() string

	// Start connects, in the background, and begins to serve. now is the coordinator's clock.
	// replica names the wake channel. It is called once.
	Start(replica string, now func() time.Duration, events NodeEvents)

	// Send puts the calls at the end of the node's lane, side by side (nothing comes between them, and they
	// go out in one pipeline where it has room), and returns at once. Calls reach the node in the order in which they
	// were sent. Call.Done is called exactly once, from a goroutine of the node's own, never from within Send, also
	// after Close. The slice is the caller's again afterwards.
	Send(calls ...*Call)

	// Close gives up what is under way, answering it with ErrClosed, and waits for the node's
	// goroutines. It may be called twice.
	Close()
}

// NodeEvents is what a node tells the engine unasked. The methods do not block; they are called from one
// goroutine of the node at a time.
type NodeEvents interface {
	// Probed is called with each answer to the look at the server that a node takes at every connect,
	// each second, and after an answer that hints at a restart or a failover. At a connect it comes
	// before any call is written. connected tells the first after a (re)connect.
	// When the probe's Refusal is set, calls are not written; they fail with an ErrOut.
	Probed(p Probe, connected bool)
	// Down is called when the connection is lost or cannot be made.
	Down(err error)
	// Woken is called with each message on this replica's wake channel.
	Woken(Wake)
}

// What became of a call that the node gave no answer to. Whether it was executed is not known,
// ErrDown and ErrOut aside.
var (
	ErrDown     = errors.New("node is not connected")             // not sent
	ErrOut      = errors.New("node does not count")               // not sent: its record does not match, see NodeStatus
	ErrTimeout  = errors.New("node did not answer in time")       // the connection was thrown away
	ErrLost     = errors.New("connection to the node was lost")   // while the call was under way
	ErrBroken   = errors.New("node answered with an error")       // wrapped: OOM, READONLY, a damaged record, …
	ErrClosed   = errors.New("node is closed")                    // by Close
	ErrTooLarge = errors.New("node was asked for more than fits") // a queue is full
)

// Never is the Left or TTL of a lease that lives until it is released. Written "never" on the wire.
const Never = time.Duration(math.MaxInt64)

// Limits that nodes and coordinators share (quorum.md).
const (
	claimTTLMax      = 60 * time.Second        // the longest TTL of a claim; longer ones are renewed at once
	placeLapse       = 1500 * time.Millisecond // after its last statement a place is gone
	placePassedAfter = 100 * time.Millisecond  // after a wake, a place not stated again is passed over
	attemptEarly     = 50 * time.Millisecond   // now < at - attemptEarly is late
	attemptLate      = 5 * time.Second         // now > at + attemptLate is late
	tombstoneMin     = 60 * time.Second        // the least life of a tombstone
	tombstoneMax     = time.Hour               // the longest life of a tombstone
	dropLeases       = 1000                    // ended leases, cooling entries and places dropped in one call
	dropSlots        = 10_000                  // slots freed by that in one call, the first entry aside
	blobComing       = time.Hour               // after its last piece a blob that is not whole is forgotten
)

// NodeLimits are the constants of the rules that both kinds of node apply; exported for them.
var NodeLimits = struct {
	PlaceLapse, PlacePassedAfter, Early, Late, TombstoneMin, TombstoneMax time.Duration
	BlobComing                                                            time.Duration
	DropLeases, DropSlots                                                 int
}{placeLapse, placePassedAfter, attemptEarly, attemptLate, tombstoneMin, tombstoneMax, blobComing, dropLeases, dropSlots}

// Call is one request to one node.
type Call struct {
	Header *Header
	// At is the sender's estimate of the node's clock at the start of the attempt or round, in µs,
	// and stays so when the call is sent again. Zero: not checked (operations of forming and readmission).
	At int64
	Op Op
	// Fill, if not nil, is called once by the node's goroutine just before the call is written, and
	// tells what the call states about the replica's place, so that what is written last is true.
	Fill func() Placement
	Done func(*Answer)
}

// Header is what a coordinator knows when it asks. Immutable: a new one is made when it learns more,
// so nodes may keep what they encoded of it.
type Header struct {
	Cluster string
	Index   int
	Known   []int64 // the largest era it heard of every node; Known[Index] is this node's
}

// Op is one of the operations: those of leases, the line and registers (node_ops.go), of nodes that are out (node_era.go), of blobs
// (node_blob.go).
type Op interface{ op() string }

// OpName returns the name of an operation, as used in metrics and in the names of scripts.
func OpName(o Op) string { return o.op() }

// Says is what a node says to a request.
type Says string

// What a node says.
const (
	SaysOut       Says = "out"       // it must not be asked: Answer.State, Answer.Reason
	SaysStale     Says = "stale"     // somebody's eras are behind: Answer.Known
	SaysLate      Says = "late"      // the attempt's time is over
	SaysGranted   Says = "granted"   // claim
	SaysFull      Says = "full"      // claim
	SaysBehind    Says = "behind"    // claim
	SaysPaused    Says = "paused"    // claim
	SaysUndefined Says = "undefined" // claim
	SaysGone      Says = "gone"      // claim; release: it was released before
	SaysExists    Says = "exists"    // claim
	SaysOver      Says = "over"      // claim, mend
	SaysBallot    Says = "ballot"    // claim, mend: another definition is accepted here
	SaysMended    Says = "mended"    // mend
	SaysRenewed   Says = "renewed"   // renew
	SaysMissing   Says = "missing"   // renew
	SaysMoved     Says = "moved"     // renew, attach: a larger owner
	SaysReleased  Says = "released"  // release
	SaysBroken    Says = "broken"    // release: it was broken before
	SaysKept      Says = "kept"      // release: a larger owner
	SaysAttached  Says = "attached"  // attach
	SaysPromised  Says = "promised"  // prepare
	SaysAccepted  Says = "accepted"  // accept
	SaysDone      Says = "done"      // line, find, view, names, peek, drop, and what node_era.go has
	SaysNo        Says = "no"        // as the operation says
)

// Answer is what a node says to a call. Which fields are set depends on the operation; those of the
// first group are set by every answer without Err.
type Answer struct {
	Err            error         // no answer; then nothing else is set, but Sent if it was written
	Says           Says          //
	Time           int64         // the node's clock, µs
	Known          []int64       // the node's eras, where they differ from the header's; else nil
	More           bool          // more leases are due to be dropped: ask again at once
	Sent, Received time.Duration // by the coordinator's clock: just before the call was written, just after its answer was read

	// Of claim, mend, renew, release, attach. Slots, Fence, Ver, Left are those of the record as it is now,
	// where there is one.
	Slots      quorum.Slots
	Fence      int64
	Ver        int64
	Left       time.Duration // Never for a lease without an end
	Definition Ballot        // of the accepted definition; zero: none
	Beyond     quorum.Slots  // claim: slots in use at or beyond the limit
	Free       int           // free slots below the bound, after the operation; of line too
	NextEnd    time.Duration // of a refused claim: until a wait ends, else until the next end of a lease, of cooling or pass-over; 0: none is known

	// Of claim, release, line: the line as it is now.
	Place     Order // this replica's own place, zero: none
	Elsewhere int   // waiters of other replicas with places not passed over
	Before    int   // those of them at replicas whose place is before the claim's (or this replica's) order
	BeforeIs  Order // the first place before it, of behind

	State      string // of out: the record's state
	Reason     string // of out: why
	Record     *Record
	Tombstones []Tombstone
	View       *ViewPage
	Names      []string
	Data       string // of get_blob
	Pieces     int    // likewise
	Promise    Ballot
	Value      Value
	Node       *NodeRecord
	Page       *Page    // of read
	Twins      []Record // of find: other attempts of the lease, which a readmission has brought here

	Term int64 // out of which memory the node said it, as the call's header names it (see NodeRecord.term); set by the engine
}

// Record is a lease as one node has it.
type Record struct {
	Lease, By string
	Owner     Owner
	Slots     quorum.Slots
	Fence     int64
	Ver       int64
	Left      time.Duration // Never for a lease without an end
	First     bool          // still on its first minute
	Copy      bool          // told to a readmitted node: blocks its slots, is no vote
	Ballot    Ballot        // of the definition it was claimed under
	Age       time.Duration // since the first placement here
	Touched   time.Duration // since the last claim or mend here
	Info      string
}

// Tombstone is a node's memory of what was given back.
type Tombstone struct {
	By       string
	Owner    Owner
	AnyOwner bool
	Why      string
	Left     time.Duration
	Age      time.Duration // since it was written here
}

// ViewPage is a page of a semaphore as one node has it.
type ViewPage struct {
	Definition Ballot
	Value      Value
	Leases     []Record
	Cooling    []Cooling // first page only
	Places     []Placed  // first page only
	LastFence  int64
	LongestTTL time.Duration
	Wait       time.Duration // until the node grants anything after a cold start; 0: it does
	Next       string        // "": this was the last page
}

// Cooling is what min_hold still keeps from being granted.
type Cooling struct {
	Lease string
	Slots quorum.Slots
	Left  time.Duration
}

// Placed is a replica's place in the line of a node.
type Placed struct {
	Place
	Passed bool // passed over: woken more than 100 ms ago and not stated since
}

// Place is what a replica states about its line: its oldest waiter, and how many wait.
type Place struct {
	Order  Order         // of its oldest waiter; zero: none waits
	Weight int           // of that waiter
	Count  int           // all who wait at the replica
	Total  int           // their weight together
	Oldest time.Duration // how long the oldest has waited
}

// Mode says when a Placement's Place is taken.
type Mode uint8

// Modes of a Placement.
const (
	PlaceKeep   Mode = iota // state nothing
	PlaceIfLast             // unless this replica's place here is before it: then that one's count, total and oldest are refreshed
	PlaceIfWas              // only if this replica's place here is still Was (zero: none)
	PlaceAlways             // whatever it is: after a reconnect with nothing under way
)

// Placement says what a call states about its replica's place. A Place with a zero order clears it.
// A place that is stated again, or refreshed by PlaceIfLast, is no longer passed over.
type Placement struct {
	Mode  Mode
	Was   Order
	Place Place
	Next  Place // of a claim: the place if it is granted
}

// Value is what a register holds. Limit, MinHold and Paused are what nodes apply themselves; Data is the rest.
type Value struct {
	Limit   int
	MinHold time.Duration
	Paused  bool
	Deleted bool
	Data    string
}

// Owner says whose duty a lease is: to renew it, to release it. The larger pair wins.
type Owner struct {
	Gen   int64  // 0 at the claim, the largest seen + 1 at each attach
	Nonce string // the replica and request
}

// Compare orders owners.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(cmp.Compare(o.Gen, p.Gen), cmp.Compare(o.Nonce, p.Nonce))
}

// Ballot numbers the writes of a register, and tokens; zero is before all.
type Ballot = quorum.Version

// Order is what sorts the line, the same on every node. Zero means none.
type Order struct {
	Arrival int64  // µs, by the median of the estimated node clocks, less priority x step; > 0
	Replica string // 16 base32 characters, new at each start of a replica
	Seq     int64  // the replica's counter
}

// Compare orders the line.
func (o Order) Compare(p Order) int {
	return cmp.Or(cmp.Compare(o.Arrival, p.Arrival), cmp.Compare(o.Replica, p.Replica), cmp.Compare(o.Seq, p.Seq))
}

// IsZero reports whether o is no order at all.
func (o Order) IsZero() bool { return o == Order{} }

// EveryReplica is the replica of a Wake that goes to all: the semaphore's definition has changed, or if it names none a register of
// the cluster, or if it names a lease, that was ended or lost a part through a replica that does not keep it. Its other fields are zero.
const EveryReplica = "*"

// Wake is the message of a node to the replica of the head of a line: there is room for it.
type Wake struct {
	Node      int // index in the cluster
	Semaphore string
	Lease     string // of what goes to all
	Order     Order  // of the place
	Slot      int    // a free slot: the one just freed, if there is one; -1: none named
	Free      int    // free slots below the limit
}

// States of a node's record.
const (
	StateOK        = "ok"
	StateFrozen    = "frozen"
	StateSuspended = "suspended"
)

// FormatNow is the format of the records this version writes; a larger one is refused at start.
const FormatNow = 1

// Probe is a look at a node's server and record.
type Probe struct {
	Time           int64 // the node's clock, µs
	Sent, Received time.Duration
	RunID          string
	Replid         string
	Version        string      // of the server, for people
	Record         *NodeRecord // nil: blank
	// Refusal, if not nil, says why the node does not count whatever its record says: too old a
	// server, an eviction policy other than noeviction, a replica, a record of another run_id or
	// replid, a record not ok, a newer format. Calls other than freeze, load and commit then fail with ErrOut.
	Refusal error
	// Fatal tells that Refusal is a mistake of configuration that a start must refuse (version, policy, replica, format).
	Fatal bool
	// Durable tells that the node keeps what it has on disk.
	Durable bool
	// Advice is what to set so that it does; "": nothing can be set.
	Advice string
	// Full tells that its memory is used up: it refuses claims, mends and changes of registers, and nothing else.
	Full bool
}
