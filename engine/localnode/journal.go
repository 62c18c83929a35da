package localnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
)

// journal is the second file: each write appends one frame, which tells the entries that came, changed or went. A write is
// one call of the system then, where a tree costs several pages and their copies.
//
// Nothing is ever rewritten in place, so that what a kill in the middle of a write leaves is a frame without its last byte,
// which was never acknowledged; whatever else does not fit is damage (journal_read.go). Behind the frames there is always
// room, filled with zeros: a file that was cut off is noticed, wherever it was cut.
//
// So that the file does not grow for ever, a new one is begun now and then. Each write then carries over a few of the entries
// whose latest copy is in the file before, so none takes long, and once all are carried over that file is removed. There are two
// at most.
type journal struct {
	dir  string
	head journalHead
	sync bool  // flush each frame to the disk
	turn int64 // turnUsual, but for tests

	file   *os.File
	number int    // of the file, which its name tells
	end    int64  // where the next frame goes
	size   int64  // of the file; behind end there are zeros
	dirt   int64  // but for so many bytes behind end, which a write that failed may have left
	chain  uint32 // what the checksum of the next frame begins with
	turnAt int64  // when end is beyond it, a new file is begun
	buf    []byte // what frames are built in

	slots []storable // what is kept, by serial-1; nil: that serial is free
	free  []uint32   // serials that are free

	older bool // the file before is still needed: for entries in slots[next:over]
	next  int
	slot  int // what next will be once the frame that is built was written
	over  int // how many slots there were when the file was begun
}

const (
	journalGrows = 64 << 10 // bytes; the size of a file is a multiple of it
	turnUsual    = 4 << 20  // bytes that are written before a new file is begun, besides those of what is there
	carriedMin   = 16       // entries that a write looks at to carry them over, at least …
	carriedEach  = 2        // … and more for each that it writes: faster than entries come
)

// A frame is
//
//	length of what it says, CRC of this and of the frame before     4 + 4 bytes
//	what it says: changes, one after the other
//	CRC of this and of the head, and a byte that is not zero        4 + 1 bytes
const (
	frameHead = 8
	frameTail = 5
	frameEnd  = 0xFF
)

// What a change starts with.
const (
	changePut  = 'P' // serial, length, entry
	changeGone = 'G' // serial
	changeHead = 'H' // what the file is: the first frame, alone
	changeNext = 'N' // it goes on in the next file
	changeOver = 'O' // the file before is not needed any more
)

// journalName is the name of a file.
func journalName(number int) string { return fmt.Sprintf("%s%d%s", journalBegin, number, journalEnd) }

// firstChain is what the checksum of a file's first frame begins with.
func firstChain(number int) uint32 {
	return crc32.Update(0, castagnoli, binary.LittleEndian.AppendUint64(nil, uint64(number)))
}

// create makes a file, with what it says of itself, that goes on where j ends. It has no name yet.
func (j *journal) create(number int, older bool) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(j.dir, journalName(number)+freshEnd), os.O_CREATE|os.O_TRUNC|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	fresh := &journal{
		dir: j.dir, head: j.head, sync: j.sync, turn: j.turn, file: f, number: number, chain: firstChain(number), buf: j.buf,
		slots: j.slots, free: j.free, older: older, over: len(j.slots), turnAt: math.MaxInt64, // until wholeNow
	}
	fresh.head.older, fresh.head.chain = older, j.chain
	if err := fresh.append(fresh.head.append(fresh.frame())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fresh, nil
}

// name lets a file be found when the directory is opened again: from then on it is in force. After an error it is not, and closed.
func (j *journal) name() error {
	path := filepath.Join(j.dir, journalName(j.number))
	if err := j.file.Close(); err != nil { // not every system renames a file that is open
		return err
	}
	if err := os.Rename(path+freshEnd, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, fileMode)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	j.file = f
	if j.sync {
		err = syncDirectory(j.dir)
	}
	if err != nil {
		err = errors.Join(err, f.Close(), os.Remove(path))
	}
	return err
}

// turnOver goes on in a new file.
func (j *journal) turnOver() error {
	fresh, err := j.create(j.number+1, true)
	if err != nil {
		return err
	}
	if err := fresh.name(); err != nil {
		return err
	}
	_ = j.append(append(j.frame(), changeNext)) // only in case somebody removes the new file, which is in force by now
	_ = j.close()                               // nobody waits for what is written to it
	*j = *fresh
	return nil
}

