package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// observers remembers the observers of a histogram by what their labels come from, since looking one up by the labels hashes each of
// them. Safe for concurrent use.
type observers[K comparable] struct {
	mu sync.RWMutex
	of map[K]prometheus.Observer
}

// get returns the observer of a key, which look finds the first time.
func (o *observers[K]) get(key K, look func() prometheus.Observer) prometheus.Observer {
	o.mu.RLock()
	found := o.of[key]
	o.mu.RUnlock()
	if found != nil {
		return found
	}
	found = look()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[K]prometheus.Observer{}
	}
	o.of[key] = found
	return found
}
