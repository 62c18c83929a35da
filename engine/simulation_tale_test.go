package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
	"github.com/permitd/permitd/engine/quorum"
)

// tale is one request and its lease, as its client hears of it.
type tale struct {
	w         *world
	engine    *engine.Engine
	semaphore string
	ask       engine.Ask
	asked     time.Duration
	request   *engine.Request // for its client alone
	heard     chan struct{}   // closed when it was granted or has ended
	ended     chan struct{}   // closed when it has ended

	// Guarded by w.mu.
	lease    engine.Lease
	by       string        // the attempt that was granted
	granted  time.Duration // forever: not
	until    time.Duration // the end of the validity as last told
	slots    quorum.Slots  // what the client still uses
	parted   bool          // a part was given back, and that is not confirmed
	released bool          // it was asked to be, in whole
	over     bool          // the engine says nothing any more
	orphan   bool          // its replica has ended
	lost     string        // the reason
	err      error         // of a failure
	refusal  *engine.Refusal
	toldAt   time.Duration // of the last Waiting

	overtaken   time.Duration // while it waited, somebody was granted who comes after it; forever: nobody
	overtakenBy string
}

// ask makes a request.
func (w *world) ask(e *engine.Engine, semaphore string, ask engine.Ask) *tale {
	t := &tale{
		w: w, engine: e, semaphore: semaphore, ask: ask, asked: w.now(), granted: forever, toldAt: -time.Minute, overtaken: forever,
		heard: make(chan struct{}), ended: make(chan struct{}),
	}
	w.mu.Lock()
	w.tales[t] = struct{}{}
	w.mu.Unlock()
	t.request = e.Ask(semaphore, ask, t)
	return t
}

// told begins every event: one that comes after the end is a violation. w.mu is held.
func (t *tale) told(what string) bool {
	t.w.steps++
	if t.over {
		t.w.violatedf("%s was told of a request for %s that is over", what, t.semaphore)
	}
	return !t.over && !t.orphan
}

// finish is the last of a tale. w.mu is held.
func (t *tale) finish() {
	if t.over {
		return
	}
	t.over = true
	delete(t.w.tales, t)
	select {
	case <-t.heard:
	default:
		close(t.heard)
	}
	close(t.ended)
}

// Waiting implements engine.Events.
func (t *tale) Waiting(ahead int) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if !t.told("waiting") {
		return
	}
	switch now := t.w.now(); {
	case t.granted != forever:
		t.w.violatedf("a holder of %s was told that it waits", t.semaphore)
	case ahead < 0 || t.ask.Wait == 0:
		t.w.violatedf("a request for %s that waits %v was told that %d are ahead", t.semaphore, t.ask.Wait, ahead)
	case now-t.toldAt < time.Second-slack:
		t.w.violatedf("a waiter of %s was told its place %v after the last time", t.semaphore, now-t.toldAt)
	default:
		t.toldAt = now
	}
}

// slack is what clocks that run at different rates make of the times that the simulation compares.
const slack = 5 * time.Millisecond

// Granted implements engine.Events.
func (t *tale) Granted(l engine.Lease) {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.told("a grant") {
		return
	}
	now := w.now()
	if t.granted != forever {
		w.violatedf("lease %s was granted twice", l.ID)
		return
	}
	w.granted[l.ID] = true
	t.lease, t.granted, t.slots = l, now, l.Slots
	t.until = now + w.trusted(l)
	if l.TTL == engine.Never {
		t.until = forever
	}
	w.violated(t.checkLease(l))
	placed := t.placedAt()
	w.violated(w.checkMinHold(t, placed))
	placed = max(t.asked, placed-slack)
	w.violated(w.checkLimit(t, placed))
	t.noteOvertaken()
	w.violated(w.history.Granted(enginetest.Grant{
		Semaphore: t.semaphore, Lease: l.ID, Slots: l.Slots, Fence: l.Fence, Asked: placed, Told: now, Until: t.until,
	}))
	close(t.heard)
}

// trusted is how long a holder trusts a lease.
func (w *world) trusted(l engine.Lease) time.Duration {
	if w.trust == nil {
		return l.Validity
	}
	return l.Validity + w.trust(l)
}

