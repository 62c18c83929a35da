package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

// How often this replica looks what policies are in force and which semaphores are bound to them, besides when it hears of a change.
const (
	policiesEvery   = 5 * time.Second
	policiesTimeMax = time.Minute // to compile many of them at a start
	policiesFirst   = time.Second // that readyz waits for them to be read for the first time
	rebindShare     = 20          // reading all definitions may take that part of the time, not more
)

// viaChannel is HolderInfo.Via of what came over the lease channel.
const viaChannel = "channel"

// errNoPolicies: the program that this server is part of brings no host of policies.
var errNoPolicies = errors.New("policies are not served here")

// followPolicies keeps what runs here to what is in force, until the server stops.
func (s *Server) followPolicies() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.work.Go(func() {
		<-s.stopped
		cancel()
	})
	tick := time.NewTicker(policiesEvery)
	defer tick.Stop()
	seen := sync.OnceFunc(func() { close(s.policiesSeen) })
	var rebind time.Time // when bindings are read again
	told := ""
	for {
		changed := s.engine.ValueChanged()
		err := s.engine.Ready(ctx)
		if err == nil {
			rebind, err = s.syncPolicies(ctx, rebind, seen)
		}
		if err != nil && err.Error() != told && ctx.Err() == nil {
			s.log.Warn("policies are not all as they should be here", "error", err)
		}
		if told = ""; err != nil {
			told = err.Error()
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-s.policiesWanted:
			rebind = time.Time{}
		case <-s.stopped:
			return
		}
	}
}

// syncPolicies loads what is in force, and reads the bindings if it is time to; next is when it is again. seen is called when both were read.
func (s *Server) syncPolicies(ctx context.Context, rebind time.Time, seen func()) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, policiesTimeMax)
	defer cancel()
	began := time.Now()
	if !began.Before(rebind) {
		if err := s.policies.Rebind(ctx); err != nil {
			return rebind, err
		}
		rebind = time.Now().Add(max(policiesEvery, rebindShare*time.Since(began)))
	}
	err = s.policies.Sync(ctx)
	if !errors.Is(err, engine.ErrQuorumUnavailable) && ctx.Err() == nil {
		seen() // what can not be loaded keeps nobody out unless a semaphore is bound to it
	}
	return rebind, err
}

// wantPolicies has this replica look at once.
func (s *Server) wantPolicies() {
	select {
	case s.policiesWanted <- struct{}{}:
	default:
	}
}

// policiesReady says why requests should not be sent here yet: the policy of a semaphore is not at work.
func (s *Server) policiesReady(ctx context.Context) error {
	if s.policies == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policiesFirst)
	defer cancel()
	select {
	case <-s.policiesSeen:
	case <-ctx.Done():
		return newProblem(kindPolicyUnavailable, "the policies are still being read")
	}
	if err := s.policies.Ready(); err != nil {
		return newProblem(kindPolicyUnavailable, "%s", oneLine(err.Error()))
	}
	return nil
}

// weigher returns how the engine asks a policy about a request; nothing is asked where no policy is bound.
func (s *Server) weigher(ask *engine.Ask, semaphore, requestID string, attributes map[string]string) func(engine.Standing) (engine.Weighed, error) {
	request := policies.Request{
		Semaphore: semaphore, Client: ask.Holder.Principal, Holder: ask.Holder.Holder, ID: requestID,
		Requested: int64(ask.Permits), Attributes: attributes, TTLMin: engine.TTLMin,
	}
	allFree := ask.AllFree
	shared := ask.Holder.Via == viaChannel // whoever asks has others to read for, too
	return func(standing engine.Standing) (engine.Weighed, error) {
		b := bindingOf(standing.Binding)
		if standing.Inline && shared && (s.policies == nil || !s.policies.Quick(&b)) {
			return engine.Weighed{}, engine.ErrLater
		}
		if allFree {
			request.Requested = int64(max(1, min(standing.Available, engine.WeightMax)))
		}
		request.Limit, request.Available, request.Waiting = int64(standing.Limit), int64(standing.Available), int64(standing.Waiting)
		request.TTLMax = standing.TTLMax
		return s.weigh(b, &request)
	}
}

// weigh asks a policy. A client that leaves meanwhile ends the request, not the evaluation.
func (s *Server) weigh(b policies.Binding, request *policies.Request) (engine.Weighed, error) {
	if s.policies == nil {
		return engine.Weighed{}, newProblem(kindPolicyUnavailable, "%s", errNoPolicies.Error())
	}
	d, err := s.policies.Evaluate(context.Background(), &b, request)
	switch {
	case errors.Is(err, policies.ErrUnavailable):
		s.wantPolicies()
		if b.Mode == policies.ModeShadow {
			return engine.Weighed{}, nil
		}
		return engine.Weighed{}, newProblem(kindPolicyUnavailable, "policy %q is not at work on this replica", b.Policy)
	case err != nil:
		return engine.Weighed{}, problemOfPolicy(err)
	}
	if d.Fault != nil {
		s.faulted(&d, request)
	}
	if b.Mode == policies.ModeShadow {
		return engine.Weighed{}, nil
	}
	return weighed(&d, &b)
}

