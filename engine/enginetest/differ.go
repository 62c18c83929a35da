package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// Differ walks a blank node and the rules of localnode.State through the same random operations, and fails the test at the
// first difference: in an answer, in a wake, or in what View, Find, Peek and Names then read. The state is given the times
// that the node answers with, so that times must agree to the microsecond.
//
// nodes are the ways of some replicas to the node, not started; MeReplica must be among them, and over its way everything is
// sent. The others are there to be woken.
func Differ(t testing.TB, seed uint64, steps int, pace Pace, nodes map[string]engine.Node) {
	t.Helper()
	d := &differ{TB: t, seed: seed, start: time.Now(), ears: map[string]*ears{}, node: nodes[MeReplica], state: localnode.NewState()}
	for replica, node := range nodes {
		d.ears[replica] = &ears{woken: make(chan engine.Wake, 1000), probed: make(chan engine.Probe, 1)}
		t.Cleanup(node.Close)
		node.Start(replica, func() time.Duration { return time.Since(d.start) }, d.ears[replica])
	}
	d.form()
	d.listen()
	walk := newWalk(seed, pace, d.state)
	for d.step = 1; d.step <= steps; d.step++ {
		walk.now = d.now
		s := walk.next()
		time.Sleep(s.pause)
		d.last = s.op
		d.inTurn(append([]step{s}, walk.follow(s)...))
		d.compareMemory(s.op, d.step%50 == 0)
	}
	d.quiet()
}

// MeReplica is the replica over whose way Differ sends everything.
const MeReplica = me

// OtherReplicas are the others that the walk of Differ speaks for.
var OtherReplicas = slices.DeleteFunc(slices.Clone(walkReplicas), func(r string) bool { return r == me })

// differ is a walk under way.
type differ struct {
	testing.TB
	seed  uint64
	step  int
	last  engine.Op // of the walk
	start time.Time
	node  engine.Node
	state *localnode.State
	ears  map[string]*ears // by replica
	now   int64            // the node's time as last told, µs
}

// form forms the node and the state alike.
func (d *differ) form() {
	d.Helper()
	for replica, ears := range d.ears {
		select {
		case p := <-ears.probed:
			d.state.RunID, d.state.Replid = p.RunID, p.Replid
		case <-time.After(answerWithin):
			d.fail("the node was not seen by %s in time", replica)
		}
	}
	token, known := engine.Ballot{Counter: 1, Replica: me}, []int64{7, 7, 7}
	for _, op := range []engine.Op{
		&engine.Freeze{Token: token, RunID: d.state.RunID},
		&engine.Load{Token: token, RunID: d.state.RunID, Cluster: clusterID, N: 3, Index: 1, Known: known},
		&engine.Commit{Token: token, RunID: d.state.RunID},
	} {
		d.both(&engine.Header{}, 0, engine.Placement{}, op)
	}
}

// both lets the node and then the state execute an operation, and compares what came of it.
func (d *differ) both(header *engine.Header, at int64, placement engine.Placement, op engine.Op) {
	d.Helper()
	d.inTurn([]step{{header: header, at: at, placement: placement, op: op}})
}

// inTurn does so with several operations that are sent at once.
func (d *differ) inTurn(steps []step) {
	d.Helper()
	for i, got := range d.send(steps) {
		d.judge(&steps[i], got)
	}
}

// judge lets the state execute an operation that the node has answered, and compares what came of it.
func (d *differ) judge(s *step, got *engine.Answer) {
	d.Helper()
	op := s.op
	if errors.Is(got.Err, engine.ErrOut) { // it knows by itself that it would be out
		if r := d.state.Record(); r != nil && r.State == engine.StateOK {
			d.fail("%s: %v; the state is ok", engine.OpName(op), got.Err)
		}
		return
	}
	if got.Err != nil {
		d.fail("%s: %v", engine.OpName(op), got.Err)
	}
	if got.Time < d.now {
		d.fail("the node's time went from %d to %d", d.now, got.Time)
	}
	d.now = got.Time
	want, wakes := d.state.Apply(d.now, s.header, s.at, s.placement, op)
	d.compare(op, s.placement, compared(got), compared(want))
	for _, wake := range wakes {
		d.compareWake(op, wake)
	}
	if _, commit := op.(*engine.Commit); commit && want.Says == engine.SaysDone {
		d.serving()
	}
}

// serving waits until the node has noticed that it is ok.
func (d *differ) serving() {
	d.Helper()
	r := d.state.Record()
	header := &engine.Header{Cluster: r.Cluster, Index: r.Index, Known: r.Known}
	for end := time.Now().Add(answerWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a := d.send([]step{{header: header, op: &engine.Names{Count: 1}}})[0]; a.Err == nil && a.Says == engine.SaysDone {
			return
		}
	}
	d.fail("the node did not serve in time")
}

// send returns what the node answers to operations that are sent at once.
func (d *differ) send(steps []step) []*engine.Answer {
	d.Helper()
	answered := make(chan *engine.Answer, len(steps)) // a node answers in the order in which it executes
	var calls []*engine.Call
	for _, s := range steps {
		calls = append(calls, &engine.Call{
			Header: s.header, At: s.at, Op: s.op,
			Fill: func() engine.Placement { return s.placement },
			Done: func(a *engine.Answer) { answered <- a },
		})
	}
	d.node.Send(calls...)
	var answers []*engine.Answer
	for _, s := range steps {
		select {
		case a := <-answered:
			answers = append(answers, a)
		case <-time.After(answerWithin):
			d.fail("%s was not answered in time", engine.OpName(s.op))
		}
	}
	return answers
}

