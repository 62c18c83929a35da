package engine

// Blobs are what is too large for a register: WebAssembly modules, by their SHA-256, which never change. They lie beside the memory
// that eras are about: a node that forgot them gets them again from whoever uses them, and nothing is granted by them. They go over the
// lane by pieces, so that no claim waits long behind one.

// Limits of blobs.
const (
	BlobMax   = 8 << 20  // bytes
	BlobPiece = 64 << 10 // bytes of a piece; the last one may be shorter
)

// PutBlob keeps a piece of a blob. Pieces may come in any order and more than once; with the last that was missing the blob is
// there. Without it, what has come is forgotten an hour after the last: SaysDone.
type PutBlob struct {
	Sum    string // its SHA-256, in hexadecimal
	Piece  int    // from 0 on
	Pieces int    // of the whole blob, the same in every call
	Data   string
}

// GetBlob reads a piece of a blob: SaysDone with Data and Pieces, or SaysNo where the node does not have all pieces.
type GetBlob struct {
	Sum   string
	Piece int
}

// DropBlob forgets a blob, whole or not: SaysDone, also where there is none.
type DropBlob struct {
	Sum string
}

// Blobs lists the sums of the blobs that this node has, in their order: SaysDone with Answer.Names.
type Blobs struct{}

func (*PutBlob) op() string  { return "put_blob" }
func (*GetBlob) op() string  { return "get_blob" }
func (*DropBlob) op() string { return "drop_blob" }
func (*Blobs) op() string    { return "blobs" }