// weighed is what a decision means to the engine.
func weighed(d *policies.Decision, b *policies.Binding) (engine.Weighed, error) {
	switch {
	case d.Act == policies.ActUnavailable:
		return engine.Weighed{}, newProblem(kindPolicyUnavailable, "policy %q gave no answer: %s", b.Policy, d.Fault.Kind)
	case d.Act == policies.ActDeny && d.Fault != nil:
		return engine.Weighed{}, newProblem(kindPolicyFault, "policy %q gave no answer: %s", b.Policy, d.Fault.Kind)
	case d.Act == policies.ActDeny:
		p := newProblem(kindDeniedByPolicy, "policy %q denies it", b.Policy)
		if d.Reason != "" {
			p.Reason, p.Detail = d.Reason, d.Reason
		}
		return engine.Weighed{}, p
	}
	word := engine.Weighed{
		Weight: int(d.Weight), TTL: d.TTL, Policy: engine.PolicyVersion{Name: d.Policy, Generation: d.Generation},
	}
	if d.HasPriority {
		word.Priority = &d.Priority
	}
	return word, nil
}

// faulted tells of a policy that gave no answer, at most once a second a policy: metrics count them all.
func (s *Server) faulted(d *policies.Decision, request *policies.Request) {
	key := d.Policy + "\x00" + strconv.FormatInt(time.Now().Unix(), 10)
	if s.faultsTold.get(key) != "" {
		return
	}
	s.faultsTold.add(key, "told")
	s.events.add(event{
		Type: eventPolicyFault, Semaphore: request.Semaphore, Policy: d.Policy, Generation: d.Generation, By: request.Client,
		Holder: request.Holder, Reason: oneLine(d.Fault.Error()),
	})
	s.log.Warn("a policy gave no answer", "policy", d.Policy, "generation", d.Generation, "semaphore", request.Semaphore, "fault", d.Fault.Error())
}

// problemOfPolicy maps the errors of policies that have more to tell than their kind to what clients see.
func problemOfPolicy(err error) error {
	if e, ok := errors.AsType[*policies.AttributeError](err); ok {
		return badRequest("attributes", "%s", e.Error())
	}
	if e, ok := errors.AsType[*policies.NameError](err); ok {
		return badRequest("name", "%s", e.Error())
	}
	if e, ok := errors.AsType[*policies.BindingError](err); ok {
		p := newProblem(kindInvalidDefinition, "policy.%s", e.Error())
		p.Field = "policy." + e.Field
		return p
	}
	if e, ok := errors.AsType[*policies.InUseError](err); ok {
		p := newProblem(kindPolicyInUse, "semaphores that are bound to it: %d", len(e.Semaphores))
		p.UsedBy = e.Semaphores
		return p
	}
	if e, ok := errors.AsType[*policies.Refusal](err); ok {
		k := kindInvalidModule
		if e.Kind() == kindTooLarge.name {
			k = kindTooLarge
		}
		p := newProblem(k, "%s", e.Error())
		p.Stage, p.Got, p.Want, p.Hint = string(e.Stage), e.Got, e.Want, e.Hint
		return p
	}
	return err // one of the sentinels, or internal
}

// attributes takes what a client tells the policy: an object, or in a form attr.KEY=VALUE.
func (p *params) attributes() map[string]string {
	attributes := map[string]string{}
	for i := range p.list {
		v := &p.list[i]
		key, found := strings.CutPrefix(v.name, "attr.")
		if !found || v.json {
			continue
		}
		v.taken = true
		attributes[key] = v.text
	}
	if p.given("attributes") {
		o, ok := p.object("attributes")
		if !ok {
			p.take("attributes")
			p.fail("attributes", "must be an object of texts; in a form, attr.KEY=VALUE")
			return nil
		}
		for _, v := range o.list {
			attributes[v.name] = o.text(v.name, policies.AttributeValueMax)
		}
		if o.err != nil && p.err == nil {
			p.err = o.err
		}
	}
	if err := policies.CheckAttributes(attributes); err != nil && p.err == nil {
		p.err = problemOfPolicy(err)
	}
	if len(attributes) == 0 {
		return nil
	}
	return attributes
}

// digest tells attributes apart; 0: there are none.
func digest(attributes map[string]string) uint64 {
	if len(attributes) == 0 {
		return 0
	}
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		text = fmt.Appendf(text, "%q=%q ", key, attributes[key])
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// policyName returns the name in the path of a request behind /v1/policies/, as semaphoreName does.
func policyName(r *http.Request, p *params) (string, error) {
	name, ok := pathSegment(r.URL, policiesPath)
	if !ok {
		return "", badRequest("name", "the name in the path is not escaped well")
	}
	if name == "-" && p.given("name") {
		name = p.text("name", policies.NameMax)
	}
	return name, p.err
}