// write appends what has changed.
func (j *journal) write(c *changes) error {
	if j.end > j.turnAt && !j.older {
		if err := j.turnOver(); err != nil {
			return err
		}
	}
	b := j.frame()
	for _, x := range c.entries {
		b = j.appendChange(b, x)
	}
	b, done := j.carryOver(b, carriedMin+carriedEach*len(c.entries))
	if len(b) > frameHead { // else all of it came and went since the last write
		if err := j.append(b); err != nil {
			return err
		}
	}
	for _, x := range c.entries {
		j.wrote(x)
	}
	j.carriedOver(done)
	return nil
}

// appendChange tells how an entry is now.
func (j *journal) appendChange(b []byte, x storable) []byte {
	mark := x.store()
	switch {
	case !mark.gone:
		if mark.serial == 0 {
			mark.serial = j.newSerial()
		}
		return appendPut(b, x)
	case mark.serial != 0:
		return binary.AppendUvarint(append(b, changeGone), uint64(mark.serial))
	}
	return b // it was never written, or another entry has taken its serial over
}

// appendPut appends an entry, whose length is known afterwards.
func appendPut(b []byte, x storable) []byte {
	b = binary.AppendUvarint(append(b, changePut), uint64(x.store().serial))
	at := len(b)
	b = appendEntry(append(b, 0, 0, 0, 0), x)
	little.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func (j *journal) newSerial() uint32 {
	if last := len(j.free) - 1; last >= 0 {
		serial := j.free[last]
		j.free = j.free[:last]
		return serial
	}
	j.slots = append(j.slots, nil)
	return uint32(len(j.slots))
}

// wrote notes an entry that was written as it is.
func (j *journal) wrote(x storable) {
	mark := x.store()
	switch {
	case !mark.gone:
		j.slots[mark.serial-1] = x
		mark.file = uint32(j.number)
	case mark.serial != 0:
		j.slots[mark.serial-1] = nil
		j.free = append(j.free, mark.serial)
		mark.serial = 0
	}
}

// carryOver appends entries that are only in the file before, of so many slots at most. done: there are no more behind them.
func (j *journal) carryOver(b []byte, most int) (_ []byte, done bool) {
	if !j.older {
		return b, false
	}
	for j.slot = j.next; j.slot < j.over && j.slot < j.next+most; j.slot++ {
		if x := j.slots[j.slot]; x != nil && !x.store().dirty && x.store().file != uint32(j.number) {
			b = appendPut(b, x)
		}
	}
	if done = j.slot == j.over; done {
		b = append(b, changeOver)
	}
	return b, done
}

// carriedOver notes what carryOver appended, and removes the file before once it is not needed.
func (j *journal) carriedOver(done bool) {
	j.next = j.slot
	if done {
		j.older = false
		j.wholeNow()
		_ = os.Remove(filepath.Join(j.dir, journalName(j.number-1))) // else it goes when the directory is opened again
	}
}

// wholeNow notes that the file has all there is: as much again is written to it before a new one is begun.
func (j *journal) wholeNow() { j.turnAt = 2*j.end + j.turn }

// frame returns an empty frame, to which changes are appended.
func (j *journal) frame() []byte { return append(j.buf[:0], make([]byte, frameHead)...) }

// append writes a frame, whole or, as far as a reader can tell, not at all.
func (j *journal) append(b []byte) error {
	sum := closeFrame(b, j.chain)
	b = little.AppendUint32(b, sum)
	b = append(b, frameEnd)
	length := int64(len(b))
	for int64(len(b)) < j.dirt {
		b = append(b, 0)
	}
	if cap(b) <= arenaMax {
		j.buf = b
	}
	if err := j.grow(int64(len(b))); err != nil {
		return err
	}
	n, err := j.file.WriteAt(b, j.end)
	if err == nil && j.sync {
		err = j.file.Sync()
	}
	if err != nil {
		j.dirt = max(j.dirt, int64(n))
		return err
	}
	j.dirt, j.chain = 0, sum
	j.end += length
	return nil
}

// closeFrame fills in the head of a frame that lacks its tail, and returns the CRC of all of it.
func closeFrame(b []byte, chain uint32) uint32 {
	little.PutUint32(b, uint32(len(b)-frameHead))
	head := crc32.Update(chain, castagnoli, b[:4])
	little.PutUint32(b[4:], head)
	return crc32.Update(head, castagnoli, b[frameHead:])
}

// grow makes room for so many bytes, and for the zeros behind them.
func (j *journal) grow(length int64) error {
	need := j.end + length + frameHead
	if need <= j.size {
		return nil
	}
	size := (need + journalGrows - 1) / journalGrows * journalGrows
	if err := j.file.Truncate(size); err != nil {
		return err
	}
	j.size = size
	return nil
}

func (j *journal) close() error { return j.file.Close() }
