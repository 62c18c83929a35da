package enginetest

import (
	"math/rand/v2"
	"time"
)

// Faults is what the way between one replica and one server does to messages. Probabilities are 0 to 1 and of each
// message. The zero value is a good network without latency: for schedules, where the test holds what it wants held.
type Faults struct {
	Seed uint64

	LatencyMin, LatencyMax time.Duration // of each way
	Slow                   float64       // a message takes SlowMax longer at most
	SlowMax                time.Duration

	Cut          float64       // the connection is lost while the message is under way
	LateRun      float64       // of what was lost unexecuted: it stays in the closed socket's buffer and is executed later
	LateRunMax   time.Duration // at most that much later
	ReconnectMax time.Duration // how long a lost connection stays so

	Repeat    float64       // executed once more, its second answer unheard
	RepeatMax time.Duration // at most that much later

	LoseWake float64

	// OneBatch: what is sent while something is under way is written when all that was answered, as a lane of pipelines
	// does. Else everything is written as soon as it is sent.
	OneBatch bool

	// Timeout throws the connection away when a message is under way for longer. 0: nodeTimeout. Negative: never.
	Timeout time.Duration
}

// nodeTimeout is what a node waits for an answer by default.
const nodeTimeout = 500 * time.Millisecond

func (f Faults) timeout() time.Duration {
	switch {
	case f.Timeout < 0:
		return never
	case f.Timeout == 0:
		return nodeTimeout
	default:
		return f.Timeout
	}
}

// never is a time that does not come.
const never = time.Duration(1 << 62)

// dice draws the fate of messages. Not safe for concurrent use.
type dice struct {
	faults Faults
	random *rand.Rand
}

func newDice(faults Faults) *dice {
	return &dice{faults, rand.New(rand.NewPCG(faults.Seed, 0x7065726d697464))}
}

func (d *dice) hits(p float64) bool { return p > 0 && d.random.Float64() < p }

// within returns a random time of at most limit.
func (d *dice) within(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(d.random.Int64N(int64(limit) + 1))
}

// latency returns how long one way takes now.
func (d *dice) latency() time.Duration {
	took := d.faults.LatencyMin + d.within(d.faults.LatencyMax-d.faults.LatencyMin)
	if d.hits(d.faults.Slow) {
		took += d.within(d.faults.SlowMax)
	}
	return took
}
