package server

import (
	"sync"
	"time"
)

// What is over is remembered for a while, since whatever ended it may be repeated.
const (
	recentTime = time.Minute
	recentMax  = 1000 // in one generation; there are two
)

// recent remembers words, such as the semaphores of leases that are over, for one to two generations.
type recent struct {
	since time.Time // of young
	young map[string]string
	old   map[string]string
}

func (r *recent) add(key, word string) {
	if now := time.Now(); r.young == nil || len(r.young) >= recentMax || now.Sub(r.since) >= recentTime {
		r.old, r.young, r.since = r.young, map[string]string{}, now
	}
	r.young[key] = word
}

// get returns "" for what is not remembered.
func (r *recent) get(key string) string {
	if s := r.young[key]; s != "" {
		return s
	}
	return r.old[key]
}

// forget drops a word.
func (r *recent) forget(key string) {
	delete(r.young, key)
	delete(r.old, key)
}

// sharedRecent is a recent for several goroutines.
type sharedRecent struct {
	mu sync.Mutex
	recent
}

func (r *sharedRecent) add(key, word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.add(key, word)
}

func (r *sharedRecent) get(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent.get(key)
}
