package localnode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// store keeps a State on disk, in two files. What is written to the first is flushed to the disk before it is answered: it
// outlives a power cut. What is written to the second outlives the process, which costs a tenth.
//
//	first    node record, registers, leases without an end, the longest TTL yet granted, a ceiling of all fences
//	second   all leases, what cools, tombstones, as a journal
//
// The first is written before the second, so that no grant is ever there without the longest TTL and the ceiling that
// cover it; what only the first has, nobody was told of.
type store struct {
	first      *sealed
	second     *journal
	longestTTL int64 // as the first file has it, µs
	ceiling    int64 // likewise; no fence was larger
	failed     error // the first file may not have kept what it was told: nothing is acknowledged any more
}

// Names of what is in the two files.
var (
	bucketNode      = []byte("node") // keyRunID, …
	bucketRegisters = []byte("registers")
	bucketEndless   = []byte("endless") // leases without an end, times by the wall clock

	keyFormat     = []byte("format")
	keyRunID      = []byte("run_id")
	keyRecord     = []byte("record")
	keyLongestTTL = []byte("longest_ttl")
	keyCeiling    = []byte("fence_ceiling")
)

const (
	// fenceAhead is how far the ceiling is raised above a fence that exceeds it: so rarely must the disk be waited for.
	fenceAhead = 10_000_000
	// fenceMax is the largest fence that a client's float64 holds exactly.
	fenceMax = 1<<53 - 1
)

// ErrDamaged: what a file holds is not what was written to it.
var ErrDamaged = errors.New("is damaged")

// ErrInUse: another process has the directory.
var ErrInUse = errors.New("is in use by another process")

// write makes durable what has changed. skew is the wall clock less the node's clock, in µs. After an error nothing
// of it may be acknowledged; it is tried again with the next call.
func (st *store) write(c *changes, skew int64) error {
	if st.failed != nil {
		return st.failed
	}
	if st.firstNeeds(c) {
		err := st.first.update(func(w *sealedTx) error { return st.writeFirst(w, c, skew) })
		if err != nil {
			err = fmt.Errorf("writing %s: %w", firstName, err)
			if mayHaveLost(err) {
				st.failed = err
			}
			return err
		}
		st.wroteFirst(c)
	}
	if len(c.entries) > 0 {
		if err := st.second.write(c); err != nil {
			return fmt.Errorf("writing %s: %w", journalName(st.second.number), err)
		}
		c.wrote()
	}
	return nil
}

// mayHaveLost reports whether a write to the first file failed so that a later one may pass although this one is not on the disk:
// after a failed flush the kernel forgets what it could not write. Where there was no room for it, on the disk or by a quota or a limit of
// the process, nothing was flushed yet.
func mayHaveLost(err error) bool {
	return !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EFBIG) && !strings.Contains(err.Error(), errResize)
}

// errResize is what bbolt says, and says no more than that, where the file could not be made longer: nothing was written yet.
const errResize = "file resize error: "

// firstNeeds reports whether the change touches what the first file keeps.
func (st *store) firstNeeds(c *changes) bool {
	if c.record != nil || len(c.registers) > 0 || c.longestTTL > st.longestTTL || c.fence > st.ceiling {
		return true
	}
	for _, x := range c.entries {
		if l, ok := x.(*lease); ok && (l.endless || l.lasting()) {
			return true
		}
	}
	return false
}

// lasting reports whether the lease is there and ends by a release only.
func (l *lease) lasting() bool { return l.at == never && !l.gone }

func (st *store) writeFirst(w *sealedTx, c *changes, skew int64) error {
	node, err1 := w.bucket(bucketNode)
	registers, err2 := w.bucket(bucketRegisters)
	endless, err3 := w.bucket(bucketEndless)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if c.longestTTL > st.longestTTL {
		err1 = node.putInt(keyLongestTTL, c.longestTTL)
	}
	if c.fence > st.ceiling {
		err2 = node.putInt(keyCeiling, ceilingOver(c.fence))
	}
	if c.record != nil {
		text, err := json.Marshal(c.record)
		err3 = errors.Join(err, node.put(keyRecord, func(b []byte) []byte { return append(b, text...) }))
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for key, r := range c.registers {
		if err := writeRegister(registers, key, r); err != nil {
			return err
		}
	}
	for _, x := range c.entries {
		if l, ok := x.(*lease); ok {
			if err := writeEndless(endless, l, skew); err != nil {
				return err
			}
		}
	}
	return nil
}

// ceilingOver is what the ceiling is raised to for a fence.
func ceilingOver(fence int64) int64 { return max(fence, min(fence+fenceAhead, fenceMax)) }

func writeRegister(b *sealedBucket, key registerKey, r *register) error {
	name := appendString(appendString(nil, key.kind), key.name)
	if *r == (register{}) {
		return b.delete(name)
	}
	return b.put(name, func(to []byte) []byte { return appendRegister(to, r) })
}

// writeEndless keeps a lease without an end, and removes one that is over or has an end now.
func writeEndless(b *sealedBucket, l *lease, skew int64) error {
	switch name := appendString(appendString(appendString(nil, l.semaphore.name), l.id), l.by); {
	case l.lasting():
		return b.put(name, func(to []byte) []byte { return appendLease(to, l, skew) })
	case l.endless:
		return b.delete(name)
	}
	return nil
}

// wroteFirst notes what the first file has now.
func (st *store) wroteFirst(c *changes) {
	st.longestTTL = max(st.longestTTL, c.longestTTL)
	if c.fence > st.ceiling {
		st.ceiling = ceilingOver(c.fence)
	}
	c.record = nil
	clear(c.registers)
	for _, x := range c.entries {
		if l, ok := x.(*lease); ok {
			l.endless = l.lasting()
		}
	}
}

// putInt writes a number.
func (b *sealedBucket) putInt(key []byte, n int64) error {
	return b.put(key, func(to []byte) []byte { return binary.AppendVarint(to, n) })
}

// close closes both files.
func (st *store) close() error {
	var errs []error
	if st.first != nil {
		errs = append(errs, st.first.db.Close())
	}
	if st.second != nil {
		errs = append(errs, st.second.close())
	}
	return errors.Join(errs...)
}

// options of the first file; it is small, and the list of free pages is kept so that opening it trusts no other page.
func firstOptions() *bolt.Options {
	return &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, NoStatistics: true}
}
