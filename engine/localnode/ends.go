package localnode

import "math"

// never is the end of what does not end by itself.
const never = int64(math.MaxInt64)

// ending is when something is over by itself, and where it is in its heap.
type ending struct {
	at  int64 // node clock, µs, or never
	pos int
}

func (e *ending) end() *ending { return e }

// ends is a heap of what will be over: what ends first is items[0]. Each item knows its position
// (items[x.pos] == x), so that one in the middle is moved or taken out in O(log n).
type ends[T interface{ end() *ending }] struct{ items []T }

// first returns when the first item is over, or never.
func (h *ends[T]) first() int64 {
	if len(h.items) == 0 {
		return never
	}
	return h.items[0].end().at
}

func (h *ends[T]) add(x T) {
	h.items = append(h.items, x)
	h.up(len(h.items) - 1)
}

// moved puts an item whose end has changed where it belongs.
func (h *ends[T]) moved(x T) {
	h.down(x.end().pos)
	h.up(x.end().pos)
}

func (h *ends[T]) remove(x T) {
	pos, last := x.end().pos, len(h.items)-1
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if pos < last {
		h.put(pos, moved)
		h.moved(moved)
	}
}

func (h *ends[T]) put(i int, x T) {
	h.items[i] = x
	x.end().pos = i
}

func (h *ends[T]) up(i int) {
	x := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if h.items[parent].end().at <= x.end().at {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, x)
}

func (h *ends[T]) down(i int) {
	x := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if child+1 < len(h.items) && h.items[child+1].end().at < h.items[child].end().at {
			child++
		}
		if x.end().at <= h.items[child].end().at {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	h.put(i, x)
}
