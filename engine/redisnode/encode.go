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

	header *engine.Header // that head was made of
	head   string
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
	fiveKeys  any = "5"
	sevenKeys any = "7"
)

// encode writes a call that states p about its replica's place.
func (e *encoder) encode(a *arguments, c *engine.Call, p engine.Placement) {
	switch op := c.Op.(type) {
	case *engine.Claim:
		e.claim(a, c, op, p)
	case *engine.Mend:
		e.mend(a, c, op)
	case *engine.Renew:
		e.renew(a, c, op)
	case *engine.Release:
		e.release(a, c, op, p)
	case *engine.Attach:
		e.attach(a, c, op)
	case *engine.Line:
		e.semaphore(a, c, op.Semaphore)
		a.word(op.Replica)
		placement(a, p)
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
	default:
		panic(fmt.Sprintf("redisnode: unknown operation %T", op))
	}
}

// start begins a call of a script with as many keys.
func (e *encoder) start(a *arguments, op engine.Op, keys any) {
	begin := e.scripts[engine.OpName(op)]
	a.reset(begin.evalsha, begin.sha, keys)
}

// stamp adds what every operation but those of forming begins with: the head that the node record must have, and the
// estimate of the node's clock.
func (e *encoder) stamp(a *arguments, c *engine.Call) {
	if c.Header != e.header {
		b := append([]byte(engine.StateOK), ' ')
		b = append(strconv.AppendInt(b, int64(c.Header.Index), 10), ' ')
		b = append(appendEras(b, c.Header.Known), ' ')
		e.header, e.head = c.Header, string(appendWord(b, c.Header.Cluster))
	}
	a.text(e.head)
	a.number(c.At)
}

// semaphore begins a call about a semaphore.
func (e *encoder) semaphore(a *arguments, c *engine.Call, name string) {
	e.start(a, c.Op, fiveKeys)
	e.semaphoreKeys(a, "sem", "used", "ends", "cool", name)
	e.stamp(a, c)
	a.text("")
}

// lease begins a call about a lease.
func (e *encoder) lease(a *arguments, c *engine.Call, semaphore, lease string) {
	e.start(a, c.Op, sevenKeys)
	e.semaphoreKeys(a, "sem", "used", "ends", "cool", semaphore)
	a.key(e.prefix, "gone", "short:0")
	a.key(e.prefix, "gone", "short:1")
	e.stamp(a, c)
	a.word(lease)
}

// semaphoreKeys adds the keys of a semaphore, or of a register that is kept like one.
func (e *encoder) semaphoreKeys(a *arguments, sem, used, ends, cool, name string) {
	e.nodeKey(a)
	a.key(e.prefix, sem, name)
	a.key(e.prefix, used, name)
	a.key(e.prefix, ends, name)
	a.key(e.prefix, cool, name)
}

func (e *encoder) nodeKey(a *arguments) {
	p := a.next()
	p.bytes = append(append(p.bytes, e.prefix...), ":node"...)
}

// namesKey adds the key of the names of semaphores: of those that are deleted, or of the others.
func (e *encoder) namesKey(a *arguments, deleted bool) {
	kind := ":names"
	if deleted {
		kind = ":deleted"
	}
	p := a.next()
	p.bytes = append(append(p.bytes, e.prefix...), kind...)
}

// register begins a call about a register.
func (e *encoder) register(a *arguments, c *engine.Call, kind, name string) {
	e.start(a, c.Op, sevenKeys)
	if kind == engine.RegisterSemaphore {
		e.semaphoreKeys(a, "sem", "used", "ends", "cool", name)
	} else {
		e.semaphoreKeys(a, "reg", "reg-used", "reg-ends", "reg-cool", name)
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

func (e *encoder) claim(a *arguments, c *engine.Call, op *engine.Claim, p engine.Placement) {
	e.lease(a, c, op.Semaphore, op.Lease)
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
	placement(a, p)
	a.place(p.Next)
}

// placement adds a mode, the order that the place must have, and the place.
func placement(a *arguments, p engine.Placement) {
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

func (e *encoder) release(a *arguments, c *engine.Call, op *engine.Release, p engine.Placement) {
	e.lease(a, c, op.Semaphore, op.Lease)
	a.word(op.By)
	a.owner(op.Owner)
	a.flag(op.AnyOwner)
	a.slots(op.Slots)
	a.number(op.Ver)
	a.duration(op.Left)
	a.word(op.Why)
	a.word(op.Replica)
	a.flag(op.Follows)
	placement(a, p)
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
	v := &op.Value
	p := a.next()
	p.bytes = append(strconv.AppendInt(p.bytes, int64(v.Limit), 10), ' ')
	p.bytes = append(strconv.AppendInt(p.bytes, v.MinHold.Microseconds(), 10), ' ')
	p.bytes = append(appendFlag(p.bytes, v.Paused), ' ')
	p.bytes = appendFlag(p.bytes, v.Deleted)
	a.text(v.Data)
}

func (e *encoder) load(a *arguments, op *engine.Load) {
	e.node(a, op)
	a.ballot(op.Token)
	a.text(op.RunID)
	p := a.next()
	p.bytes = append(strconv.AppendInt(p.bytes, int64(op.N), 10), ' ')
	p.bytes = append(strconv.AppendInt(p.bytes, int64(op.Index), 10), ' ')
	p.bytes = append(appendEras(p.bytes, op.Known), ' ')
	p.bytes = appendWord(p.bytes, op.Cluster)
}

// pageMax is the most leases or names that one answer has.
const pageMax = 1000

// pageSize is how many of count one answer has.
func pageSize(count int) int { return min(max(count, 1), pageMax) }
