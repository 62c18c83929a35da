package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
)

// ask takes the words that ask for permits, the same over REST and the channel, and refuses what is
// left over. The engine checks what only the definition can tell. A priority above what the token allows becomes that. The attributes are
// for the policy.
func (p *params) ask(from engine.HolderInfo, who *principal, waitMax time.Duration) (ask engine.Ask, attributes map[string]string, err error) {
	attributes = p.attributes()
	wait := engine.WaitDefault
	allFree := p.allFree()
	if allFree {
		wait = 0
	}
	ask = engine.Ask{
		Permits:  p.integer("permits", 1, 1, engine.WeightMax),
		AllFree:  allFree,
		Wait:     p.duration("wait", wait, 0, waitMax),
		TTL:      p.ttl(),
		Priority: min(p.integer("priority", 0, -engine.PriorityMax, engine.PriorityMax), who.priorityMax),
		Holder:   from,
		Key:      p.key(),
		Ticket:   p.text("ticket", ticketMax),
		Create:   p.create(),
	}
	ask.Holder.Holder = p.holder(from)
	if ask.Key != "" || ask.Ticket != "" {
		ask.Digest = digest(attributes)
	}
	return ask, attributes, firstError(p.end(), mayKeep(who, ask.TTL))
}

// allFree takes the word that stands for as many permits as are free, if it was given instead of a number.
func (p *params) allFree() bool {
	for i := range p.list {
		if v := &p.list[i]; v.name == "permits" {
			if text, ok := v.string(); ok && text == "all_free" {
				p.list = slices.Delete(p.list, i, i+1)
				return true
			}
		}
	}
	return false
}

// ticketMax is more than the characters of a ticket.
const ticketMax = 512

// key takes what names a request, so that asking again is the same request; "" if it has no name.
func (p *params) key() string {
	if !p.given("key") {
		return ""
	}
	key := p.text("key", engine.KeyMax)
	if engine.ValidKey(key) != nil {
		p.fail("key", "must be 1 to %d of A-Z a-z 0-9 . _ ~ -", engine.KeyMax)
	}
	return key
}

// idempotencyKey makes the header of that name the parameter key. Its value may stand in quotes, as the draft of the IETF has it.
func (p *params) idempotencyKey(h http.Header) {
	for _, key := range h["Idempotency-Key"] {
		if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
			key = key[1 : n-1]
		}
		p.add(param{name: "key", text: key})
	}
}

// grace takes how long a lease lives on when its connection has ended.
func (p *params) grace() time.Duration { return p.duration("grace", 0, 0, engine.GraceMax) }

// ttl takes how long a lease lives unless it is renewed: 0 if it was not given, Never for a bare 0.
func (p *params) ttl() time.Duration {
	if !p.given("ttl") {
		return 0
	}
	ttl := p.duration("ttl", 0, 0, engine.TTLMaxMax)
	switch {
	case ttl == 0:
		return engine.Never
	case ttl < engine.TTLMin:
		p.fail("ttl", "must be from %s to %s, or 0", formatDuration(engine.TTLMin), formatDuration(engine.TTLMaxMax))
	}
	return ttl
}

// mayKeep refuses a lease that lives until it is released to all but operators: what its holder forgets stays for ever.
func mayKeep(who *principal, ttl time.Duration) error {
	if ttl != engine.Never || who.may(scopeOperate) == nil {
		return nil
	}
	p := newProblem(kindForbidden, "ttl 0, until it is released, needs the scope %s, which the token of %s does not have", scopeOperate, who.name)
	p.Field = "ttl"
	return p
}

// holder takes who people see as the holder; principal@address if nobody is named.
func (p *params) holder(from engine.HolderInfo) string {
	holder := p.text("holder", engine.HolderMax)
	if holder == "" {
		return from.Principal + "@" + from.Address
	}
	if !plainText(holder) {
		p.fail("holder", "must not have control characters")
	}
	return holder
}

// create takes the definition by which a semaphore is made on first use: an object, or the limit alone.
func (p *params) create() *engine.Definition {
	if !p.given("create") {
		return nil
	}
	o, ok := p.object("create")
	if v := p.find("create"); !ok && strings.HasPrefix(v.text, "{") {
		p.fail("create", "must be the limit alone in a form; a definition needs a JSON body")
		return nil
	}
	if !ok {
		return &engine.Definition{Limit: p.integer("create", 0, 1, engine.LimitMax)}
	}
	def, invalid := o.creation(engine.Definition{})
	err := firstError(o.end(), o.inside(invalid), o.inside(def.Validate()))
	if err != nil && p.err == nil {
		p.err = err
	}
	return &def
}
