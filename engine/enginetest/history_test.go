package enginetest

import (
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// past is a history of the semaphore "db" that a test writes; times are in seconds.
type past struct {
	*testing.T
	History
	nodes map[string][]*engine.Record // what the nodes have of each lease
}

func newPast(t *testing.T, limit int) *past {
	p := &past{T: t, nodes: map[string][]*engine.Record{}}
	p.Quorum = 2
	p.LimitAsked(0, "db", limit)
	p.LimitTold(0, "db")
	return p
}

// looking lets the history look at the nodes.
func (p *past) looking() *past {
	p.Records = func(_, lease string) []*engine.Record { return p.nodes[lease] }
	return p
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// grant tells a lease asked for and told at one time, valid for ten seconds.
func (p *past) grant(at float64, lease string, fence int64, slots ...int) error {
	return p.grantAsked(at, at, lease, fence, slots...)
}

func (p *past) grantAsked(asked, told float64, lease string, fence int64, slots ...int) error {
	return p.Granted(Grant{
		Semaphore: "db", Lease: lease, Slots: quorum.SlotsOf(slots...), Fence: fence,
		Asked: seconds(asked), Told: seconds(told), Until: seconds(told + 10),
	})
}

// fine fails the test if the event broke anything.
func (p *past) fine(err error) {
	p.Helper()
	if err != nil {
		p.Errorf("a right history is called wrong: %v", err)
	}
}

// wrong fails the test unless the event broke what is named.
func (p *past) wrong(err error, what string) {
	p.Helper()
	if err == nil || !strings.Contains(err.Error(), what) {
		p.Errorf("got %v; want that %q", err, what)
	}
	if broken := p.Broken(); err != nil && (len(broken) == 0 || broken[len(broken)-1] != err) {
		p.Errorf("%v is not among what is broken: %v", err, broken)
	}
}

func TestHistoriesTellRightFromWrong(t *testing.T) {
	t.Parallel()
	for _, story := range []struct {
		name  string
		limit int
		tell  func(p *past)
	}{
		{"holders up to the limit are right", 3, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.grant(1, "M", 2, 1, 2))
			if held := p.Held(seconds(2), "db"); held != 3 {
				p.Errorf("%d permits are held; want 3", held)
			}
		}},
		{"one permit too many is wrong", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.grant(1, "M", 2, 1))
			p.wrong(p.grant(2, "N", 3, 2), "3 permits")
		}},
		{"a weight too large is wrong", 2, func(p *past) {
			p.wrong(p.grant(2, "N", 3, 0, 1, 2), "3 permits")
		}},
		{"a slot beyond the limit is wrong", 2, func(p *past) {
			p.wrong(p.grant(1, "L", 1, 2), "has slots 2")
		}},
		{"two holders of a slot are wrong", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.wrong(p.grant(2, "M", 2, 0), "share a slot")
		}},
		{"a slot may be granted again when its validity is over, and not a moment before", 1, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.grant(11, "M", 2, 0))
			p.wrong(p.grant(20.999, "N", 3, 0), "permits")
		}},
		{"a renewed lease is valid for longer", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.Renewed(seconds(5), seconds(5), "db", "L", seconds(15)))
			p.wrong(p.grant(12, "M", 2, 0), "share a slot")
		}},
		{"a renewal never shortens", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.Renewed(seconds(5), seconds(5), "db", "L", seconds(6)))
			p.wrong(p.grant(8, "M", 2, 0), "share a slot")
		}},
		{"a renewal after the validity has ended is right if nobody had the slots since, else wrong", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.Renewed(seconds(9), seconds(11.5), "db", "L", seconds(12)))
			p.fine(p.grant(13, "M", 2, 0))
			p.wrong(p.Renewed(seconds(11.5), seconds(14), "db", "L", seconds(21)), "after its validity")
		}},
		{"a lease that is renewed late holds its slots again", 3, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.grant(12, "M", 2, 1)) // by then L has ended
			p.fine(p.Renewed(seconds(11.5), seconds(13), "db", "L", seconds(21)))
			if held := p.Held(seconds(14), "db"); held != 2 {
				p.Errorf("%d permits are held; want 2", held)
			}
			p.wrong(p.grant(15, "N", 3, 0), "share a slot")
		}},
		{"a renewal of what was never granted is wrong", 2, func(p *past) {
			p.wrong(p.Renewed(seconds(9), seconds(9), "db", "L", seconds(21)), "never granted")
		}},
		{"a slot may be granted again once its release is asked for", 1, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.ReleaseAsked(seconds(2), "db", "L", nil)
			p.fine(p.grant(2, "M", 2, 0))
		}},
		{"a slot may be granted again once its loss is told", 1, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.Lost(seconds(2), "db", "L")
			p.fine(p.grant(2, "M", 2, 0))
		}},
		{"a part frees its slots and no others", 3, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0, 1, 2))
			p.ReleaseAsked(seconds(2), "db", "L", quorum.OneSlot(1))
			p.fine(p.grant(3, "M", 2, 1))
			p.ReleaseAsked(seconds(4), "db", "M", nil)
			p.wrong(p.grant(5, "N", 3, 2), "share a slot")
		}},
		{"a lease that is told twice is wrong", 2, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.wrong(p.grant(2, "L", 2, 1), "granted twice")
		}},
		{"a lease of no slots is wrong", 2, func(p *past) {
			p.wrong(p.grant(1, "L", 1), "without slots")
		}},
		{"a smaller fence on the same slot is wrong, however the requests crossed", 2, func(p *past) {
			p.fine(p.grantAsked(1, 3, "L", 7, 0))
			p.ReleaseAsked(seconds(4), "db", "L", nil)
			p.wrong(p.grantAsked(1, 5, "M", 6, 0), "was last held by L")
		}},
		{"an equal fence on the same slot is wrong", 2, func(p *past) {
			p.fine(p.grant(1, "L", 7, 0))
			p.ReleaseAsked(seconds(4), "db", "L", nil)
			p.wrong(p.grantAsked(0, 5, "M", 7, 0), "was last held by L")
		}},
		{"a smaller fence of what was asked for after another was told is wrong, on any slot", 2, func(p *past) {
			p.fine(p.grant(1, "L", 7, 0))
			p.wrong(p.grantAsked(2, 3, "M", 6, 1), "asked for after lease L")
		}},
		{"fences of requests that cross may come in any order", 3, func(p *past) {
			p.fine(p.grantAsked(1, 3, "L", 7, 0))
			p.fine(p.grantAsked(2, 4, "M", 6, 1))
			p.wrong(p.grantAsked(5, 6, "N", 7, 2), "asked for after lease L")
		}},
		{"a raised limit counts from when it was asked for", 1, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.LimitAsked(seconds(2), "db", 2)
			p.fine(p.grant(3, "M", 2, 1))
		}},
		{"a shrunken limit counts for what is asked for after it was told", 2, func(p *past) {
			p.LimitAsked(seconds(1), "db", 1)
			p.fine(p.grant(2, "L", 1, 1))
			p.LimitTold(seconds(3), "db")
			p.fine(p.grantAsked(2.5, 4, "M", 2, 0))
			p.Lost(seconds(5), "db", "L")
			p.Lost(seconds(5), "db", "M")
			p.wrong(p.grant(6, "N", 3, 1), "its limit is 1")
		}},
		{"semaphores do not count together", 1, func(p *past) {
			p.fine(p.grant(1, "L", 9, 0))
			p.LimitAsked(0, "other", 1)
			p.fine(p.Granted(Grant{Semaphore: "other", Lease: "L", Slots: quorum.OneSlot(0), Fence: 1, Asked: 2, Told: 2, Until: engine.Never}))
		}},
		{"a renewal asked for after the acknowledged release is wrong, one under way then is not", 1, func(p *past) {
			p.fine(p.grant(1, "L", 1, 0))
			p.ReleaseAsked(seconds(2), "db", "L", nil)
			p.fine(p.ReleaseTold(seconds(3), "db", "L"))
			p.fine(p.Renewed(seconds(2.5), seconds(4), "db", "L", seconds(14)))
			p.wrong(p.Renewed(seconds(3.5), seconds(4), "db", "L", seconds(14)), "its release was acknowledged")
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.tell(newPast(t, story.limit))
		})
	}
}

