package localnode

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/permitd/permitd/engine"
)

// blobs keeps blobs by their sum: each a file in a directory, or in memory. A file has its name only once all of it is on the
// disk. What has come of a blob that is not whole yet is forgotten with the process.
type blobs struct {
	dir    string            // "": there is none
	whole  map[string]string // where there is no directory
	coming map[string]*comingBlob
}

// comingBlob is a blob of which pieces are missing.
type comingBlob struct {
	pieces map[int]string
	until  int64 // then it is forgotten; node clock, µs
}

// openBlobs keeps blobs in a directory, which is made when it is needed; "": in memory.
func openBlobs(dir string) *blobs {
	return &blobs{dir: dir, whole: map[string]string{}, coming: map[string]*comingBlob{}}
}

// executeBlob does the operations of blobs.
func (v *visit) executeBlob(op engine.Op) {
	a := v.answer
	a.Says = engine.SaysDone
	var err error
	switch op := op.(type) {
	case *engine.PutBlob:
		err = v.blobs.put(op, v.now)
	case *engine.GetBlob:
		a.Data, a.Pieces, err = v.blobs.piece(op.Sum, op.Piece)
		if a.Pieces == 0 {
			a.Says = engine.SaysNo
		}
	case *engine.DropBlob:
		err = v.blobs.drop(op.Sum)
	case *engine.Blobs:
		a.Names, err = v.blobs.sums()
	default:
		panic(fmt.Sprintf("localnode: unknown operation %T", op))
	}
	if err != nil {
		a.Err = fmt.Errorf("%w: %w", engine.ErrBroken, err)
	}
}

// put keeps a piece; with the last that was missing the blob is whole.
func (b *blobs) put(op *engine.PutBlob, now int64) error {
	if _, pieces, err := b.piece(op.Sum, 0); pieces > 0 || err != nil {
		return err
	}
	for sum, c := range b.coming {
		if now >= c.until {
			delete(b.coming, sum)
		}
	}
	c := b.coming[op.Sum]
	if c == nil {
		c = &comingBlob{pieces: map[int]string{}}
		b.coming[op.Sum] = c
	}
	c.pieces[op.Piece], c.until = op.Data, now+engine.NodeLimits.BlobComing.Microseconds()
	if len(c.pieces) < op.Pieces {
		return nil
	}
	var all strings.Builder
	for i := range op.Pieces {
		all.WriteString(c.pieces[i])
	}
	if err := b.keep(op.Sum, all.String()); err != nil {
		return err
	}
	delete(b.coming, op.Sum)
	return nil
}

// keep makes a blob whole.
func (b *blobs) keep(sum, data string) error {
	if b.dir == "" {
		b.whole[sum] = data
		return nil
	}
	if err := os.MkdirAll(b.dir, dirMode); err != nil {
		return err
	}
	path := filepath.Join(b.dir, sum)
	if err := writeFlushed(path+freshEnd, data); err != nil {
		return err
	}
	if err := os.Rename(path+freshEnd, path); err != nil {
		return err
	}
	return syncDirectory(b.dir)
}

// writeFlushed writes a file that is on the disk afterwards.
func writeFlushed(path, data string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, data)
	return errors.Join(err, f.Sync(), f.Close())
}

// piece returns a piece of a blob, and how many there are in the whole; 0: there is no such blob.
func (b *blobs) piece(sum string, at int) (data string, pieces int, err error) {
	from := int64(at) * engine.BlobPiece
	if b.dir == "" {
		all, there := b.whole[sum]
		if !there {
			return "", 0, nil
		}
		size := int64(len(all))
		return all[min(from, size):min(from+engine.BlobPiece, size)], piecesOf(size), nil
	}
	f, err := os.Open(filepath.Join(b.dir, sum))
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	} else if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	part, err := io.ReadAll(io.NewSectionReader(f, from, engine.BlobPiece))
	return string(part), piecesOf(info.Size()), err
}

// piecesOf is how many pieces a blob of so many bytes has, at least one.
func piecesOf(size int64) int { return int(max(1, (size+engine.BlobPiece-1)/engine.BlobPiece)) }

// drop forgets a blob.
func (b *blobs) drop(sum string) error {
	delete(b.coming, sum)
	delete(b.whole, sum)
	if b.dir == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(b.dir, sum)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sums lists the blobs that are whole.
func (b *blobs) sums() ([]string, error) {
	var sums []string
	for sum := range b.whole {
		sums = append(sums, sum)
	}
	if b.dir != "" {
		files, err := os.ReadDir(b.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), freshEnd) {
				sums = append(sums, f.Name())
			}
		}
	}
	slices.Sort(sums)
	return sums, nil
}
