package localnode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
)

// flips is how many places of each file are tried.
func flips() uint64 {
	if testing.Short() {
		return 40
	}
	return 200
}

func TestABitThatFlippedInTheFirstFileIsToldOrHarmless(t *testing.T) {
	t.Parallel()
	cfg, want := used(t)
	told := 0
	for seed := range flips() {
		damaged := twin(t, cfg, firstName, flip(seed))
		node, err := Open(damaged)
		if errors.Is(err, ErrDamaged) {
			told++
			continue
		} else if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		node.Close()
		if diff := cmp.Diff(want, content(t, node.state)); diff != "" {
			t.Fatalf("seed %d: a flipped bit changed what is remembered (-want +got):\n%s", seed, diff)
		}
	}
	if told == 0 {
		t.Error("no damage was found at all")
	}
}

func TestABitThatFlippedInTheSecondFileIsToldOrHarmless(t *testing.T) {
	t.Parallel()
	cfg, want := used(t)
	told := 0
	for seed := range flips() {
		var log logged
		damaged := twin(t, cfg, secondName, flip(seed))
		damaged.Log = log.log()
		node, err := Open(damaged)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		node.Close()
		if log.String() != "" {
			told++
		} else if diff := cmp.Diff(want, content(t, node.state)); diff != "" {
			t.Fatalf("seed %d: a flipped bit changed what is remembered (-want +got):\n%s", seed, diff)
		}
	}
	if told == 0 {
		t.Error("no damage was found at all")
	}
}

// flip changes one bit of a file, more often one of a page's head than others.
func flip(seed uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		rng := rand.New(rand.NewPCG(seed, 8))
		at := rng.IntN(len(b))
		if seed%2 == 0 {
			at = at/4096*4096 + rng.IntN(160)
		}
		b[at] ^= 1 << rng.IntN(8)
		return b
	}
}

// FuzzContents reads what nobody wrote.
func FuzzContents(f *testing.F) {
	m := &semaphore{name: db}
	for _, x := range []storable{
		&lease{semaphore: m, id: "L", by: "a", owner: owner(1, "r"), ending: ending{at: never}, info: "i"},
		&cooling{semaphore: m, lease: "L"},
		&tombstone{semaphore: m, lease: "L", by: "a", why: engine.WhyBroken},
		&semaphore{name: db, longestTTL: 5},
	} {
		f.Add(string(bucketEntries), []byte("12345678"), appendEntry(nil, x))
	}
	f.Add(string(bucketRegisters), appendString(appendString(nil, "semaphore"), db), appendRegister(nil, &register{}))
	f.Add(string(bucketNode), keyRecord, []byte(`{"Format":1}`))
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		c := newContents()
		if c.add(bucket, key, value) != nil {
			return
		}
		for _, l := range c.leases {
			again := newContents()
			if err := again.add(bucket, key, appendEntry(nil, l)); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", again.leases[0].slots) != fmt.Sprintf("%+v", l.slots) || again.leases[0].id != l.id {
				t.Fatalf("%+v became %+v", l, again.leases[0])
			}
		}
	})
}
