package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
)

// Config of a Host. The zero value of a field is its default.
type Config struct {
	Store     Store        // required
	Engine    Engine       // the compiler; the interpreter where machine code is forbidden
	Directory string       // of compiled code, for this process alone; a temporary one
	Slots     int          // calls at once in a policy; twice the cores, at least 4
	Log       *slog.Logger // none

	// Bindings reads the bindings of all semaphores, by name; Rebind and Delete call it. Without it those that were bound here count.
	Bindings func(ctx context.Context) (map[string]Binding, error)
}

// Host runs policies. It is safe for concurrent use. Close ends it, and waits for the goroutines that prepare instances, the only
// ones it starts.
type Host struct {
	cfg        Config
	workshop   *workshop
	temporary  *temporary // nil: the directory is the caller's
	background sync.WaitGroup
	tries      chan struct{} // holds an element for each dry run
	reading    chan struct{} // holds an element while bindings are read

	mu       sync.RWMutex // guards what follows
	policies map[string]*policy
	bound    map[string]Binding // by semaphore
	since    map[string]Binding // what was bound since they are read; the zero one: no more. nil: they are not
	closed   bool
}

// Names of directories, and how many dry runs there may be at once.
const (
	dryRunsMax  = 2
	slotsLeast  = 4
	slotsOfCore = 2
)

// Open makes a host. It runs nothing until Sync or Put.
func Open(cfg Config) (*Host, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("policies: Config.Store is required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Slots == 0 {
		cfg.Slots = max(slotsLeast, slotsOfCore*runtime.GOMAXPROCS(0))
	}
	cfg.Engine = usable(cfg.Engine, cfg.Log)
	var t *temporary
	if cfg.Directory == "" {
		cfg.Engine, t = withPlace(cfg.Engine, cfg.Log)
		cfg.Directory = t.code()
	}
	h := &Host{
		cfg: cfg, policies: map[string]*policy{}, bound: map[string]Binding{}, tries: make(chan struct{}, dryRunsMax),
		reading: make(chan struct{}, 1), temporary: t,
	}
	w, err := newWorkshop(cfg.Engine, cfg.Directory)
	if err != nil {
		return nil, errors.Join(err, h.removeTemporary())
	}
	h.workshop = w
	return h, nil
}

// Engine is how modules run here.
func (h *Host) Engine() Engine { return h.cfg.Engine }

// Close ends all policies. Calls under way go on to their end; later ones fail.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	all := h.policies
	h.policies = map[string]*policy{}
	h.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.swap(nil)
		p.mu.Unlock()
	}
	h.background.Wait()
	return h.removeTemporary()
}

func (h *Host) removeTemporary() error {
	if h.temporary == nil {
		return nil
	}
	t := h.temporary
	h.temporary = nil
	return t.remove()
}

// spawn runs what the host waits for at its end, if it is not there yet.
func (h *Host) spawn(work func()) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.closed {
		h.background.Go(work)
	}
}

// policy returns a policy by name, or nil.
func (h *Host) policy(name string) *policy {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.policies[name]
}

// lock returns a policy by name, made if need be, with its mu held: nobody else loads it.
func (h *Host) lock(name string) (*policy, error) {
	for {
		p, err := h.policyFor(name)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		if h.policy(name) == p {
			return p, nil
		}
		p.mu.Unlock() // it was deleted while we waited
	}
}

func (h *Host) policyFor(name string) (*policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	p := h.policies[name]
	if p == nil {
		p = &policy{name: name, here: HereCompiling}
		h.policies[name] = p
	}
	return p, nil
}
