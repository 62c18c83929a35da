package redisnode

import (
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/permitd/permitd/engine"
)

// encoder turns calls into the arguments of EVALSHA, as the headers of the scripts say. It belongs to the lane.
type encoder struct {
	prefix  string
	scripts map[string]call

	header *engine.Header // that head and era were made of
	head   string
	era    string
}

// call is what begins each call of a script with one number of keys.
type call struct {
	evalsha, sha any
}

func newEncoder(prefix string, scripts map[string]script) *encoder {
	e := &encoder{prefix: prefix, scripts: map[string]call{}}
	for name, s := range scripts {
		e.scripts[name] = call{evalsha: "evalsha", sha: s.sha}
	}
	return e
}

// Numbers of keys of the scripts. Boxed once.
var (
	oneKey    any = "1"
	twoKeys   any = "2"
	threeKeys any = "3"
	fiveKeys  any = "5"
	sevenKeys any = "7"
)

// encode writes calls that one script executes: several only where inTurn says so.
func (e *encoder) encode(a *arguments, calls ...*engine.Call) {
	c := calls[0]
	switch op := c.Op.(type) {
	case *engine.Claim, *engine.Release, *engine.Line:
		e.turns(a, calls)
	case *engine.Mend:
		e.mend(a, c, op)
	case *engine.Renew:
		e.renew(a, c, op)
	case *engine.Attach:
		e.attach(a, c, op)
	case *engine.Find:
		e.lease(a, c, op.Semaphore, op.Lease)
	case *engine.View:
		e.semaphore(a, c, op.Semaphore)
		a.text(op.Cursor)
		a.number(int64(pageSize(op.Count)))
	case *engine.Names:
		e.names(a, c, op)
	default:
		e.encodeRegister(a, c)
	}
}

// encodeRegister writes a call that is about a register or the node record.
func (e *encoder) encodeRegister(a *arguments, c *engine.Call) {
	switch op := c.Op.(type) {
	case *engine.Prepare:
		e.register(a, c, op.Kind, op.Name)
		a.ballot(op.Ballot)
	case *engine.Accept:
		e.accept(a, c, op)
	case *engine.Peek:
		e.register(a, c, op.Kind, op.Name)
	case *engine.Drop:
		e.register(a, c, op.Kind, op.Name)
		a.ballot(op.Ballot)
		a.flag(op.Kind == engine.RegisterSemaphore)
	case *engine.PutBlob, *engine.GetBlob, *engine.DropBlob, *engine.Blobs:
		e.encodeBlob(a, c)
	case *engine.Freeze:
		e.node(a, op)
		a.ballot(op.Token)
		a.ballot(op.Was)
		a.word(op.Cluster)
		a.text(op.RunID)
		a.word(rand.Text())
	case *engine.Load:
		e.load(a, op)
	case *engine.Commit:
		e.node(a, op)
		a.ballot(op.Token)
		a.text(op.RunID)
	case *engine.Mark:
		e.node(a, op)
		e.stamp(a, c)
		a.number(int64(op.Node))
		a.number(op.Era)
		a.ballot(op.Token)
	case *engine.Suspend:
		e.node(a, op)
		e.stamp(a, c)
		a.text(op.Reason)
	case *engine.Note:
		e.note(a, c, op)
	case *engine.Read:
		e.readPage(a, c, op)
	default:
		panic(fmt.Sprintf("redisnode: unknown operation %T", op))
	}
}

// start begins a call of a script with as many keys.
func (e *encoder) start(a *arguments, op engine.Op, keys any) {
	e.startScript(a, engine.OpName(op), keys)
}

func (e *encoder) startScript(a *arguments, name string, keys any) {
	begin := e.scripts[name]
	a.reset(begin.evalsha, begin.sha, keys)
}

// read makes the head and the era of a call's header, which most calls share.
func (e *encoder) read(h *engine.Header) {
	if h == e.header {
		return
	}
	b := append([]byte(engine.StateOK), ' ')
	b = append(strconv.AppendInt(b, int64(h.Index), 10), ' ')
	b = append(appendEras(b, h.Known), ' ')
	e.header, e.head, e.era = h, string(appendWord(b, h.Cluster)), "0"
	if h.Index >= 0 && h.Index < len(h.Known) {
		e.era = strconv.FormatInt(h.Known[h.Index], 10)
	}
}

