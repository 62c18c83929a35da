package server

import (
	"errors"
	"math"
	"time"

	"github.com/permitd/permitd/engine"
)

// definitionJSON is a definition as clients read and write it: durations as text, so that what was read can be sent back.
type definitionJSON struct {
	Limit        int    `json:"limit"`
	TTL          string `json:"ttl"`
	TTLMax       string `json:"ttl_max"`
	MaxWaiters   int    `json:"max_waiters"`
	MinHold      string `json:"min_hold"`
	HoldMax      string `json:"hold_max"`
	PriorityStep string `json:"priority_step"`
	Paused       bool   `json:"paused"`
	Description  string `json:"description"`

	Policy *bindingJSON `json:"policy,omitempty"`
}

func definitionOf(d engine.Definition) definitionJSON {
	return definitionJSON{
		Limit: d.Limit, TTL: formatDuration(d.TTL), TTLMax: formatDuration(d.TTLMax), MaxWaiters: d.MaxWaiters,
		MinHold: formatDuration(d.MinHold), HoldMax: formatDuration(d.HoldMax),
		PriorityStep: formatDuration(d.PriorityStep), Paused: d.Paused, Description: d.Description,
		Policy: bindingJSONOf(d.Policy),
	}
}

// definition takes what an operator declares; what is not given stays as it is in d. The engine checks the ranges; invalid is
// a field whose zero would mean its default, which nobody who writes 0 means.
func (p *params) definition(d engine.Definition) (_ engine.Definition, invalid error) {
	d, invalid = p.creation(d)
	d.PriorityStep = p.span("priority_step", d.PriorityStep)
	d.Paused = p.flag("paused", d.Paused)
	d.Policy = p.binding(d.Policy)
	if p.given("description") {
		d.Description = p.text("description", engine.DescriptionMax)
	}
	return d, firstError(invalid, p.notZero("priority_step", d.PriorityStep == 0))
}

// creation takes what a definition may say that a request brings along.
func (p *params) creation(d engine.Definition) (_ engine.Definition, invalid error) {
	d.Limit = p.count("limit", d.Limit, engine.LimitMax)
	d.TTL = p.span("ttl", d.TTL)
	d.TTLMax = p.span("ttl_max", d.TTLMax)
	d.MinHold = p.span("min_hold", d.MinHold)
	d.HoldMax = p.span("hold_max", d.HoldMax)
	d.MaxWaiters = p.count("max_waiters", d.MaxWaiters, engine.MaxWaitersMax)
	return d, firstError(
		p.limitGiven(d.Limit == 0), p.notZero("ttl", d.TTL == 0), p.notZero("ttl_max", d.TTLMax == 0), p.notZero("max_waiters", d.MaxWaiters == 0),
	)
}

// span takes a duration whose range the engine checks.
func (p *params) span(name string, otherwise time.Duration) time.Duration {
	return p.duration(name, otherwise, math.MinInt64, math.MaxInt64)
}

func (p *params) limitGiven(none bool) error {
	if none && !p.given("limit") {
		return &engine.InvalidError{Field: "limit", Detail: "is missing"}
	}
	return nil
}

func (p *params) notZero(name string, zero bool) error {
	if v := p.find(name); zero && v != nil && !v.null() {
		return &engine.InvalidError{Field: name, Detail: "must not be 0; leave it out for its default"}
	}
	return nil
}

// inside turns what is wrong with a definition that a request brings into a mistake in that request.
func (p *params) inside(invalid error) error {
	e, ok := errors.AsType[*engine.InvalidError](invalid)
	if !ok {
		return invalid
	}
	return badRequest(p.prefix+e.Field, "%s%s", p.prefix, e.Error())
}
