package redisnode

import (
	"math/rand/v2"
	"time"
)

const (
	pauseFirst = 5 * time.Millisecond // before the second try to connect
	pauseMax   = time.Second
	linkLasts  = time.Second // a connection that lasted so long was a good one
)

// backoff is how long to wait between tries to connect. The zero value is ready to use.
type backoff struct{ last time.Duration }

// next returns how long to wait before the next try: at random between half of a time that doubles, and all of it.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, pauseFirst), pauseMax)
	return b.last/2 + rand.N(b.last/2)
}

// lasted notes that there was a connection for d.
func (b *backoff) lasted(d time.Duration) {
	if d >= linkLasts {
		b.last = 0
	}
}
