package localnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// journalHead is what a file of the journal says of itself.
type journalHead struct {
	format int64
	bootID string
	older  bool   // it goes on from the file before …
	chain  uint32 // … whose last frame has this CRC
}

func (h journalHead) append(b []byte) []byte {
	b = binary.AppendVarint(append(b, changeHead), h.format)
	b = appendBool(appendString(b, h.bootID), h.older)
	return binary.AppendUvarint(b, uint64(h.chain))
}

func (r *reader) journalHead() journalHead {
	if r.byte() != changeHead {
		r.fail()
	}
	return journalHead{format: r.int(), bootID: r.string(), older: r.bool(), chain: uint32(r.uint())}
}

// journalNumbers lists the files of the journal in a directory, in rising order.
func journalNumbers(dir string) ([]int, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, f := range files {
		if number, ok := journalNumber(f.Name()); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// journalNumber is the number in the name of a file; ok is false for another file's.
func journalNumber(name string) (number int, ok bool) {
	text, begins := strings.CutPrefix(name, journalBegin)
	text, ends := strings.CutSuffix(text, journalEnd)
	number, err := strconv.Atoi(text)
	return number, begins && ends && err == nil && number > 0 && journalName(number) == name
}

// journalReading reads the files of a journal, the older one first.
type journalReading struct {
	entries map[uint32][]byte // by serial
	chain   uint32            // CRC of the last frame but for one that says that the file goes on
	next    bool              // it goes on in the next file
	over    bool              // the file before is not needed
}

// readJournal reads a journal whose last file has this number.
func readJournal(dir string, number int) (journalHead, map[uint32][]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, journalName(number)))
	if err != nil {
		return journalHead{}, nil, err
	}
	head, frames, err := journalHeadOf(b, number)
	if err != nil || head.format > storeFormat {
		return head, nil, err
	}
	j := &journalReading{entries: map[uint32][]byte{}}
	missing := false
	if head.older {
		if missing, err = j.before(dir, number-1, head.chain); err != nil {
			return head, nil, fmt.Errorf("%s: %w", journalName(number-1), err)
		}
	}
	switch err := j.read(frames); {
	case err != nil:
		return head, nil, err
	case missing && !j.over:
		return head, nil, errors.New(journalName(number-1) + " is missing")
	case j.next:
		return head, nil, errors.New(journalName(number+1) + " is missing")
	}
	return head, j.entries, nil
}

// before reads the file before the last, whose last frame has this CRC. It may be missing: then the last says that it is not needed.
func (j *journalReading) before(dir string, number int, chain uint32) (missing bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, journalName(number)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	_, frames, err := journalHeadOf(b, number)
	if err != nil {
		return false, err
	}
	if err := j.read(frames); err != nil {
		return false, err
	}
	if j.chain != chain {
		return false, errors.New("its end is missing")
	}
	j.next, j.over = false, false
	return false, nil
}

// frames are those of a file that are still to be read.
type frames struct {
	rest  []byte
	chain uint32
}

// journalHeadOf reads the first frame of a file.
func journalHeadOf(b []byte, number int) (journalHead, *frames, error) {
	f := &frames{rest: b, chain: firstChain(number)}
	if len(b)%journalGrows != 0 {
		return journalHead{}, nil, errors.New("it is cut off")
	}
	says, err := f.read()
	if err != nil {
		return journalHead{}, nil, err
	}
	r := &reader{rest: says}
	head := r.journalHead()
	if !r.done() {
		return journalHead{}, nil, errors.New("it does not begin as such a file")
	}
	return head, f, nil
}

// read applies all frames that are left.
func (j *journalReading) read(f *frames) error {
	j.chain = f.chain
	for {
		says, err := f.read()
		if says == nil || err != nil {
			return err
		}
		if j.next {
			return errors.New("it goes on behind its end")
		}
		r := &reader{rest: says}
		for len(r.rest) > 0 {
			j.change(r)
		}
		if r.bad {
			return errors.New("a change in it can not be read")
		}
		if !j.next {
			j.chain = f.chain
		}
	}
}

// change applies a change.
func (j *journalReading) change(r *reader) {
	switch r.byte() {
	case changePut:
		serial := uint32(r.uint())
		length := r.take(4)
		if entry := r.take(int(lengthOf(length))); entry != nil {
			j.entries[serial] = entry
		}
	case changeGone:
		delete(j.entries, uint32(r.uint()))
	case changeNext:
		j.next = true
	case changeOver:
		j.over = true
	default:
		r.fail()
	}
}

// lengthOf is the length before an entry.
func lengthOf(b []byte) uint32 {
	if b == nil {
		return 0
	}
	return little.Uint32(b)
}

// take reads n bytes; nil where there are not so many.
func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// read returns what the next frame says; nil at the end. A frame without its last byte is the end, too, where nothing follows:
// the process was killed while it was written. Everything else that does not fit is an error, which is why the head has a
// CRC of its own: a wrong length must not pass for the end.
func (f *frames) read() ([]byte, error) {
	if len(f.rest) < frameHead {
		return nil, errors.New("it is cut off")
	}
	head := f.rest[:frameHead]
	sum := crc32.Update(f.chain, castagnoli, head[:4])
	if sum != little.Uint32(head[4:]) {
		return nil, f.unwritten(frameHead) // the head itself lacks a part, or there is none
	}
	length := frameHead + int(little.Uint32(head)) + frameTail
	if length > len(f.rest)-frameHead {
		return nil, errors.New("it is cut off")
	}
	says, tail := f.rest[frameHead:length-frameTail], f.rest[length-frameTail:length]
	sum = crc32.Update(sum, castagnoli, says)
	switch {
	case tail[4] == 0:
		return nil, f.unwritten(length)
	case tail[4] != frameEnd || little.Uint32(tail) != sum:
		return nil, errSeal
	}
	f.rest, f.chain = f.rest[length:], sum
	return says, nil
}

// unwritten reports what is wrong if something was written behind the first n bytes of what is left.
func (f *frames) unwritten(n int) error {
	for _, b := range f.rest[n:] {
		if b != 0 {
			return errSeal
		}
	}
	return nil
}
