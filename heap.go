package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Garbage is collected when the heap has come to heapUsual, or has grown by half. Go's own rule, when it has doubled, is little
// for a server of a few megabytes, which would collect several times a second under load (an eighth of its time), and much for thousands of
// idle holders, of whom each would cost half as much again.
const (
	heapUsual      = 96 << 20 // bytes in use, and of garbage
	heapPercentMin = 50       // of what is in use
	heapPercentMax = 400
)

// tuneHeap sets how often garbage is collected, now and after each collection, unless the environment says it (GOGC). It is the
// process's, so it begins once.
var tuneHeap = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		(&heapTuner{percent: 100}).tune()
	}
})

// heapTuner is what the collector was last told.
type heapTuner struct{ percent int }

// tune looks at what the last collection has left, and comes again after the next one.
func (t *heapTuner) tune() {
	if percent := heapPercent(heapInUse()); percent*10 < t.percent*9 || percent*10 > t.percent*11 { // each change stops the world
		debug.SetGCPercent(percent)
		t.percent = percent
	}
	runtime.AddCleanup(&heapMark{new(byte)}, (*heapTuner).tune, t)
}

// heapMark is garbage: what follows from it is done after the next collection.
type heapMark struct{ _ *byte }

// heapPercent is the percentage of what is in use by which the heap may grow.
func heapPercent(inUse uint64) int {
	room := heapUsual - min(inUse, heapUsual)
	return int(min(max(room*100/max(inUse, 1), heapPercentMin), heapPercentMax))
}

// heapInUse is what the percentage counts from, in bytes: what the last collection has found in use, and stacks.
func heapInUse() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	sum := uint64(0)
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return sum
}
