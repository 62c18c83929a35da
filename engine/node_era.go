package engine

import (
	"time"
)

// The operations by which nodes are formed, taken out and taken back (quorum.md sections 4 and 5). Freeze, Load, Commit and a
// Read that names a token need no matching header: they are for nodes that are out. The others begin as every operation does.

// Freeze stops a node that is out, for Token's bearer. A blank node gets a record with the token and a new instance nonce; what
// a node has stays as it is. Refused with SaysNo and the record: a larger token; a token that is neither Token nor Was; Token's own
// that was committed; Cluster is not that of a node that was ever ok (a forming names none); RunID is not the server's.
type Freeze struct {
	Token   Ballot
	Was     Ballot
	Cluster string
	RunID   string
}

// Mark makes an ok node remember that Node, by its index, is of a larger era: from then on it refuses whoever still counts on the
// older one. The era known is smaller, or was marked by this very token: SaysDone; else SaysNo. Both with the record.
type Mark struct {
	Node  int
	Era   int64
	Token Ballot
}

// Read reads what a node remembers, for a merge. With a token it is for a node that is frozen by it, and reads the memory
// that it has: its own; of a node that never was ok, what was loaded into it as a whole. Without, it is for an ok node. Refused
// with SaysNo and the record: not frozen by Token; RunID is not the server's, or not the record's.
//
// Semaphore empty: Answer.Page has names of semaphores, cluster-wide registers, tombstones and the fence floor. Else it has that
// semaphore. Both by pages; a name or a tombstone may come twice.
type Read struct {
	Token     Ballot
	RunID     string
	Semaphore string
	Cursor    string // "" at first, then Page.Next of the page before
}

// ReadMax is about how many names, tombstones or leases a page of Read has at most, and a page of Load may have.
const ReadMax = 500

// Load lays down, beside what the node has, the identity, and page by page the memory, that Commit will switch to. Only while
// frozen by Token and under RunID, and only in order: Seq counts the pages under one token from 0 on, and the last one may be
// repeated, which changes nothing. Else SaysNo. Both with the record.
//
// Leases that are loaded are copies. A Load without a page is of a forming: there is no memory but the node's own, which
// has nothing in it.
type Load struct {
	Token   Ballot
	RunID   string
	Cluster string
	N       int
	Index   int
	Known   []int64 // Known[Index] is the era that the node will be of
	Wait    time.Duration
	Seq     int
	More    bool  // further pages follow
	Page    *Page // nil: a forming
}

// Commit switches to what Load laid down under Token, all of it: the node is ok from then on, and its fences are larger
// than its time; written again under the same token it answers the same. SaysDone, or SaysNo; both with the record.
type Commit struct {
	Token Ballot
	RunID string
}

// Suspend takes an ok node out: its clock jumped. SaysDone with the record.
type Suspend struct {
	Reason string
}

// Note tells an ok node what is known of the others: which instance is in use for each index, which is taken where it is
// of a larger era than the one known or the same in another place, how their clocks stand to its own, and how long leases may last.
// SaysDone.
type Note struct {
	Instances []Instance    // by index; without an era: not known
	Offsets   []Offset      // by index; zero: not known
	Longest   time.Duration // the longest TTL of a lease that is known of; the node keeps the largest
}

func (*Freeze) op() string  { return "freeze" }
func (*Mark) op() string    { return "mark" }
func (*Read) op() string    { return "read" }
func (*Load) op() string    { return "load" }
func (*Commit) op() string  { return "commit" }
func (*Suspend) op() string { return "suspend" }
func (*Note) op() string    { return "note" }

// ForNodesOut reports whether an operation is one of those for nodes that are out: a node does it whatever its last probe
// has shown.
func ForNodesOut(op Op) bool {
	switch op := op.(type) {
	case *Freeze, *Load, *Commit:
		return true
	case *Read:
		return op.Token != Ballot{}
	}
	return false
}

// NodeRecord is what a node keeps of itself (quorum.md section 1).
type NodeRecord struct {
	Format     int // of the keys; see FormatNow
	Cluster    string
	N          int
	Index      int
	RunID      string // the server's, when the record was written
	Replid     string // master_replid, likewise
	State      string // StateOK, …
	Reason     string
	EverOK     bool
	Era        int64 // = Known[Index]
	Known      []int64
	Instance   string     // nonce, new with each record
	Token      Ballot     // of whoever froze it last
	Marks      []Marked   // by index; nil: none yet. Holds while Known is still of that era
	InUse      []Instance // by index; nil: none yet
	Offsets    []Offset   // by index; nil: none yet
	Pending    *Pending   // laid down by Load, not committed
	FenceFloor int64
	Longest    time.Duration // of Note
	WaitEnd    int64         // after a cold start nothing is granted before; node clock, µs; 0: none
}

// Marked is by whose token an era was marked.
type Marked struct {
	Era   int64
	Token Ballot
}

// Instance is a node's memory that is in use for an index.
type Instance struct {
	Era     int64
	Nonce   string // NodeRecord.Instance
	Address string // as people see it
}

// Offset is how far another node's clock is ahead of this one's, at least and at most, as of this one's time At; µs. It was
// seen when that node was of Era: a later one may have another clock.
type Offset struct{ Lo, Hi, At, Era int64 }

// Pending is an identity that was loaded and waits for its commit.
type Pending struct {
	Token    Ballot
	Cluster  string
	N        int
	Index    int
	Known    []int64
	WaitEnd  int64 // node clock, µs
	Pages    int   // of memory, as far as they were loaded; 0: a forming
	Complete bool  // all were
}

// HasMemory reports whether what the node remembers is all that it ever acknowledged, as far as its record can tell: it was ok
// once, or was loaded with all that the others had.
func (r *NodeRecord) HasMemory() bool {
	return r != nil && (r.EverOK || r.Pending != nil && r.Pending.Complete)
}

// Page is a part of a node's memory.
type Page struct {
	Names      []string // of semaphores; of Read only
	Registers  []RegisterCopy
	Semaphores []SemaphoreCopy
	Tombstones []TombstoneCopy
	FenceFloor int64
	Next       string // of Read: the cursor of the next page; "": this was the last
}

// RegisterCopy is a cluster-wide register.
type RegisterCopy struct {
	Name            string
	Promise, Ballot Ballot
	Value           Value
}

// SemaphoreCopy is a semaphore, or a further part of it, which has Leases only.
type SemaphoreCopy struct {
	Name            string
	Further         bool
	Promise, Ballot Ballot
	Value           Value
	LastFence       int64
	LongestTTL      time.Duration
	Wait            time.Duration // what is left of the wait after a cold start
	Leases          []Record
	Cooling         []Cooling
	Places          []Place
}

// TombstoneCopy is a tombstone with what it is of.
type TombstoneCopy struct {
	Semaphore, Lease string
	Tombstone
}
