package policies

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Why instances are thrown away; for metrics.
const (
	discardFault  = "fault"
	discardClosed = "closed"
	discardUses   = "uses"
	discardAge    = "age"
	discardMemory = "memory"
	discardFresh  = "fresh"
	discardRoom   = "room"
	discardDrain  = "drain"
)

var discardReasons = [...]string{
	discardFault, discardClosed, discardUses, discardAge, discardMemory, discardFresh, discardRoom, discardDrain,
}

// pool has a version's instances: as many at work as there are slots, and idle ones for the calls to come. An instance
// belongs to the configuration it was made for.
type pool struct {
	program *program
	meter   *meter
	slots   chan struct{} // holds an element for each instance at work

	mu        sync.Mutex  // guards what follows
	idle      []*instance // the one used last is the last
	idleBytes int
	busy      map[string]int // instances at work by configuration
	closed    bool
}

func newPool(p *program, slots int, m *meter) *pool {
	return &pool{program: p, meter: m, slots: make(chan struct{}, slots), busy: map[string]int{}}
}

// enter takes a slot; the wait for it does not count as the policy's time. The error is a *Fault, or the request's own end.
func (p *pool) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(slotWaitMax)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &Fault{FaultOverloaded, ""}
	}
}

func (p *pool) leave() { <-p.slots }

// take returns an idle instance, or makes one. With fresh it is one that has never been used. The caller has a slot, and gives the
// instance to put or discard.
func (p *pool) take(config string, fresh bool) (*instance, error) {
	if i := p.takeIdle(config, fresh); i != nil {
		return i, nil
	}
	began := time.Now()
	i, _, err := p.program.instantiate(config)
	p.meter.instantiated(time.Since(began))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[config]++
	return i, nil
}

func (p *pool) takeIdle(config string, fresh bool) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for at := len(p.idle) - 1; at >= 0; at-- {
		i := p.idle[at]
		if i.config != config || fresh && i.uses > 0 {
			continue
		}
		p.removeLocked(at)
		if why := i.spent(now); why != "" {
			p.endLocked(i, why)
			continue
		}
		p.busy[config]++
		return i
	}
	return nil
}

// put gives back an instance that has answered.
func (p *pool) put(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restLocked(i)
	p.addLocked(i)
}

// discard throws away an instance.
func (p *pool) discard(i *instance, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restLocked(i)
	p.endLocked(i, why)
}

// prepare makes an instance for later, if there is room for it.
func (p *pool) prepare(config string) error {
	began := time.Now()
	i, _, err := p.program.instantiateAgain(config)
	p.meter.instantiated(time.Since(began))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(i)
	return nil
}

// addLocked makes an instance idle, if it is worth it, and makes room by ending those that were idle longest.
func (p *pool) addLocked(i *instance) {
	why := i.spent(time.Now())
	if p.closed {
		why = discardDrain
	}
	if why != "" {
		p.endLocked(i, why)
		return
	}
	p.idle = append(p.idle, i)
	p.idleBytes += int(i.module.Memory().Size())
	for len(p.idle) > idleMax || p.idleBytes > idleBytesMax {
		oldest := p.idle[0]
		p.removeLocked(0)
		p.endLocked(oldest, discardRoom)
	}
}

func (p *pool) removeLocked(at int) {
	p.idleBytes -= int(p.idle[at].module.Memory().Size())
	p.idle = slices.Delete(p.idle, at, at+1)
}

func (p *pool) restLocked(i *instance) {
	if p.busy[i.config]--; p.busy[i.config] == 0 {
		delete(p.busy, i.config)
	}
}

func (p *pool) endLocked(i *instance, why string) {
	i.close()
	p.meter.discarded(why)
}

// trim ends idle instances that are too old.
func (p *pool) trim(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := len(p.idle) - 1; at >= 0; at-- {
		if i := p.idle[at]; i.spent(now) != "" {
			p.removeLocked(at)
			p.endLocked(i, discardAge)
		}
	}
}

// close ends the idle instances; those at work end when they are put back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, i := range p.idle {
		p.endLocked(i, discardDrain)
	}
	p.idle, p.idleBytes = nil, 0
}

// inUse counts instances by configuration, idle ones too: what a successor warms up to.
func (p *pool) inUse() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[string]int{}
	for config, n := range p.busy {
		counts[config] += n
	}
	for _, i := range p.idle {
		counts[i.config]++
	}
	return counts
}

// count tells how many instances there are.
func (p *pool) count() (busy, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.busy {
		busy += n
	}
	return busy, len(p.idle)
}