// checkLimit: with the new lease no more permits are held than a limit allows that may have been in force since it was on the
// first node, and it has none beyond. (A shrunken limit revokes nothing, so only grants are checked.) w.mu is held.
func (w *world) checkLimit(t *tale, placed time.Duration) error {
	limit := w.chosen.limit(t.semaphore, placed, t.granted)
	switch held := w.history.Held(t.granted, t.semaphore) + t.slots.Len(); {
	case limit == 0:
		return fmt.Errorf("lease %s was granted between %v and %v, when %s was paused, deleted or not there", t.lease.ID, placed, t.granted, t.semaphore)
	case held > limit, len(t.slots.From(limit)) > 0:
		return fmt.Errorf("with lease %s, slots %s, %d permits of %s are held; its limit is %d", t.lease.ID, t.slots, held, t.semaphore, limit)
	}
	return nil
}

// checkMinHold: a slot comes back no earlier than min_hold after it was granted, where the definition has always had one.
// placed is when the new lease was on the first node. w.mu is held.
func (w *world) checkMinHold(t *tale, placed time.Duration) error {
	var err error
	s := w.planned(t.semaphore)
	for slot := range t.slots.All() {
		key := fmt.Sprint(s.name, " ", slot)
		least := s.def.MinHold - s.def.MinHold/1000 - slack
		if last, had := w.placed[key]; had && s.deleted == 0 && t.granted-last < least {
			err = fmt.Errorf("lease %s of %s got slot %d %v after the last holder; min_hold is %v", t.lease.ID, s.name, slot, t.granted-last, s.def.MinHold)
		}
		w.placed[key] = placed
	}
	return err
}

// checkLease says what is wrong with a lease by itself.
func (t *tale) checkLease(l engine.Lease) error {
	want := max(t.ask.Permits, 1)
	switch {
	case l.Weight != want || l.Slots.Len() != want || l.Requested != want:
		return fmt.Errorf("%d permits were asked for, granted was %+v", want, l)
	case l.TTL == engine.Never && t.ask.TTL != engine.Never, t.ask.TTL != 0 && l.TTL != t.ask.TTL:
		return fmt.Errorf("a TTL of %v was asked for, granted was %+v", t.ask.TTL, l)
	case l.TTL != engine.Never && (l.Validity <= 0 || l.Validity > l.TTL):
		return fmt.Errorf("granted was a validity of %v of a TTL of %v", l.Validity, l.TTL)
	}
	return nil
}

// placedAt is when the lease was put on the first of the nodes that hold it as it was granted: none of them voted for it
// before. It notes the attempt that was granted. w.mu is held.
func (t *tale) placedAt() time.Duration {
	if t.w.plan.eras {
		return t.asked // at the earliest
	}
	placed := map[string][]time.Duration{} // by attempt: two of a lease may be on the same slots with the same fence
	for _, r := range t.w.records(t.semaphore, t.lease.ID) {
		if r != nil && r.Fence == t.lease.Fence && r.Slots.Equal(t.lease.Slots) {
			placed[r.By] = append(placed[r.By], t.granted-r.Age)
			if len(placed[r.By]) >= t.w.quorum() {
				t.by = r.By
			}
		}
	}
	return slices.Min(append(placed[t.by], t.granted))
}

// Refused implements engine.Events.
func (t *tale) Refused(f engine.Refusal) {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.told("a refusal") {
		return
	}
	switch early := t.asked + t.ask.Wait - w.now(); {
	case t.granted != forever:
		w.violatedf("a holder of %s was refused", t.semaphore)
	case early > slack+t.ask.Wait/1000:
		w.violatedf("a request for %s was refused %v before its wait of %v was over", t.semaphore, early, t.ask.Wait)
	case f.RetryAfter < time.Second || f.RetryAfter > 30*time.Second || f.Ahead < 0 || f.InUse < 0 || f.Waiting < 0:
		w.violatedf("a refusal of %s says %+v", t.semaphore, f)
	}
	t.refusal = &f
	t.finish()
}

// Failed implements engine.Events.
func (t *tale) Failed(err error) {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.told("a failure") {
		return
	}
	if t.granted != forever {
		w.violatedf("a holder of %s was told that its request failed: %v", t.semaphore, err)
	}
	if !t.mayFail(err) {
		w.violatedf("a request for %s failed: %w", t.semaphore, err)
	}
	t.err = err
	t.finish()
}

