package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/permitd/permitd/engine"
)

// Any selects messages of every kind.
const Any = "any"

// wakeOp is what selectors call the wakes of a node; the operations go by engine.OpName.
const wakeOp = "wake"

// selector picks messages: those of one operation (or Any) that carry all the words.
type selector struct {
	op    string
	words []string
}

func (s selector) matches(op string, words []string) bool {
	if s.op != Any && s.op != op {
		return false
	}
	for _, word := range s.words {
		if !slices.Contains(words, word) {
			return false
		}
	}
	return true
}

func (s selector) equal(t selector) bool { return s.op == t.op && slices.Equal(s.words, t.words) }

func (s selector) String() string {
	return strings.TrimSpace(s.op + " " + strings.Join(s.words, " "))
}

// words are what a selector can name of an operation: the semaphore or register, the lease, the attempt, the
// replica, why a release is sent, whether a mend is "new" or a "renewal".
func words(op engine.Op) []string {
	switch op := op.(type) {
	case *engine.Claim:
		return []string{op.Semaphore, op.Lease, op.By, op.Order.Replica}
	case *engine.Mend:
		kind := "renewal"
		if op.New {
			kind = "new"
		}
		return []string{op.Semaphore, op.Lease, op.By, kind}
	case *engine.Renew:
		return []string{op.Semaphore, op.Lease, op.By}
	case *engine.Release:
		return []string{op.Semaphore, op.Lease, op.By, op.Why, op.Replica}
	case *engine.Attach:
		return []string{op.Semaphore, op.Lease, op.By}
	case *engine.Commit:
		return []string{op.Token.Replica}
	case *engine.Line:
		return []string{op.Semaphore, op.Replica}
	case *engine.Find:
		return []string{op.Semaphore, op.Lease}
	case *engine.View:
		return []string{op.Semaphore}
	case *engine.Prepare:
		return []string{op.Name, op.Kind}
	case *engine.Accept:
		return []string{op.Name, op.Kind}
	case *engine.Peek:
		return []string{op.Name, op.Kind}
	case *engine.Drop:
		return []string{op.Name, op.Kind}
	case *engine.Read:
		return []string{op.Semaphore}
	case *engine.PutBlob:
		return []string{op.Sum}
	case *engine.GetBlob:
		return []string{op.Sum}
	case *engine.DropBlob:
		return []string{op.Sum}
	case *engine.Names, *engine.Freeze, *engine.Load, *engine.Mark, *engine.Note, *engine.Suspend, *engine.Blobs:
		return nil
	default:
		panic(fmt.Sprintf("enginetest: unknown operation %T", op))
	}
}

// leaseOf returns the lease that an operation is about, "" if about none.
func leaseOf(op engine.Op) string {
	switch op := op.(type) {
	case *engine.Claim:
		return op.Lease
	case *engine.Mend:
		return op.Lease
	case *engine.Renew:
		return op.Lease
	case *engine.Release:
		return op.Lease
	case *engine.Attach:
		return op.Lease
	case *engine.Find:
		return op.Lease
	default:
		return ""
	}
}
