package enginetest

import (
	"strings"

	"github.com/permitd/permitd/engine"
)

// blobOf cuts data into the pieces of a blob.
func blobOf(sum, data string) (pieces []*engine.PutBlob) {
	for at := 0; at == 0 || at < len(data); at += engine.BlobPiece {
		pieces = append(pieces, &engine.PutBlob{Sum: sum, Piece: len(pieces), Data: data[at:min(at+engine.BlobPiece, len(data))]})
	}
	for _, p := range pieces {
		p.Pieces = len(pieces)
	}
	return pieces
}

func (c *contract) putBlob(pieces ...*engine.PutBlob) {
	c.Helper()
	for _, p := range pieces {
		c.expect(engine.SaysDone, p)
	}
}

func (c *contract) blobs() []string {
	c.Helper()
	return c.expect(engine.SaysDone, &engine.Blobs{}).Names
}

var blobRules = []rule{
	{"a blob is read as it was put, piece by piece", func(c *contract) {
		c.form()
		for sum, data := range map[string]string{
			"00": "\x00asm any \xff bytes", "0a": strings.Repeat("ten bytes\x00", 20_000), "0b": strings.Repeat("b", 2*engine.BlobPiece),
		} {
			pieces := blobOf(sum, data)
			c.putBlob(pieces...)
			var got strings.Builder
			for i := range pieces {
				a := c.expect(engine.SaysDone, &engine.GetBlob{Sum: sum, Piece: i})
				c.equal("pieces", a.Pieces, len(pieces))
				got.WriteString(a.Data)
			}
			c.equal("the same", got.String() == data, true)
		}
		c.equal("blobs", c.blobs(), []string{"00", "0a", "0b"})
	}},
	{"a blob is there when its last piece is, in whatever order they come and however often", func(c *contract) {
		c.form()
		pieces := blobOf("0a", strings.Repeat("x", 2*engine.BlobPiece+1))
		for _, i := range []int{2, 0, 0, 2} {
			c.putBlob(pieces[i])
			c.expect(engine.SaysNo, &engine.GetBlob{Sum: "0a", Piece: i})
			c.equal("blobs", len(c.blobs()), 0)
		}
		c.putBlob(pieces[1])
		c.equal("the last piece", c.expect(engine.SaysDone, &engine.GetBlob{Sum: "0a", Piece: 2}).Data, "x")
		c.putBlob(pieces[0], pieces[1]) // again: it is there already
		c.equal("the first piece", c.expect(engine.SaysDone, &engine.GetBlob{Sum: "0a"}).Data, pieces[0].Data)
		c.equal("blobs", c.blobs(), []string{"0a"})
	}},
	{"a dropped blob is gone, whole or not, and may be put again", func(c *contract) {
		c.form()
		pieces := blobOf("0a", strings.Repeat("x", engine.BlobPiece+1))
		c.expect(engine.SaysDone, &engine.DropBlob{Sum: "0a"})
		c.putBlob(pieces[0])
		c.expect(engine.SaysDone, &engine.DropBlob{Sum: "0a"})
		c.putBlob(pieces[1])
		c.expect(engine.SaysNo, &engine.GetBlob{Sum: "0a"})
		c.putBlob(pieces[0])
		c.putBlob(blobOf("0b", "b")...)
		c.expect(engine.SaysDone, &engine.GetBlob{Sum: "0a"})
		c.expect(engine.SaysDone, &engine.DropBlob{Sum: "0a"})
		c.expect(engine.SaysNo, &engine.GetBlob{Sum: "0a"})
		c.equal("blobs", c.blobs(), []string{"0b"})
		c.putBlob(pieces...)
		c.equal("blobs", c.blobs(), []string{"0a", "0b"})
	}},
	{"a blob outlives what is removed of older eras", func(c *contract) {
		c.expect(engine.SaysDone, c.freeze(1))
		load := c.load(1)
		load.Page = &engine.Page{}
		c.expect(engine.SaysDone, load)
		c.expect(engine.SaysDone, c.commit(1))
		c.serving()
		for _, sum := range []string{"6a", "70", "aa"} {
			c.putBlob(blobOf(sum, sum)...)
		}
		for range 3 {
			c.expect(engine.SaysDone, &engine.Note{Instances: make([]engine.Instance, 3), Offsets: make([]engine.Offset, 3)})
		}
		for _, sum := range []string{"6a", "70", "aa"} {
			c.equal(sum, c.expect(engine.SaysDone, &engine.GetBlob{Sum: sum}).Data, sum)
		}
	}},
	{"what a node never had it does not have", func(c *contract) {
		c.form()
		c.expect(engine.SaysNo, &engine.GetBlob{Sum: "0a"})
		c.equal("blobs", len(c.blobs()), 0)
	}},
}
