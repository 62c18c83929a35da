package policies

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// EvaluateBuckets are the upper bounds of Metrics.Evaluate, in seconds.
var EvaluateBuckets = [...]float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 2e-2, 5e-2, 0.1}

// Histogram counts durations in the EvaluateBuckets; the last count is of those above all.
type Histogram struct {
	Counts [len(EvaluateBuckets) + 1]uint64
	Sum    time.Duration
}

// Metrics is what a policy has done since this process started. It outlives versions.
type Metrics struct {
	Evaluate    map[Outcome]Histogram // by outcome
	Faults      map[FaultKind]uint64
	Discards    map[string]uint64 // instances thrown away, by reason
	Instances   uint64            // made
	Instantiate time.Duration     // in all
	Compiles    uint64
	Compile     time.Duration // in all
	Swaps       uint64
	Differences uint64 // of evaluations in shadow
	Busy, Idle  int    // instances now
	BreakerOpen bool
	Generation  int64
	Runtimes    int // open: more than one while an old version drains
}

// meter collects Metrics. Its methods are safe for concurrent use.
type meter struct {
	evaluate  [len(outcomes)]histogram
	faults    [len(faultKinds)]atomic.Uint64
	discards  [len(discardReasons)]atomic.Uint64
	instances atomic.Uint64
	starting  atomic.Int64 // ns
	compiles  atomic.Uint64
	compiling atomic.Int64 // ns
	swaps     atomic.Uint64
	runtimes  atomic.Int64

	mu          sync.Mutex // guards what follows
	differences []Difference
	differed    uint64
}

type histogram struct {
	counts [len(EvaluateBuckets) + 1]atomic.Uint64
	sum    atomic.Int64 // ns
}

func (h *histogram) observe(d time.Duration) {
	at, _ := slices.BinarySearch(EvaluateBuckets[:], d.Seconds())
	h.counts[at].Add(1)
	h.sum.Add(int64(d))
}

func (m *meter) evaluated(o Outcome, d time.Duration) {
	m.evaluate[slices.Index(outcomes[:], o)].observe(d)
}

func (m *meter) faulted(kind FaultKind) { m.faults[slices.Index(faultKinds[:], kind)].Add(1) }

func (m *meter) discarded(why string) { m.discards[slices.Index(discardReasons[:], why)].Add(1) }

func (m *meter) instantiated(d time.Duration) {
	m.instances.Add(1)
	m.starting.Add(int64(d))
}

func (m *meter) compiled(d time.Duration) {
	m.compiles.Add(1)
	m.compiling.Add(int64(d))
}

// metrics reads the counters.
func (m *meter) metrics() Metrics {
	out := Metrics{
		Evaluate: map[Outcome]Histogram{}, Faults: map[FaultKind]uint64{}, Discards: map[string]uint64{},
		Instances: m.instances.Load(), Instantiate: time.Duration(m.starting.Load()),
		Compiles: m.compiles.Load(), Compile: time.Duration(m.compiling.Load()),
		Swaps: m.swaps.Load(), Runtimes: int(m.runtimes.Load()),
	}
	for at, o := range outcomes {
		h := Histogram{Sum: time.Duration(m.evaluate[at].sum.Load())}
		for b := range h.Counts {
			h.Counts[b] = m.evaluate[at].counts[b].Load()
		}
		out.Evaluate[o] = h
	}
	for at, kind := range faultKinds {
		out.Faults[kind] = m.faults[at].Load()
	}
	for at, why := range discardReasons {
		out.Discards[why] = m.discards[at].Load()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Differences = m.differed
	return out
}
