package policies

import (
	"sync"
	"sync/atomic"
	"time"
)

// Here is what a policy is on this replica.
type Here string

// States of a policy on a replica.
const (
	HereReady     Here = "ready"
	HereCompiling Here = "compiling" // an older version may be at work meanwhile
	HereFailed    Here = "failed"
)

// policy is a name with the version at work under it.
type policy struct {
	name    string
	meter   meter
	current atomic.Pointer[version]

	mu   sync.Mutex // held while a version is loaded, so that one is at a time; guards nothing else
	look sync.Mutex // guards what follows
	here Here
	why  error // of HereFailed
	rev  int64 // that failed
	at   time.Time
}

// acquire returns the current version with a reference, or nil.
func (p *policy) acquire() *version {
	for {
		v := p.current.Load()
		if v == nil || v.retain() {
			return v
		}
	}
}

// swap puts a version to work, or nil; the calls in the old one go on, and the last of them closes it.
func (p *policy) swap(v *version) {
	if old := p.current.Swap(v); old != nil {
		old.release()
		p.meter.swaps.Add(1)
	}
}

// generation is that of the version at work; 0: none is.
func (p *policy) generation() int64 {
	if v := p.current.Load(); v != nil {
		return v.generation
	}
	return 0
}

func (p *policy) setHere(here Here, why error) {
	p.look.Lock()
	defer p.look.Unlock()
	p.here, p.why = here, why
}

// failed notes that a revision can not be loaded here.
func (p *policy) failed(rev int64, why error) {
	p.look.Lock()
	defer p.look.Unlock()
	p.here, p.why, p.rev, p.at = HereFailed, why, rev, time.Now()
}

// tooSoon returns why a revision could not be loaded, as long as it is not worth trying again.
func (p *policy) tooSoon(rev int64) error {
	p.look.Lock()
	defer p.look.Unlock()
	if p.here == HereFailed && p.rev == rev && time.Since(p.at) < loadAgain {
		return p.why
	}
	return nil
}

func (p *policy) state() (Here, error) {
	p.look.Lock()
	defer p.look.Unlock()
	return p.here, p.why
}

// warm makes an instance in a new version for each configuration that is bound, and then as many as the one at work has. The error
// is that of a configuration that is bound and that the new version does not take; what is in use no more may fail.
func (p *policy) warm(v *version, bound map[string]int) error {
	err := v.warm(bound)
	old := p.acquire()
	if old == nil || err != nil {
		return err
	}
	defer old.release()
	_ = v.warm(old.pool.inUse())
	return nil
}
