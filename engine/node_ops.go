package engine

import (
	"time"

	"github.com/permitd/permitd/engine/quorum"
)

// Every operation begins with the same steps (quorum.md section 2):
//
//  1. no node record, another cluster or index, or a state that is not ok: SaysOut
//  2. the node's own era differs from Known[Index], or a Known[i] of the node is larger: SaysStale.
//     A larger one in the header, of another node, is remembered
//  3. now < At-50ms or now > At+5s: SaysLate
//  4. of the semaphore it names, drop leases, cooling and places whose time is over, and tombstones:
//     at most dropLeases or dropSlots, but at least one. Answer.More says that more are due
//
// A lease's time is over when now >= expiry.

// Claim asks for Weight slots for a lease. In this order:
//
//   - no definition, or a deleted one: SaysUndefined
//   - a tombstone of (Lease, By): SaysGone
//   - a record of this lease with another By: SaysExists
//   - the own record (same By), not a copy: granted again as it is, with what is left
//   - Bound > 0 and the accepted definition's ballot is not Ballot: SaysBallot
//   - a slot in use (or cooling) at or beyond the limit and Bound = 0: SaysOver, naming them in Beyond
//   - paused: SaysPaused, waiting as below
//   - the wait after a cold start is not over: SaysFull
//   - places before Order, of this replica too, neither passed over nor heavier than the limit, and
//     free < Weight + all the weight that waits at those replicas: SaysBehind
//   - free < Weight, free being counted below min(limit, Bound if any): SaysFull
//   - else the first free slots from Start on, wrapping at that bound; fence = max(last fence + 1,
//     floor + 1, Fence); SaysGranted
//
// A copy of its own record is treated as no grant: its slots are kept if no other lease has one of
// them here, else SaysFull; the fence is raised as above, copy cleared, ver kept: SaysGranted.
//
// Refused with Wait by full, behind, paused or over, the replica's place becomes Placement.Place
// under the placement's mode. Granted, it becomes Placement.Next, or none when Next's order is zero,
// whatever it was.
// After a grant and after a refusal: if there is room for the head of the line, it is woken,
// unless the head is this replica's place just stated by this very claim.
type Claim struct {
	Semaphore string
	Lease     string
	By        string
	Owner     Owner
	Info      string // for people: opaque to the node, at most 4 KiB
	Weight    int
	TTL       time.Duration // at most 60 s
	Fence     int64         // proposed
	Start     int           // where to look for free slots first; taken modulo the bound
	Ballot    Ballot        // the definition's, with Bound
	Bound     int           // 0: the limit of the definition
	Wait      bool
	Order     Order
}

// Mend puts a lease on the slots and fence a majority agrees on.
//
//   - a tombstone of (Lease, By), a record of another By, a later ver, the same ver with other slots
//     (not when New is false and Owner.Gen is 0), a larger owner, or now >= Until: SaysNo
//   - Owner.Gen > 0 and New (a retry): the accepted definition's ballot is not Ballot: SaysBallot; a slot at or
//     beyond the limit: SaysOver; the record here would get a slot that it does not have: SaysNo
//   - one of the slots is another lease's, or cools: SaysNo; and if New and this is no retry, this lease's record here is
//     dropped when its ver is smaller and its slots differ
//   - else the record holds exactly Slots with Ver, Owner and Ballot; New: fence = max(last fence + 1, floor + 1,
//     Fence), but a record with these slots already and no copy: max(its fence, Fence); not New: Fence.
//     A new record's expiry is now + TTL, of an existing one max(expiry, now + TTL); copy is cleared; the semaphore's
//     last fence becomes max(last fence, fence): SaysMended
//
// What a renewal's or a retry's mend takes away from a record cools as a released part does.
type Mend struct {
	Semaphore string
	Lease     string
	By        string
	Owner     Owner
	Info      string
	Ver       int64
	Slots     quorum.Slots
	Fence     int64
	Ballot    Ballot
	TTL       time.Duration
	First     bool  // the record is on its first minute (quorum.md section 4, Grant)
	Until     int64 // node clock, µs; the mend is void from then on
	New       bool  // of a claim that is not decided; else of a lease that is granted
}

// Renew lengthens a lease.
//
//   - a tombstone of (Lease, By), a record of another By, a later ver, or now >= Until: SaysNo
//   - a larger owner: SaysMoved
//   - no record, a smaller ver, or a slot that the record does not hold: SaysMissing
//   - a slot that another lease holds too: SaysNo
//   - else slots, ver, fence, ballot and the larger owner become these, expiry = max(expiry, now + TTL), first
//     and copy are cleared, last fence = max(last fence, fence); slots taken away cool as a part: SaysRenewed
type Renew struct {
	Semaphore string
	Lease     string
	By        string
	Owner     Owner
	Ver       int64
	Slots     quorum.Slots
	Fence     int64
	Ballot    Ballot
	Until     int64 // node clock, µs
	TTL       time.Duration
}