// compareMemory reads what the operation may have changed; all of it now and then.
func (d *differ) compareMemory(op engine.Op, all bool) {
	d.Helper()
	r := d.state.Record()
	if r.State != engine.StateOK {
		return
	}
	header := &engine.Header{Cluster: r.Cluster, Index: r.Index, Known: slices.Clone(r.Known)}
	read := func(op engine.Op) { d.both(header, 0, engine.Placement{}, op) }
	view := func(semaphore string) { read(&engine.View{Semaphore: semaphore, Count: 1000}) }
	if !all {
		if semaphore := semaphoreOf(op); semaphore != "" {
			view(semaphore)
			if lease := leaseOf(op); lease != "" {
				read(&engine.Find{Semaphore: semaphore, Lease: lease})
			}
		}
		return
	}
	for _, semaphore := range walkSemaphores {
		view(semaphore)
		for _, lease := range walkLeases {
			read(&engine.Find{Semaphore: semaphore, Lease: lease})
		}
		read(&engine.Peek{Kind: engine.RegisterSemaphore, Name: semaphore})
	}
	for _, name := range walkRegisters {
		read(&engine.Peek{Kind: engine.RegisterCluster, Name: name})
	}
	read(&engine.Names{Count: 1000})
	read(&engine.Names{Count: 1000, Deleted: true})
	if err := d.state.Check(); err != nil {
		d.fail("the state is wrong in itself: %v", err)
	}
}

// semaphoreOf returns the semaphore that an operation is about, "" if about none.
func semaphoreOf(op engine.Op) string {
	switch op := op.(type) {
	case *engine.Names, *engine.Freeze, *engine.Load, *engine.Commit, *engine.Mark, *engine.Note, *engine.Suspend, *engine.Read,
		*engine.PutBlob, *engine.GetBlob, *engine.DropBlob, *engine.Blobs:
		return ""
	case *engine.Prepare:
		return registerOf(op.Kind, op.Name)
	case *engine.Accept:
		return registerOf(op.Kind, op.Name)
	case *engine.Peek:
		return registerOf(op.Kind, op.Name)
	case *engine.Drop:
		return registerOf(op.Kind, op.Name)
	default:
		return words(op)[0]
	}
}

func registerOf(kind, name string) string {
	if kind != engine.RegisterSemaphore {
		return ""
	}
	return name
}

// compared returns the answer without what may differ: times of this side, texts for people, names that nodes make up,
// orders that mean nothing, cursors.
func compared(a *engine.Answer) *engine.Answer {
	c := *a
	c.Sent, c.Received, c.Reason = 0, 0, ""
	if c.Node != nil {
		record := *c.Node
		record.Instance = ""
		c.Node = &record
	}
	c.Tombstones = slices.SortedFunc(slices.Values(c.Tombstones), func(a, b engine.Tombstone) int { return strings.Compare(a.By, b.By) })
	c.Twins = slices.SortedFunc(slices.Values(c.Twins), func(a, b engine.Record) int { return strings.Compare(a.By, b.By) })
	if c.Page != nil {
		c.Page = comparedPage(*c.Page)
	}
	if c.View != nil {
		page := *c.View
		page.Next = ""
		page.Leases = slices.SortedFunc(slices.Values(page.Leases), compareRecords)
		page.Cooling = slices.SortedFunc(slices.Values(page.Cooling), func(a, b engine.Cooling) int {
			return cmp.Or(cmp.Compare(a.Left, b.Left), strings.Compare(a.Lease, b.Lease), strings.Compare(a.Slots.String(), b.Slots.String()))
		})
		c.View = &page
	}
	return &c
}

func compareRecords(a, b engine.Record) int {
	return cmp.Or(strings.Compare(a.Lease, b.Lease), strings.Compare(a.By, b.By))
}

// comparedPage does so with a page of Read. Nodes list names in any order, also those that they know tombstones of only.
func comparedPage(p engine.Page) *engine.Page {
	p.Next, p.Names = "", nil
	p.Tombstones = nil // they come with some page
	for i := range p.Semaphores {
		c := &p.Semaphores[i]
		c.Leases = slices.SortedFunc(slices.Values(c.Leases), compareRecords)
		c.Cooling = slices.SortedFunc(slices.Values(c.Cooling), func(a, b engine.Cooling) int {
			return cmp.Or(cmp.Compare(a.Left, b.Left), strings.Compare(a.Lease, b.Lease), strings.Compare(a.Slots.String(), b.Slots.String()))
		})
	}
	return &p
}

func (d *differ) compare(op engine.Op, placement engine.Placement, got, want *engine.Answer) {
	d.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		d.fail("%s %+v\nplacement %+v\nthe state says %s\nthe node says %s\n(-state +node):\n%s",
			engine.OpName(op), op, placement, summary(want), summary(got), diff)
	}
}

// fail ends the test.
func (d *differ) fail(format string, args ...any) {
	d.Helper()
	last := ""
	if d.last != nil {
		last = fmt.Sprintf("%s %+v", engine.OpName(d.last), d.last)
	}
	d.Fatalf("seed %d, step %d, %s:\n%s", d.seed, d.step, last, fmt.Sprintf(format, args...))
}
