package server

import "time"

// Leases that are over are remembered for a while, since a release may be repeated.
const (
	recentTime = time.Minute
	recentMax  = 1000 // in one generation; there are two
)

// recent remembers the semaphores of leases that are over, for one to two generations.
type recent struct {
	since time.Time // of young
	young map[string]string
	old   map[string]string
}

func (r *recent) add(id, semaphore string) {
	if now := time.Now(); r.young == nil || len(r.young) >= recentMax || now.Sub(r.since) >= recentTime {
		r.old, r.young, r.since = r.young, map[string]string{}, now
	}
	r.young[id] = semaphore
}

// semaphore returns "" for a lease that is not remembered.
func (r *recent) semaphore(id string) string {
	if s := r.young[id]; s != "" {
		return s
	}
	return r.old[id]
}
