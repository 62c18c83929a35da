package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// BindingConfigMax bounds Binding.Config.
const BindingConfigMax = 16 << 10 // bytes

// Binding ties a semaphore to a policy. The engine keeps it with the definition and hands it to Ask.Weigh; what it means is the
// business of who is asked there. The zero value is none.
type Binding struct {
	Policy    string // its name
	Config    string `json:",omitempty"` // at most BindingConfigMax
	OnFault   string `json:",omitempty"`
	Timeout   time.Duration
	Isolation string `json:",omitempty"`
	Mode      string `json:",omitempty"`
}

// Standing is what a policy may know of a semaphore when a request comes in.
type Standing struct {
	Binding   Binding
	Limit     int
	Available int           // at most standingAge old
	Waiting   int           // of all replicas; likewise
	TTLMax    time.Duration // of the definition
	Inline    bool          // Ask waits for the answer; ErrLater has it asked again where nobody does
}

// ErrLater is what Ask.Weigh may say to a Standing that is Inline.
var ErrLater = errors.New("ask again in the background")

// Weighed is what a policy made of a request.
type Weighed struct {
	Weight   int           // beyond the limit or WeightMax it is a *WeightError; 0: as asked, and the rest does not count
	Priority *int          // overrides the request's; nil: as asked
	TTL      time.Duration // likewise; 0: as asked
	Policy   PolicyVersion
}

// PolicyVersion is a policy as it was when it was asked. The zero value is none.
type PolicyVersion struct {
	Name       string
	Generation int64
}

// standingAge is how old Standing.Available may be. Where requests come more often nobody needs to ask for it: claims tell it.
const standingAge = 100 * time.Millisecond

// unweighed reports whether a policy has to be asked before the request can be let in. mu is held and def is known.
func (r *Request) unweighed() bool {
	return r.ask.Weigh != nil && !r.judged && !r.resumes && r.s.def.Definition.Policy != Binding{}
}

// weigh asks the policy and then lets the request in: from Ask itself where that can be, since another goroutine may have to wait for
// a core, else in the background. mu is held.
func (s *semaphore) weigh(r *Request) {
	r.phase = weighing
	now := s.e.cfg.Now()
	standing := s.standing()
	fresh := s.freeAt > 0 && now-s.freeAt <= standingAge
	later := func() { s.e.work.Go(func() { s.weighNow(r, standing, fresh) }) }
	if !fresh || !r.asking {
		later()
		return
	}
	r.inline = func() {
		standing.Inline = true
		word, err := r.ask.Weigh(standing)
		if standing.Inline = false; errors.Is(err, ErrLater) {
			later()
			return
		}
		s.locked(func() { s.wasWeighed(r, word, err) })
	}
}

func (s *semaphore) weighNow(r *Request, standing Standing, fresh bool) {
	if !fresh {
		standing = s.look()
	}
	word, err := r.ask.Weigh(standing)
	s.locked(func() { s.wasWeighed(r, word, err) })
}

// standing is how things are as far as this replica was told. mu is held and def is known.
func (s *semaphore) standing() Standing {
	d := &s.def.Definition
	return Standing{
		Binding: d.Policy, Limit: d.Limit, TTLMax: d.TTLMax, Waiting: s.line.waiters + s.elsewhere,
		Available: min(max(0, s.freeSeen), d.Limit),
	}
}

// look asks the nodes how things are.
func (s *semaphore) look() (standing Standing) {
	ctx, cancel := context.WithTimeout(s.e.ctx, s.e.cfg.NodeTimeout)
	defer cancel()
	anything := func(a *Answer) bool { return a.Says == SaysDone }
	answers := s.e.gather(ctx, func(*peer) Op { return &Line{Semaphore: s.name, Replica: s.e.replica} }, s.e.quorumOf(anything))
	var frees []int
	elsewhere := 0
	for _, a := range answers {
		if a != nil && anything(a) {
			frees, elsewhere = append(frees, a.Free), max(elsewhere, a.Elsewhere)
		}
	}
	s.locked(func() {
		if len(frees) >= s.e.quorum {
			slices.Sort(frees)
			s.freeSeen, s.freeAt = frees[len(frees)-s.e.quorum], s.e.cfg.Now()
			s.elsewhere = elsewhere
		}
		if s.def != nil {
			standing = s.standing()
		}
	})
	return standing
}

// wasWeighed lets a request in as its policy says, or the same request that was made again meanwhile. mu is held.
func (s *semaphore) wasWeighed(r *Request, word Weighed, err error) {
	r = r.newest()
	switch {
	case r.phase != weighing: // cancelled meanwhile
		s.keepWord(r, word, err)
	case s.e.draining.Load():
		r.fail(ErrDraining)
	case err != nil:
		r.fail(err)
	default:
		r.judged = true
		r.obeys(word)
		s.comesIn(r)
	}
}

// newest is the request, or who was made again in its place while it was weighed. mu is held.
func (r *Request) newest() *Request {
	for r.heir != nil {
		r = r.heir
	}
	return r
}

// obeys takes over what a policy said. mu is held.
func (r *Request) obeys(word Weighed) {
	if word.Weight == 0 {
		return
	}
	r.word, r.judged, r.weight = word, true, word.Weight
	if word.Priority != nil {
		r.ask.Priority = *word.Priority
	}
	if word.TTL > 0 {
		r.ask.TTL = word.TTL
	}
}

// bindingsAtOnce is how many definitions Bindings reads at once.
const bindingsAtOnce = 32

// Bindings are those of all semaphores that are bound to a policy, by name. It reads every definition. Errors: ErrQuorumUnavailable, the
// context's.
func (e *Engine) Bindings(ctx context.Context) (map[string]Binding, error) {
	var mu sync.Mutex // guards what follows
	bound := map[string]Binding{}
	var failed error
	for after := ""; ; {
		names, next, err := e.names(ctx, Names{After: after, Count: namesMax})
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(names, bindingsAtOnce) {
			var reads sync.WaitGroup
			for _, name := range some {
				reads.Go(func() {
					st, _, err := e.readDefinition(ctx, name)
					mu.Lock()
					defer mu.Unlock()
					switch st = live(st); {
					case err != nil:
						failed = err
					case st != nil && st.Definition.Policy != Binding{}:
						bound[name] = st.Definition.Policy
					}
				})
			}
			reads.Wait()
			if failed != nil {
				return nil, failed
			}
		}
		if next == "" {
			return bound, nil
		}
		after = next
	}
}