// Why a lease ended, as tombstones keep it.
const (
	WhyReleased  = "released"
	WhyBroken    = "broken"
	WhyCleaned   = "cleaned"
	WhyGivenBack = "given back"
)

// Release ends a lease, or gives a part of it back.
//
//   - a record of another By stays, and a tombstone for this By is written all the same
//   - a record whose owner is larger than Owner, unless AnyOwner: SaysKept, nothing changes
//   - Slots empty: all is given back, the record dropped, and (Lease, By) gets a tombstone, also
//     when there was no record: SaysReleased. It lives for 60 s; of why released or broken as long as the lease
//     could still run, by Left or by the record, an hour at most
//   - all is given back that has no record here, and was broken before (SaysBroken, to a Why released) or released before (SaysGone,
//     to a Why broken): as SaysReleased
//   - Slots named: a part. A record with ver < Ver loses these slots and gets Ver; one with ver >= Ver
//     is left as it is; nothing left of it: as all: SaysReleased
//   - with Tells every replica hears that a record was dropped or lost a part: a Wake of EveryReplica, which names semaphore and lease
//   - with min_hold left (granted at + min_hold > now), what is freed cools until then, except by a break or a
//     give-back
//
// A give-back states its replica's place as the Placement says, and under PlaceIfLast (its waiter goes on waiting) does not
// wake the place it just stated. Room for the head: it is woken, but
// not Replica when Follows.
type Release struct {
	Semaphore string
	Lease     string
	By        string
	Owner     Owner
	AnyOwner  bool
	Slots     quorum.Slots // empty: all
	Ver       int64        // of a part
	Left      time.Duration
	Why       string
	Replica   string
	Follows   bool // a claim of Replica's head follows in the lane
	Tells     bool // another replica may keep the lease
}

// Attach makes another replica's request the owner of a lease. Only a record of this By, with these
// Slots and Ver, that is no copy, shares no slot with another lease, has no tombstone, and whose owner is smaller:
// expiry = max(expiry, now + Left): SaysAttached. A larger owner: SaysMoved; the same owner: attached again; else SaysNo.
type Attach struct {
	Semaphore string
	Lease     string
	By        string
	Owner     Owner
	Slots     quorum.Slots
	Ver       int64
	Left      time.Duration
}

// Line states the replica's place as the Placement says, and wakes the head if it fits: SaysDone, with Free.
type Line struct {
	Semaphore string
	Replica   string
}

// Find reads one lease with its tombstones: Answer.Record (nil if there is none) and Answer.Tombstones.
type Find struct {
	Semaphore string
	Lease     string
}

// View reads a semaphore, its leases by pages: Answer.View.
type View struct {
	Semaphore string
	Cursor    string // "" at first, then View.Next of the page before
	Count     int    // about how many leases a page has; at most 1,000
}

// Names lists the semaphores of this node that have an accepted definition which is not deleted, in the
// order of their bytes: Answer.Names.
type Names struct {
	Prefix  string
	After   string // only names greater than this
	Count   int    // at most 1,000
	Deleted bool   // those whose definition is deleted instead
}

// Kinds of registers.
const (
	RegisterSemaphore = "semaphore" // Name is the semaphore's
	RegisterCluster   = "cluster"   // cluster-wide values, such as the secret
)

// Prepare is the first half of a change of a register: it promises to accept no smaller ballot.
// A promise or accepted ballot that is larger or equal: SaysNo with Promise; else SaysPromised with the accepted Value and
// Ballot, if any.
type Prepare struct {
	Kind, Name string
	Ballot     Ballot
}

// Accept is the second half: a promise or accepted ballot larger than Ballot: SaysNo with Promise; else
// the value is accepted: SaysAccepted. Of a semaphore, an accept that makes room wakes the head. One of another ballot
// than was accepted before tells every replica: a Wake of EveryReplica, which names the semaphore, or none.
type Accept struct {
	Kind, Name string
	Ballot     Ballot
	Value      Value
}

// Peek reads a register as this node has it, without a promise: SaysDone with Value and Ballot, zero if there is none.
type Peek struct {
	Kind, Name string
}

// Drop removes a register whose accepted value is deleted under this very ballot, where no larger one is promised and nothing is
// held, cools or waits; it raises the fence floor to the largest fence it forgets: SaysDone, or SaysNo with Promise.
type Drop struct {
	Kind, Name string
	Ballot     Ballot
}

func (*Claim) op() string   { return "claim" }
func (*Mend) op() string    { return "mend" }
func (*Renew) op() string   { return "renew" }
func (*Release) op() string { return "release" }
func (*Attach) op() string  { return "attach" }
func (*Line) op() string    { return "line" }
func (*Find) op() string    { return "find" }
func (*View) op() string    { return "view" }
func (*Names) op() string   { return "names" }
func (*Prepare) op() string { return "prepare" }
func (*Accept) op() string  { return "accept" }
func (*Peek) op() string    { return "peek" }
func (*Drop) op() string    { return "drop" }
