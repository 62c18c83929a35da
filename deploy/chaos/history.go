package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// hold is what a client was told of one lease. Times count from the start of the run.
type hold struct {
	client    int
	semaphore string
	lease     string
	slots     []int
	fence     int64
	asked     time.Duration
	granted   time.Duration // the answer was read
	over      time.Duration // it was given back, was lost, or its validity ended: until then nobody else may have it
	released  time.Duration // the release was acknowledged; never: it lapsed, or nobody knows
}

// never is later than all that happens.
const never = time.Duration(math.MaxInt64)

// slack is by how much a client may be late in reading what it was told: validity counts from the arrival of an answer, and on a
// busy machine a client may get to it later.
const slack = 100 * time.Millisecond

// history is what all clients were told. Safe for concurrent use.
type history struct {
	mu    sync.Mutex // guards what follows
	holds []hold
	kinds map[string]int // of answers
}

func (h *history) add(x hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = append(h.holds, x)
}

// count counts an answer of a kind.
func (h *history) count(kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kinds == nil {
		h.kinds = map[string]int{}
	}
	h.kinds[kind]++
}

// slotID is one permit.
type slotID struct {
	semaphore string
	slot      int
}

// act is a step on one permit.
type act struct {
	takes bool // else it comes free
	lease string
	fence int64
}

// permit is the sequential model of one permit: it has one holder at most, and each has a larger fence than the one before. A history
// of a semaphore is one of its permits each for itself, as a lease says which it has; so what porcupine has to search stays small.
type permit struct {
	holder string
	fence  int64
}

var model = porcupine.Model{
	Init: func() any { return permit{} },
	Step: func(state, input, _ any) (bool, any) {
		p, a := state.(permit), input.(act)
		switch {
		case a.takes:
			return p.holder == "" && a.fence > p.fence, permit{a.lease, a.fence}
		default:
			return p.holder == a.lease, permit{"", p.fence}
		}
	},
	DescribeOperation: func(input, _ any) string {
		a := input.(act)
		if a.takes {
			return fmt.Sprintf("%s takes it, fence %d", a.lease, a.fence)
		}
		return a.lease + " is over"
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state.(permit)) },
}

// operations are the acts on each permit, each between when it began and when it was known to be over.
func (h *history) operations() map[slotID][]porcupine.Operation {
	ops := map[slotID][]porcupine.Operation{}
	for _, x := range h.holds {
		takes := porcupine.Operation{
			ClientId: x.client, Input: act{true, x.lease, x.fence}, Call: int64(x.asked), Return: int64(x.granted),
		}
		ends := porcupine.Operation{
			ClientId: x.client, Input: act{false, x.lease, x.fence}, Call: int64(max(x.granted, x.over)), Return: int64(x.released),
		}
		for _, slot := range x.slots {
			id := slotID{x.semaphore, slot}
			ops[id] = append(ops[id], takes, ends)
		}
	}
	return ops
}

// searchMax bounds how long porcupine looks at one permit.
const searchMax = time.Minute

// check returns what no semaphore would have done. Where porcupine finds that a history of a permit cannot be, a picture of it is left in dir.
func (h *history) check(limits map[string]int, dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var wrong error
	for _, x := range h.holds {
		for _, slot := range x.slots {
			if slot < 0 || slot >= limits[x.semaphore] {
				wrong = errors.Join(wrong, fmt.Errorf("lease %s of %s has slot %d; its limit is %d", x.lease, x.semaphore, slot, limits[x.semaphore]))
			}
		}
	}
	for id, ops := range h.operations() {
		result, info := porcupine.CheckOperationsVerbose(model, ops, searchMax)
		if result == porcupine.Ok {
			continue
		}
		path := filepath.Join(dir, strings.Map(plain, fmt.Sprintf("%s-%d.html", id.semaphore, id.slot)))
		err := fmt.Errorf("permit %d of %s: its history cannot be (%s); a picture is in %s\n%s", id.slot, id.semaphore, result, path, h.around(id))
		wrong = errors.Join(wrong, err, porcupine.VisualizePath(model, info, path))
	}
	return wrong
}

func plain(r rune) rune {
	if r == '/' || r == os.PathSeparator {
		return '_'
	}
	return r
}

// around tells of the holders of a permit that had it together, or whose fences do not grow. h.mu is held.
func (h *history) around(id slotID) string {
	var list []hold
	for _, x := range h.holds {
		if x.semaphore == id.semaphore && slices.Contains(x.slots, id.slot) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.granted, b.granted) })
	var text strings.Builder
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if b.granted < a.over || b.asked > a.granted && b.fence <= a.fence {
			fmt.Fprintf(&text, "  %s\n  %s\n", a, b)
		}
	}
	return text.String()
}

func (x hold) String() string {
	ended := "lapsed, or its release was not acknowledged"
	if x.released != never {
		ended = fmt.Sprintf("released at %.3f s", x.released.Seconds())
	}
	return fmt.Sprintf("client %d had %s, fence %d: asked at %.3f s, granted at %.3f s, over at %.3f s, %s",
		x.client, x.lease, x.fence, x.asked.Seconds(), x.granted.Seconds(), x.over.Seconds(), ended)
}
