package policies

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Request is what a policy sees of one request for permits.
type Request struct {
	Semaphore string // permitd.semaphore
	Client    string // permitd.client, who is authenticated
	Holder    string // permitd.holder
	ID        string // permitd.request_id

	Requested int64 // permits
	Limit     int64 // of the semaphore
	Available int64 // at most a second old
	Waiting   int64 // likewise

	Attributes map[string]string // of the client; see CheckAttributes

	TTLMin, TTLMax time.Duration // what set_ttl_ms is clamped to; a second and an hour
	Now            time.Time     // what now_ms tells; the time of the call
}

// AttributeError is a mistake of the client in its attributes.
type AttributeError struct{ Detail string }

func (e *AttributeError) Error() string { return "attributes: " + e.Detail }

// CheckAttributes holds attributes of a client to the limits. The error is an *AttributeError.
func CheckAttributes(attributes map[string]string) error {
	if len(attributes) > AttributesMax {
		return &AttributeError{fmt.Sprintf("%d of them, at most %d", len(attributes), AttributesMax)}
	}
	all := 0
	for key, value := range attributes {
		if all += len(key) + len(value); all > AttributesBytesMax {
			return &AttributeError{fmt.Sprintf("more than %d bytes in all", AttributesBytesMax)}
		}
		if wrong := wrongAttribute(key, value); wrong != "" {
			return &AttributeError{quote(key) + ": " + wrong}
		}
	}
	return nil
}

// phase is when a module calls an import.
type phase uint8

const (
	starting    phase = iota // the start function or _initialize
	configuring              // configure
	evaluating               // evaluate
)

var phaseNames = [...]string{"the start", "configure", "evaluate"}

// call is the call that an instance is in: its deadline, what the host tells, and what the module said. It is a context so that
// host functions find it. A goroutine of the runtime may look at the deadline after the call's end, and at nothing else.
type call struct {
	*deadline
	phase   phase
	request *Request
	config  string
	now     int64 // ms
	keys    []string
	said    said
	fault   *Fault // of a host function that ended the call
}

// said is what a module set; a fault drops all of it but the logs.
type said struct {
	reason      string
	priority    int32
	ttl         time.Duration // 0: the default
	hasPriority bool
	logs        []LogLine
}

// LogLine is a line that a module wrote, with the level that it gave it.
type LogLine struct {
	Level int32  `json:"level"`
	Text  string `json:"text"`
}

// begin makes it the evaluation of a request.
func (c *call) begin(r *Request) {
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	c.phase, c.request, c.now, c.keys, c.said, c.fault = evaluating, r, now.UnixMilli(), nil, said{}, nil
}

type callKey struct{}

// callOf is the call that a host function was called in; the host calls modules with nothing else.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// Value gives the call itself to host functions.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return nil
}

// Keys that the host answers for.
const (
	keyClient    = reservedPrefix + "client"
	keyHolder    = reservedPrefix + "holder"
	keyRequestID = reservedPrefix + "request_id"
	keySemaphore = reservedPrefix + "semaphore"
)

func (c *call) attribute(key string) (string, bool) {
	switch key {
	case keyClient:
		return c.request.Client, true
	case keyHolder:
		return c.request.Holder, true
	case keyRequestID:
		return c.request.ID, true
	case keySemaphore:
		return c.request.Semaphore, true
	}
	value, there := c.request.Attributes[key]
	return value, there
}

// sortedKeys are those of all attributes.
func (c *call) sortedKeys() []string {
	if c.keys == nil {
		c.keys = slices.AppendSeq([]string{keyClient, keyHolder, keyRequestID, keySemaphore}, maps.Keys(c.request.Attributes))
		slices.Sort(c.keys)
	}
	return c.keys
}

// attributesSize is the length of what appendAttributes writes.
func (c *call) attributesSize() int {
	size := 0
	for _, key := range c.sortedKeys() {
		value, _ := c.attribute(key)
		size += 4 + len(key) + min(len(value), hostValueMax)
	}
	return size
}

// appendAttributes writes all attributes as attrs_all tells them.
func (c *call) appendAttributes(out []byte) []byte {
	for _, key := range c.sortedKeys() {
		value, _ := c.attribute(key)
		value = value[:min(len(value), hostValueMax)]
		out = binary.LittleEndian.AppendUint16(out, uint16(len(key)))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(value)))
		out = append(out, key...)
		out = append(out, value...)
	}
	return out
}
