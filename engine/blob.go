package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
)

// ErrNoBlob: there is no such blob.
var ErrNoBlob = errors.New("there is no such blob")

// unwanted are the blobs that somebody has put on the nodes and nobody uses, as of the last MendBlobs: whoever has put one may be
// about to use it.
type unwanted struct {
	mu   sync.Mutex // held by MendBlobs
	sums map[string]bool
}

// WriteBlob keeps a blob of up to BlobMax bytes under its SHA-256 on the nodes, at least on a quorum. One that is there already is no
// error. Errors: ErrQuorumUnavailable, the context's.
func (e *Engine) WriteBlob(ctx context.Context, sum string, data []byte) error {
	if n := e.putBlob(ctx, sum, data, func(*peer) bool { return true }); n < e.quorum {
		return errors.Join(ctx.Err(), ErrQuorumUnavailable)
	}
	return nil
}

// putBlob puts a blob on some of the nodes, and returns on how many it is then.
func (e *Engine) putBlob(ctx context.Context, sum string, data []byte, on func(*peer) bool) int {
	pieces := max(1, (len(data)+BlobPiece-1)/BlobPiece)
	has := make([]bool, len(e.peers))
	for i, p := range e.peers {
		has[i] = on(p)
	}
	for i := range pieces {
		op := &PutBlob{Sum: sum, Piece: i, Pieces: pieces, Data: string(data[i*BlobPiece : min((i+1)*BlobPiece, len(data))])}
		answers := e.gather(ctx, func(p *peer) Op {
			if !has[p.pos] {
				return nil
			}
			return op
		}, nil)
		for pos, a := range answers {
			has[pos] = has[pos] && a != nil && a.Says == SaysDone
		}
	}
	n := 0
	for _, h := range has {
		if h {
			n++
		}
	}
	return n
}

// ReadBlob reads a blob from any node that has it, as it was written. Errors: ErrNoBlob (a quorum does not have it, and nobody who
// answers does), ErrQuorumUnavailable, the context's.
func (e *Engine) ReadBlob(ctx context.Context, sum string) ([]byte, error) {
	without := 0
	for _, p := range e.peers {
		data, answered := e.blobAt(ctx, p, sum)
		if s := sha256.Sum256(data); answered && data != nil && hex.EncodeToString(s[:]) == sum {
			return data, nil
		}
		if answered {
			without++
		}
	}
	if without >= e.quorum {
		return nil, ErrNoBlob
	}
	return nil, errors.Join(ctx.Err(), ErrQuorumUnavailable)
}

// blobAt reads a blob from one node; nil: it does not have it.
func (e *Engine) blobAt(ctx context.Context, p *peer, sum string) (data []byte, answered bool) {
	for i := 0; ; i++ {
		a := e.askOne(ctx, p, &GetBlob{Sum: sum, Piece: i})
		switch {
		case a == nil:
			return nil, false
		case a.Says != SaysDone:
			return nil, true
		}
		data = append(data, a.Data...)
		if i+1 >= a.Pieces {
			return slices.Clip(data), true
		}
	}
}

// askOne asks one node; nil: it gave no answer.
func (e *Engine) askOne(ctx context.Context, p *peer, op Op) *Answer {
	return e.gather(ctx, func(other *peer) Op {
		if other != p {
			return nil
		}
		return op
	}, nil)[p.pos]
}

// DropBlob forgets a blob on every node that answers; on the others MendBlobs does. One that is not there is no error. Errors:
// ErrQuorumUnavailable, the context's.
func (e *Engine) DropBlob(ctx context.Context, sum string) error {
	answers := e.gather(ctx, func(*peer) Op { return &DropBlob{Sum: sum} }, nil)
	if answered(answers) < e.quorum {
		return errors.Join(ctx.Err(), ErrQuorumUnavailable)
	}
	return nil
}

// MendBlobs puts the blobs that are used where they are missing: on nodes that were away or have lost their memory. What nobody uses is
// dropped once it was not used at two calls in a row. Call it now and then. Errors: ErrQuorumUnavailable, the context's; of a blob
// that no node has, ErrNoBlob, after the others were mended.
func (e *Engine) MendBlobs(ctx context.Context, used map[string]bool) error {
	e.unwanted.mu.Lock()
	defer e.unwanted.mu.Unlock()
	answers := e.gather(ctx, func(*peer) Op { return &Blobs{} }, nil)
	if answered(answers) < e.quorum {
		return errors.Join(ctx.Err(), ErrQuorumUnavailable)
	}
	var err error
	for sum := range used {
		lacks := func(p *peer) bool {
			a := answers[p.pos]
			return a != nil && !slices.Contains(a.Names, sum)
		}
		if slices.ContainsFunc(e.peers, lacks) {
			err = errors.Join(err, e.mendBlob(ctx, sum, lacks))
		}
	}
	spare := map[string]bool{}
	for _, a := range answers {
		if a == nil {
			continue
		}
		for _, sum := range a.Names {
			if !used[sum] && !spare[sum] {
				spare[sum] = true
				if e.unwanted.sums[sum] {
					err = errors.Join(err, e.DropBlob(ctx, sum))
				}
			}
		}
	}
	e.unwanted.sums = spare
	return err
}

func (e *Engine) mendBlob(ctx context.Context, sum string, lacks func(*peer) bool) error {
	data, err := e.ReadBlob(ctx, sum)
	if err != nil {
		return err
	}
	e.putBlob(ctx, sum, data, lacks)
	return nil
}
