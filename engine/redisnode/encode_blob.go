package redisnode

import "github.com/permitd/permitd/engine"

// encodeBlob writes a call that is about a blob. Their keys carry no era: a blob is the same in each.
func (e *encoder) encodeBlob(a *arguments, c *engine.Call) {
	switch op := c.Op.(type) {
	case *engine.PutBlob:
		e.blob(a, c, op.Sum, threeKeys)
		a.word(op.Sum)
		a.number(int64(op.Piece))
		a.number(int64(op.Pieces))
		a.text(op.Data)
		a.number(engine.NodeLimits.BlobComing.Milliseconds())
	case *engine.GetBlob:
		e.blob(a, c, op.Sum, twoKeys)
		a.number(int64(op.Piece))
	case *engine.DropBlob:
		e.blob(a, c, op.Sum, threeKeys)
		a.word(op.Sum)
	case *engine.Blobs:
		e.start(a, op, twoKeys)
		e.nodeKey(a)
		e.blobsKey(a)
		e.stamp(a, c)
	}
}

// blob begins a call about one blob; its third key, if any, is that of all sums.
func (e *encoder) blob(a *arguments, c *engine.Call, sum string, keys any) {
	e.start(a, c.Op, keys)
	e.nodeKey(a)
	p := a.next()
	p.bytes = appendWord(append(append(p.bytes, e.prefix...), ":blob:"...), sum)
	if keys == threeKeys {
		e.blobsKey(a)
	}
	e.stamp(a, c)
}

func (e *encoder) blobsKey(a *arguments) {
	p := a.next()
	p.bytes = append(append(p.bytes, e.prefix...), ":blobs"...)
}
