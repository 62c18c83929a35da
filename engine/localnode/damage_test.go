package localnode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/permitd/permitd/engine"
)

// pageSize is that of a new bbolt file.
var pageSize = os.Getpagesize()

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
		damaged := twin(t, cfg, journalName(1), flip(seed))
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

func TestAValueThatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	cfg, _ := used(t)
	path := filepath.Join(cfg.Dir, firstName)
	f, err := bolt.Open(path, fileMode, firstOptions())
	if err != nil {
		t.Fatal(err)
	}
	err = f.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRegisters)
		key, _ := b.Cursor().First()
		return b.Delete(key)
	})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
		t.Errorf("the error is %v", err)
	}
}

func TestAPageThatIsUsedTwiceIsTold(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), bootID: "boot"}
	f := openAs(t, cfg, engine.Value{Limit: 1})
	for i := range 200 { // a tree with branches
		f.define(fmt.Sprint("semaphore ", i), 1, engine.Value{Limit: 1})
	}
	f.node.Close()
	for name, damage := range map[string]func(page []byte) bool{
		"a branch leads back to itself": func(page []byte) bool {
			copy(page[pageHeader+8:], page[:8])
			return little.Uint16(page[8:]) == flagBranch
		},
		"a page of the tree is free": func(page []byte) bool {
			little.PutUint64(page[pageHeader:], little.Uint64(page)-1)
			return little.Uint16(page[8:]) == flagFreelist
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damaged := twin(t, cfg, firstName, func(b []byte) []byte {
				hit := false
				for at := 2 * pageSize; at < len(b); at += pageSize { // also pages that are free by now
					page := slices.Clone(b[at : at+pageSize])
					if damage(page) {
						hit = true
						copy(b[at:], page)
					}
				}
				if !hit {
					t.Fatal("the file has no such page")
				}
				return b
			})
			if _, err := Open(damaged); !errors.Is(err, ErrDamaged) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// flip changes one bit of a file, more often one of a page's head than others.
func flip(seed uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		rng := rand.New(rand.NewPCG(seed, 8))
		at := rng.IntN(len(b))
		if seed%2 == 0 {
			at = at/pageSize*pageSize + rng.IntN(160)
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
		f.Add("", []byte{}, appendEntry(nil, x))
	}
	f.Add(string(bucketRegisters), appendString(appendString(nil, "semaphore"), db), appendRegister(nil, &register{}))
	f.Add(string(bucketNode), keyRecord, []byte(`{"Format":1}`))
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		c := newContents()
		_ = c.add(bucket, key, value)
		if c.addEntry(value) != nil {
			return
		}
		for _, l := range c.leases {
			again := newContents()
			if err := again.addEntry(appendEntry(nil, l)); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", again.leases[0].slots) != fmt.Sprintf("%+v", l.slots) || again.leases[0].id != l.id {
				t.Fatalf("%+v became %+v", l, again.leases[0])
			}
		}
	})
}
