package engine

import (
	"container/heap"
	"sync"
	"time"
)

// tickEvery is how often duties are looked at that no timer wakes in time after the machine was suspended: Go's timers
// do not count through that, Config.Now does.
const tickEvery = 250 * time.Millisecond

// keeper is one goroutine that looks at every lease when it is due: to renew it, or because its validity is over.
type keeper struct {
	now func() time.Duration

	mu   sync.Mutex // guards what follows
	heap leaseHeap
	wake chan struct{} // capacity 1: the first due has moved to the front
}

// set makes a lease due at a time; one that is in already is moved.
func (k *keeper) set(l *lease, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.due = due
	if l.index >= 0 {
		heap.Fix(&k.heap, l.index)
	} else {
		heap.Push(&k.heap, l)
	}
	if k.heap[0] == l {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// drop forgets a lease.
func (k *keeper) drop(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&k.heap, l.index)
	}
}

// next takes out the leases that are due, and says when to look again.
func (k *keeper) next() (due []*lease, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for len(k.heap) > 0 && k.heap[0].due <= now {
		due = append(due, heap.Pop(&k.heap).(*lease))
	}
	wait = tickEvery
	if len(k.heap) > 0 {
		wait = min(wait, k.heap[0].due-now)
	}
	return due, wait
}

// run attends to leases until done is closed.
func (k *keeper) run(done <-chan struct{}) {
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		due, wait := k.next()
		for _, l := range due {
			l.attend()
		}
		timer.Reset(wait)
		select {
		case <-done:
			return
		case <-timer.C:
		case <-k.wake:
		}
	}
}

// leaseHeap is a heap of leases by due.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*lease)
	l.index = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index = -1
	return l
}