// stamp adds what every operation but those for nodes that are out begins with: the head that the node record must have, and
// the estimate of the node's clock.
func (e *encoder) stamp(a *arguments, c *engine.Call) {
	e.read(c.Header)
	a.text(e.head)
	a.number(c.At)
}

// semaphore begins a call about a semaphore.
func (e *encoder) semaphore(a *arguments, c *engine.Call, name string) {
	e.start(a, c.Op, fiveKeys)
	e.semaphoreKeys(a, c.Header, "sem", "used", "ends", "cool", name)
	e.stamp(a, c)
	a.text("")
}

// lease begins a call about a lease.
func (e *encoder) lease(a *arguments, c *engine.Call, semaphore, lease string) {
	e.start(a, c.Op, sevenKeys)
	e.leaseKeys(a, c.Header, semaphore)
	e.stamp(a, c)
	a.word(lease)
}

// leaseKeys adds the keys of a semaphore and those of tombstones.
func (e *encoder) leaseKeys(a *arguments, h *engine.Header, semaphore string) {
	e.semaphoreKeys(a, h, "sem", "used", "ends", "cool", semaphore)
	a.key(e.prefix, "gone", e.era, "short:0")
	a.key(e.prefix, "gone", e.era, "short:1")
}

// semaphoreKeys adds the keys of a semaphore, or of a register that is kept like one. They carry the node's own era: what is loaded into
// the node is that of its next one, and lies beside what it has until it is committed.
func (e *encoder) semaphoreKeys(a *arguments, h *engine.Header, sem, used, ends, cool, name string) {
	e.read(h)
	e.nodeKey(a)
	a.key(e.prefix, sem, e.era, name)
	a.key(e.prefix, used, e.era, name)
	a.key(e.prefix, ends, e.era, name)
	a.key(e.prefix, cool, e.era, name)
}

func (e *encoder) nodeKey(a *arguments) {
	p := a.next()
	p.bytes = append(append(p.bytes, e.prefix...), ":node"...)
}

// namesKey adds the key of the names of semaphores: of those that are deleted, or of the others.
func (e *encoder) namesKey(a *arguments, deleted bool) {
	kind := ":names:"
	if deleted {
		kind = ":deleted:"
	}
	p := a.next()
	p.bytes = append(append(append(p.bytes, e.prefix...), kind...), e.era...)
}

// register begins a call about a register.
func (e *encoder) register(a *arguments, c *engine.Call, kind, name string) {
	e.start(a, c.Op, sevenKeys)
	if kind == engine.RegisterSemaphore {
		e.semaphoreKeys(a, c.Header, "sem", "used", "ends", "cool", name)
	} else {
		e.semaphoreKeys(a, c.Header, "reg", "reg-used", "reg-ends", "reg-cool", name)
	}
	e.namesKey(a, false)
	e.namesKey(a, true)
	e.stamp(a, c)
	a.text("")
}

// node begins a call about the node record.
func (e *encoder) node(a *arguments, op engine.Op) {
	e.start(a, op, oneKey)
	e.nodeKey(a)
}

func (a *arguments) claim(op *engine.Claim, p engine.Placement) {
	a.word(op.By)
	a.owner(op.Owner)
	a.text(op.Info)
	a.number(int64(op.Weight))
	a.duration(op.TTL)
	a.number(op.Fence)
	a.number(int64(op.Start))
	a.ballot(op.Ballot)
	a.number(int64(max(0, op.Bound)))
	a.flag(op.Wait)
	a.order(op.Order)
	a.word(op.Order.Replica)
	a.placement(p)
	a.place(p.Next)
}

// placement adds a mode, the order that the place must have, and the place.
func (a *arguments) placement(p engine.Placement) {
	a.number(int64(p.Mode))
	a.order(p.Was)
	a.place(p.Place)
}

