package engine

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
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

// capability is the string by which a lease's holder proves itself: id "." mac.
func capability(secret []byte, semaphore, id string) string {
	return id + "." + mac(secret, semaphore, id)
}

func mac(secret []byte, semaphore, id string) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(semaphore))
	h.Write([]byte{0}) // names have no control characters
	h.Write([]byte(id))
	return idEncoding.EncodeToString(h.Sum(nil)[:16])
}

// openCapability returns the lease id of a capability that is ours, else ErrUnknownLease; ErrQuorumUnavailable while this
// replica has not read the secret yet, since then it cannot tell.
func (e *Engine) openCapability(semaphore, text string) (id string, err error) {
	secret := e.secretKey()
	if secret == nil {
		return "", ErrQuorumUnavailable
	}
	id, sum, found := strings.Cut(text, ".")
	if !found || len(id) != idLen || len(sum) != macLen || !hmac.Equal([]byte(sum), []byte(mac(secret, semaphore, id))) {
		return "", ErrUnknownLease
	}
	return id, nil
}