func TestHistoriesLookAtTheNodes(t *testing.T) {
	t.Parallel()
	vote := &engine.Record{Lease: "L", Slots: quorum.OneSlot(0), Fence: 1}
	moved := &engine.Record{Lease: "L", Slots: quorum.OneSlot(1), Fence: 1}
	fenced := &engine.Record{Lease: "L", Slots: quorum.OneSlot(0), Fence: 2}
	copied := &engine.Record{Lease: "L", Slots: quorum.OneSlot(0), Fence: 1, Copy: true}
	for _, story := range []struct {
		name string
		tell func(p *past)
	}{
		{"a grant on a quorum is right", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, nil, vote}
			p.fine(p.grant(1, "L", 1, 0))
		}},
		{"a grant on fewer nodes is wrong", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, nil, nil}
			p.wrong(p.grant(1, "L", 1, 0), "held on 1 nodes")
		}},
		{"other slots are no vote", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, moved, nil}
			p.wrong(p.grant(1, "L", 1, 0), "held on 1 nodes")
		}},
		{"another fence is no vote", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, fenced, nil}
			p.wrong(p.grant(1, "L", 1, 0), "held on 1 nodes")
		}},
		{"a copy is no vote", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, copied, nil}
			p.wrong(p.grant(1, "L", 1, 0), "held on 1 nodes")
		}},
		{"a release that left a quorum is wrong", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, vote, nil}
			p.fine(p.grant(1, "L", 1, 0))
			p.wrong(p.ReleaseTold(seconds(2), "db", "L"), "its release was acknowledged")
		}},
		{"a released lease that a minority still has is right", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, vote, nil}
			p.fine(p.grant(1, "L", 1, 0))
			p.nodes["L"] = []*engine.Record{nil, vote, nil}
			p.fine(p.ReleaseTold(seconds(2), "db", "L"))
			p.fine(p.Still(seconds(3)))
		}},
		{"a released lease that comes back is wrong", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, vote, nil}
			p.fine(p.grant(1, "L", 1, 0))
			p.nodes["L"] = nil
			p.fine(p.ReleaseTold(seconds(2), "db", "L"))
			p.nodes["L"] = []*engine.Record{vote, moved, nil}
			p.wrong(p.Still(seconds(70)), "its release was acknowledged")
		}},
		{"what is held by nobody at the end is wrong", func(p *past) {
			p.nodes["L"] = []*engine.Record{vote, vote, nil}
			p.fine(p.grant(1, "L", 1, 0))
			p.fine(p.Quiet(seconds(2), "db", "A", []engine.Record{*vote}))
			p.fine(p.Quiet(seconds(2), "db", "C", nil))
			p.wrong(p.Quiet(seconds(2), "db", "A", []engine.Record{*vote, {Lease: "M", Slots: quorum.OneSlot(1)}}), "that nobody has: M")
			p.ReleaseAsked(seconds(3), "db", "L", nil)
			p.wrong(p.Quiet(seconds(4), "db", "A", []engine.Record{*vote}), "that nobody has: L")
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.tell(newPast(t, 3).looking())
		})
	}
}
