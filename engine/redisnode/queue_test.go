package redisnode

import (
	"errors"
	"testing"

	"github.com/permitd/permitd/engine"
)

func calls(n int) []*engine.Call {
	list := make([]*engine.Call, n)
	for i := range list {
		list[i] = &engine.Call{At: int64(i)}
	}
	return list
}

func TestCallsLeaveTheQueueInTheirOrderAndInBatches(t *testing.T) {
	t.Parallel()
	q := newQueue()
	const count = 3*batchMax + 7
	for _, c := range calls(count) {
		if err := q.add([]*engine.Call{c}); err != nil {
			t.Fatal(err)
		}
	}
	var seen int64
	for batch := []waiting(nil); seen < count; {
		select {
		case <-q.ready:
		default:
			t.Fatalf("%d calls are left and nobody is told", count-seen)
		}
		batch = q.take(batch[:0])
		if len(batch) > batchMax {
			t.Fatalf("a batch of %d", len(batch))
		}
		for _, w := range batch {
			if w.call.At != seen {
				t.Fatalf("call %d after %d", w.call.At, seen-1)
			}
			seen++
		}
	}
	if len(q.ready) != 0 {
		t.Error("the queue is empty and still ready")
	}
}

func TestTheQueueDoesNotGrowWhileItIsDrained(t *testing.T) {
	t.Parallel()
	q := newQueue()
	if err := q.add(calls(2 * batchMax)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := q.add(calls(batchMax)); err != nil {
			t.Fatal(err)
		}
		if batch := q.take(nil); len(batch) != batchMax {
			t.Fatalf("a batch of %d", len(batch))
		}
	}
	if cap(q.calls) > 20*batchMax {
		t.Errorf("it has room for %d", cap(q.calls))
	}
}

func TestTheQueueHasRoomForSoManyAndTakesAllOrNone(t *testing.T) {
	t.Parallel()
	q := newQueue()
	if err := q.add(calls(queueMax - 1)); err != nil {
		t.Fatal(err)
	}
	if err := q.add(calls(2)); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := q.add(calls(1)); err != nil {
		t.Errorf("got %v", err)
	}
	if err := q.add(calls(1)); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestAClosedQueueTakesNothingAndGivesWhatIsLeft(t *testing.T) {
	t.Parallel()
	q := newQueue()
	_ = q.add(calls(3))
	if left := q.close(); len(left) != 3 {
		t.Errorf("%d are left", len(left))
	}
	if err := q.add(calls(1)); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if left := q.close(); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}
