package localnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// sealed is a bbolt file of which every change of a byte is noticed when it is opened: bbolt's own checksums cover the head
// pages alone. Each value ends with a CRC-32C of its bucket, its key and itself, and the seal holds the number of values and
// the sum of their CRCs, so that a value that is missing is noticed too.
type sealed struct {
	db    *bolt.DB
	seal  seal
	arena []byte // what values are built in, used again by each transaction
}

// seal = how many values there are, and the sum of their CRCs.
type seal struct{ count, sum uint64 }

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	sealBucket = []byte("seal")
	sealKey    = []byte("seal")
)

const crcLen = 4

// errSeal: what is in the file is not what was written.
var errSeal = errors.New("its contents do not match their checksums")

func crcOf(bucket, key, value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
}

// read calls see with every value of the file and compares the seal.
func (f *sealed) read(see func(bucket string, key, value []byte) error) error {
	var found seal
	return f.db.View(func(tx *bolt.Tx) error {
		err := tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if string(name) == string(sealBucket) {
				return nil
			}
			return b.ForEach(func(key, sealedValue []byte) error {
				cut := len(sealedValue) - crcLen
				if cut < 0 {
					return errSeal
				}
				value, crc := sealedValue[:cut], binary.LittleEndian.Uint32(sealedValue[cut:])
				if crcOf(name, key, value) != crc {
					return fmt.Errorf("%w, at %q of %s", errSeal, key, name)
				}
				found.count++
				found.sum += uint64(crc)
				return see(string(name), key, value)
			})
		})
		if err != nil {
			return err
		}
		f.seal = sealIn(tx)
		if f.seal != found {
			return fmt.Errorf("%w: %d values were found, %d written", errSeal, found.count, f.seal.count)
		}
		return nil
	})
}

func sealIn(tx *bolt.Tx) seal {
	b := tx.Bucket(sealBucket)
	if b == nil {
		return seal{}
	}
	v := b.Get(sealKey)
	if len(v) != 16 {
		return seal{}
	}
	return seal{binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[8:])}
}

// update makes changes in one transaction: all of them or none.
func (f *sealed) update(change func(*sealedTx) error) error {
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	w := sealedTx{tx: tx, seal: f.seal, arena: f.arena[:0]}
	err = change(&w)
	if err == nil {
		err = w.writeSeal()
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	f.seal = w.seal
	if cap(w.arena) <= arenaMax {
		f.arena = w.arena
	}
	return nil
}

// arenaMax is the largest arena that is kept, in bytes.
const arenaMax = 1 << 20

// sealedTx is a transaction under way.
type sealedTx struct {
	tx    *bolt.Tx
	seal  seal
	arena []byte // what values are built in: bbolt refers to them until the commit
}

// bucket returns a bucket, made where there is none. Appended in rising order, its pages are filled well.
func (w *sealedTx) bucket(name []byte) (*sealedBucket, error) {
	b, err := w.tx.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, err
	}
	b.FillPercent = fillPercent
	return &sealedBucket{w: w, name: name, bucket: b}, nil
}

// fillPercent leaves some room in pages that are split, for entries that grow.
const fillPercent = 0.9

func (w *sealedTx) writeSeal() error {
	b, err := w.tx.CreateBucketIfNotExists(sealBucket)
	if err != nil {
		return err
	}
	v := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), w.seal.count)
	return b.Put(sealKey, binary.LittleEndian.AppendUint64(v, w.seal.sum))
}

// sealedBucket is a bucket in a transaction.
type sealedBucket struct {
	w      *sealedTx
	name   []byte
	bucket *bolt.Bucket
}

// put writes the value that build appends to what it is given.
func (b *sealedBucket) put(key []byte, build func([]byte) []byte) error {
	b.forget(b.bucket.Get(key))
	w := b.w
	start := len(w.arena)
	w.arena = build(w.arena)
	crc := crcOf(b.name, key, w.arena[start:])
	w.arena = binary.LittleEndian.AppendUint32(w.arena, crc)
	w.seal.count++
	w.seal.sum += uint64(crc)
	return b.bucket.Put(key, w.arena[start:len(w.arena):len(w.arena)])
}

// delete removes a value, if there is one.
func (b *sealedBucket) delete(key []byte) error {
	v := b.bucket.Get(key)
	if v == nil {
		return nil
	}
	b.forget(v)
	return b.bucket.Delete(key)
}

// forget takes a value that is replaced or removed out of the seal.
func (b *sealedBucket) forget(sealedValue []byte) {
	if sealedValue == nil {
		return
	}
	b.w.seal.count--
	b.w.seal.sum -= uint64(binary.LittleEndian.Uint32(sealedValue[len(sealedValue)-crcLen:]))
}

// guard turns what goes wrong in bbolt on a damaged file into an error: panics, and faults of the memory map.
func guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bbolt can not read it: %v", r)
		}
	}()
	return do()
}