func (e *encoder) mend(a *arguments, c *engine.Call, op *engine.Mend) {
	e.lease(a, c, op.Semaphore, op.Lease)
	a.word(op.By)
	a.owner(op.Owner)
	a.text(op.Info)
	a.number(op.Ver)
	a.slots(op.Slots)
	a.number(op.Fence)
	a.ballot(op.Ballot)
	a.duration(op.TTL)
	a.flag(op.First)
	a.number(op.Until)
	a.flag(op.New)
}

func (e *encoder) renew(a *arguments, c *engine.Call, op *engine.Renew) {
	e.lease(a, c, op.Semaphore, op.Lease)
	a.word(op.By)
	a.owner(op.Owner)
	a.number(op.Ver)
	a.slots(op.Slots)
	a.number(op.Fence)
	a.ballot(op.Ballot)
	a.number(op.Until)
	a.duration(op.TTL)
}

func (a *arguments) release(op *engine.Release, p engine.Placement) {
	a.word(op.By)
	a.owner(op.Owner)
	a.flag(op.AnyOwner)
	a.slots(op.Slots)
	a.number(op.Ver)
	a.duration(op.Left)
	a.word(op.Why)
	a.word(op.Replica)
	a.flag(op.Follows)
	a.flag(op.Tells)
	a.placement(p)
}

func (a *arguments) line(op *engine.Line, p engine.Placement) {
	a.word(op.Replica)
	a.placement(p)
}

func (e *encoder) attach(a *arguments, c *engine.Call, op *engine.Attach) {
	e.lease(a, c, op.Semaphore, op.Lease)
	a.word(op.By)
	a.owner(op.Owner)
	a.slots(op.Slots)
	a.number(op.Ver)
	a.duration(op.Left)
}

func (e *encoder) names(a *arguments, c *engine.Call, op *engine.Names) {
	e.start(a, op, twoKeys)
	e.read(c.Header)
	e.nodeKey(a)
	e.namesKey(a, op.Deleted)
	e.stamp(a, c)
	from, to := nameRange(op.Prefix, op.After)
	a.text(from)
	a.text(to)
	a.number(int64(pageSize(op.Count)))
}

// nameRange returns the names that begin with prefix and are greater than after, as ZRANGEBYLEX takes them.
func nameRange(prefix, after string) (from, to string) {
	from, to = "["+prefix, "+"
	if after != "" && after >= prefix {
		from = "(" + after
	}
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] < 0xff { // the first string that is greater than all that begin with prefix
			to = "(" + prefix[:last] + string([]byte{prefix[last] + 1})
			break
		}
	}
	return from, to
}

func (e *encoder) accept(a *arguments, c *engine.Call, op *engine.Accept) {
	e.register(a, c, op.Kind, op.Name)
	a.ballot(op.Ballot)
	a.flag(op.Kind == engine.RegisterSemaphore)
	p := a.next()
	p.bytes = appendValue(p.bytes, &op.Value)
	a.text(op.Value.Data)
}

func (e *encoder) note(a *arguments, c *engine.Call, op *engine.Note) {
	e.node(a, op)
	e.stamp(a, c)
	a.number(op.Longest.Microseconds())
	for i := range max(len(op.Instances), len(op.Offsets)) {
		p := a.next()
		if i < len(op.Instances) && op.Instances[i].Era > 0 {
			in := &op.Instances[i]
			p.bytes = append(strconv.AppendInt(p.bytes, in.Era, 10), ' ')
			p.bytes = append(appendWord(p.bytes, in.Nonce), ' ')
			p.bytes = appendWord(p.bytes, in.Address)
		}
		p = a.next()
		if i < len(op.Offsets) && op.Offsets[i] != (engine.Offset{}) {
			o := &op.Offsets[i]
			p.bytes = append(strconv.AppendInt(p.bytes, o.Lo, 10), ' ')
			p.bytes = append(strconv.AppendInt(p.bytes, o.Hi, 10), ' ')
			p.bytes = strconv.AppendInt(p.bytes, o.Era, 10)
		}
	}
}

// pageMax is the most leases or names that one answer has.
const pageMax = 1000

// pageSize is how many of count one answer has.
func pageSize(count int) int { return min(max(count, 1), pageMax) }
