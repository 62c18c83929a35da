package localnode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt trusts its pages: on a damaged one it follows page numbers in circles, or dies in a goroutine of its own where
// nobody can catch it. So the tree is walked before bbolt does: every page is where and what it says, is used once, and its
// keys rise. With one damaged head page bbolt goes back to the transaction before, which may forget what was acknowledged: both
// have to be whole. (A head fits a sector, so a power cut does not tear it.)
//
// The format is that of bbolt's version 2 on a little-endian machine.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader    = 16 // id, flags, count, overflow
	elementLen    = 16 // of a branch: pos, key length, page; of a leaf: flags, pos, key length, value length
	metaLen       = 64
	metaSummed    = 56 // bytes of a meta page that its checksum covers
	bucketHeader  = 16 // root page, sequence
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagFreelist  = 0x10
	elementBucket = 0x01
	countFollows  = 0xFFFF // a freelist this long has its count as its first element
	noFreelist    = ^uint64(0)
)

var little = binary.LittleEndian

// pages is a bbolt file that is being verified.
type pages struct {
	file io.ReaderAt
	size uint64 // of a page
	end  uint64 // pages from here on are not in use
	seen map[uint64]bool
}

// verify reports what is wrong with the tree of a bbolt file of this length.
func verify(file io.ReaderAt, length int64, pageSize int) error {
	p := &pages{file: file, size: uint64(pageSize), seen: map[uint64]bool{}}
	var root, freelist, latest uint64
	for i := range uint64(2) {
		meta, err := p.meta(i)
		if err != nil {
			return fmt.Errorf("head page %d: %w", i, err)
		}
		if txid := little.Uint64(meta[48:]); i == 0 || txid > latest {
			latest = txid
			root, freelist, p.end = little.Uint64(meta[16:]), little.Uint64(meta[32:]), little.Uint64(meta[40:])
		}
	}
	if p.end > uint64(length)/p.size {
		return fmt.Errorf("it is cut off: %d pages are in use, %d there", p.end, uint64(length)/p.size)
	}
	if err := p.walk(root, nil, nil); err != nil {
		return err
	}
	return p.walkFreelist(freelist)
}

// meta reads a head page.
func (p *pages) meta(i uint64) ([]byte, error) {
	b := make([]byte, pageHeader+metaLen)
	if _, err := p.file.ReadAt(b, int64(i*p.size)); err != nil {
		return nil, err
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	sum.Write(b[:metaSummed])
	if little.Uint32(b) != boltMagic || little.Uint32(b[4:]) != boltVersion || uint64(little.Uint32(b[8:])) != p.size ||
		little.Uint64(b[metaSummed:]) != sum.Sum64() {
		return nil, errors.New("not a head page")
	}
	return b, nil
}

// read reads a page with what overflows of it, once.
func (p *pages) read(id uint64) ([]byte, error) {
	if id < 2 || id >= p.end {
		return nil, fmt.Errorf("there is no page %d", id)
	}
	head := make([]byte, pageHeader)
	if _, err := p.file.ReadAt(head, int64(id*p.size)); err != nil {
		return nil, err
	}
	overflow := uint64(little.Uint32(head[12:]))
	if little.Uint64(head) != id || overflow >= p.end-id {
		return nil, fmt.Errorf("page %d is none", id)
	}
	for i := id; i <= id+overflow; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		p.seen[i] = true
	}
	b := make([]byte, (overflow+1)*p.size)
	_, err := p.file.ReadAt(b, int64(id*p.size))
	return b, err
}

// walk verifies the tree below a page. Its keys are at least low and, unless high is nil, smaller than that.
func (p *pages) walk(id uint64, low, high []byte) error {
	b, err := p.read(id)
	if err != nil {
		return err
	}
	if err := p.walkPage(b, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (p *pages) walkPage(b, low, high []byte) error {
	flags, count := little.Uint16(b[8:]), int(little.Uint16(b[10:]))
	if flags != flagBranch && flags != flagLeaf || pageHeader+count*elementLen > len(b) || flags == flagBranch && count == 0 {
		return errors.New("it is neither a branch nor a leaf")
	}
	elements := make([]element, count)
	for i := range elements {
		e, ok := elementAt(b, pageHeader+i*elementLen, flags)
		if !ok || bytes.Compare(e.key, low) < 0 || i > 0 && bytes.Equal(e.key, low) || high != nil && bytes.Compare(e.key, high) >= 0 {
			return fmt.Errorf("its element %d is out of order", i)
		}
		elements[i], low = e, e.key
	}
	for i, e := range elements {
		next := high
		if i+1 < count {
			next = elements[i+1].key
		}
		if err := p.walkElement(e, next); err != nil {
			return err
		}
	}
	return nil
}

// walkElement verifies what is below an element: a page, or the tree of a bucket, which may lie in the value itself.
func (p *pages) walkElement(e element, next []byte) error {
	switch {
	case e.page != 0:
		return p.walk(e.page, e.key, next)
	case !e.bucket:
		return nil
	case len(e.value) < bucketHeader:
		return errors.New("a bucket is cut off")
	}
	if root := little.Uint64(e.value); root != 0 {
		return p.walk(root, nil, nil)
	}
	if len(e.value) < bucketHeader+pageHeader {
		return errors.New("a bucket is cut off")
	}
	return p.walkPage(e.value[bucketHeader:], nil, nil)
}

// element is an element of a page.
type element struct {
	key, value []byte
	page       uint64 // of a branch
	bucket     bool   // of a leaf
}

// elementAt reads the element at an offset of a page.
func elementAt(b []byte, at int, flags uint16) (e element, ok bool) {
	head := b[at:]
	var pos, keyLen, valueLen uint64
	if flags == flagBranch {
		pos, keyLen, e.page = uint64(little.Uint32(head)), uint64(little.Uint32(head[4:])), little.Uint64(head[8:])
		ok = e.page != 0
	} else {
		e.bucket = little.Uint32(head)&elementBucket != 0
		pos, keyLen, valueLen = uint64(little.Uint32(head[4:])), uint64(little.Uint32(head[8:])), uint64(little.Uint32(head[12:]))
		ok = true
	}
	if pos+keyLen+valueLen > uint64(len(head)) {
		return element{}, false
	}
	e.key, e.value = head[pos:pos+keyLen], head[pos+keyLen:pos+keyLen+valueLen]
	return e, ok
}

// walkFreelist verifies that no free page is in use, where the free pages are written down.
func (p *pages) walkFreelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	b, err := p.read(id)
	if err != nil {
		return err
	}
	if little.Uint16(b[8:]) != flagFreelist {
		return fmt.Errorf("page %d is not the list of free pages", id)
	}
	count, ids := uint64(little.Uint16(b[10:])), b[pageHeader:]
	if count == countFollows {
		count, ids = little.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return fmt.Errorf("the list of free pages is cut off")
	}
	for i := range count {
		free := little.Uint64(ids[i*8:])
		if free < 2 || free >= p.end || p.seen[free] {
			return fmt.Errorf("page %d is free and in use", free)
		}
		p.seen[free] = true
	}
	return nil
}