// mayFail reports whether the failure is one that this request may meet. w.mu is held.
func (t *tale) mayFail(err error) bool {
	var weight *engine.WeightError
	var conflict *engine.DefinitionConflict
	switch {
	case errors.Is(err, engine.ErrQuorumUnavailable):
		return t.w.calmFor(0) == false
	case errors.Is(err, engine.ErrUnknownSemaphore):
		return t.ask.Create == nil || t.w.calmFor(0) == false
	case errors.As(err, &weight), errors.As(err, &conflict), errors.Is(err, engine.ErrTooManyWaiters):
		return true
	case errors.Is(err, engine.ErrDraining):
		return t.w.plan.ends()
	}
	return false
}

// calmFor reports whether there were no faults for so long. w.mu is held.
func (w *world) calmFor(d time.Duration) bool { return w.calmAt != forever && w.now()-w.calmAt >= d }

// Renewed implements engine.Events.
func (t *tale) Renewed(v time.Duration) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.told("a renewal") {
		t.prolonged(t.w.now(), v)
	}
}

// prolonged takes in a longer validity that was asked for at some time. w.mu is held.
func (t *tale) prolonged(asked, validity time.Duration) {
	l := t.lease
	l.Validity = validity
	until := t.w.now() + t.w.trusted(l)
	if t.lease.TTL == engine.Never {
		until = forever
	}
	t.w.violated(t.w.history.Renewed(asked, t.w.now(), t.semaphore, t.lease.ID, until))
	t.until = max(t.until, until)
}

// Expiring implements engine.Events.
func (t *tale) Expiring(v time.Duration, reason string) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.told("expiring") && (!t.ask.Kept || t.granted == forever || v < 0) {
		t.w.violatedf("lease %s of %s is expiring in %v: %s", t.lease.ID, t.semaphore, v, reason)
	}
}

// Lost implements engine.Events.
func (t *tale) Lost(reason string) {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.told("a loss") {
		return
	}
	may := false
	switch reason {
	case "quorum_lost":
		may = !w.calmFor(ttlMax)
	case "expired":
		may = w.planned(t.semaphore).def.HoldMax > 0 || t.released
	case "broken", "moved", "released":
		may = t.released // elsewhere
	}
	if !may || !t.ask.Kept || t.granted == forever {
		w.violatedf("lease %s of %s, %s was told as lost: %s", t.lease.ID, t.semaphore, kept(t.ask.Kept), reason)
	}
	w.history.Lost(w.now(), t.semaphore, t.lease.ID)
	t.lost = reason
	t.finish()
}

func kept(is bool) string {
	if is {
		return "which is kept,"
	}
	return "which nobody keeps,"
}

func (w *world) planned(semaphore string) *semaphorePlan {
	for i := range w.plan.semaphores {
		if w.plan.semaphores[i].name == semaphore {
			return &w.plan.semaphores[i]
		}
	}
	panic("unknown semaphore " + semaphore)
}

// orphaned says that the replica has ended, which tells nothing more. A lease lives on until its validity ends. w.mu is held.
func (t *tale) orphaned() {
	t.orphan = true
	select {
	case <-t.heard:
	default:
		t.err = engine.ErrDraining
		t.finish()
	}
}

// valid reports whether the client may use the lease now. w.mu is held.
func (t *tale) valid() bool {
	return t.granted != forever && !t.released && t.lost == "" && t.w.now() < t.until
}

// cancel ends the request; nothing may be told afterwards.
func (t *tale) cancel() {
	w := t.w
	w.mu.Lock()
	t.gives(nil)
	w.mu.Unlock()
	t.request.Cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.granted != forever {
		t.gives(nil) // it was granted in between
	}
	t.finish()
}

// gives says that the client uses slots (none: all) no more, from now on. w.mu is held.
func (t *tale) gives(slots quorum.Slots) {
	if t.granted == forever {
		return
	}
	t.w.history.ReleaseAsked(t.w.now(), t.semaphore, t.lease.ID, slots)
	if len(slots) == 0 {
		t.released = true
	} else {
		t.slots = t.slots.Minus(slots)
	}
}
