package enginetest

import (
	"math"
	"time"
)

// clock is the clock of a server, in µs: right at first, then shifted and skewed as a test says.
type clock struct {
	since time.Time // when micros was right
	start int64     // µs at since
	rate  float64   // µs it counts in one µs
}

func newClock() clock {
	now := time.Now()
	return clock{since: now, start: now.UnixMicro(), rate: 1}
}

func (c *clock) micros() int64 {
	return c.start + int64(math.Round(float64(time.Since(c.since))*c.rate/1e3))
}

// set makes the clock show micros now and run at rate from then on.
func (c *clock) set(micros int64, rate float64) {
	*c = clock{since: time.Now(), start: micros, rate: rate}
}

// Now returns a coordinator's clock that starts at zero and counts the time of the bubble it is made in.
func Now() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
