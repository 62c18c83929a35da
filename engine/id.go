package engine

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"time"
)

// base32 of lower-case letters, without the vowels and digits that are taken for one another.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const (
	idLen  = 16 // characters of an id: 80 random bits
	macLen = 26 // characters of a MAC: 128 bits
)

// newID returns 16 random base32 characters: the name of a replica, a lease, an attempt, a cluster.
func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return idEncoding.EncodeToString(b[:])
}

// random returns a random time of at least 0 and less than d > 0. It comes from where ids come from, so that a test which
// fixes that source (testing/cryptotest) fixes every draw of the engine.
func random(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Duration(binary.NativeEndian.Uint64(b[:]) % uint64(d))
}

// secret is the cluster secret, and hashes keyed with it: keying one takes as long as using it.
type secret struct {
	key    []byte
	hashes sync.Pool
}

// capability is the string by which a lease's holder proves itself: id "." mac. The secret is known.
func (e *Engine) capability(semaphore, id string) string {
	return id + "." + e.secretNow.Load().mac(semaphore, id)
}

func (s *secret) mac(semaphore, id string) string {
	h, ok := s.hashes.Get().(hash.Hash)
	if ok {
		h.Reset()
	} else {
		h = hmac.New(sha256.New, s.key)
	}
	defer s.hashes.Put(h)
	var b [NameMax + 1 + idLen]byte
	text := append(append(append(b[:0], semaphore...), 0), id...) // names have no control characters
	h.Write(text)
	return idEncoding.EncodeToString(h.Sum(b[:0])[:16])
}

// openCapability returns the lease id of a capability that is ours, else ErrUnknownLease; ErrQuorumUnavailable while this
// replica has not read the secret yet, since then it cannot tell.
func (e *Engine) openCapability(semaphore, text string) (id string, err error) {
	secret := e.secretNow.Load()
	if secret == nil {
		return "", ErrQuorumUnavailable
	}
	id, sum, found := strings.Cut(text, ".")
	if !found || len(id) != idLen || len(sum) != macLen || !hmac.Equal([]byte(sum), []byte(secret.mac(semaphore, id))) {
		return "", ErrUnknownLease
	}
	return id, nil
}
