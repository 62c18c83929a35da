package server

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"testing"

	"github.com/permitd/permitd/engine"
)

// answering is a policy that answers the same to every request.
func answering(n int64) string {
	section := func(id byte, content string) string { return string([]byte{id, byte(len(content))}) + content }
	var number []byte // n as a signed LEB128
	for ; n < -64 || n > 63; n >>= 7 {
		number = append(number, byte(n)|0x80)
	}
	number = append(number, byte(n)&0x7f)
	evaluate := "\x00\x42" + string(number) + "\x0b" // no locals, i64.const, end
	return "\x00asm\x01\x00\x00\x00" +
		section(1, "\x02\x60\x04\x7e\x7e\x7e\x7e\x01\x7e\x60\x00\x00") + // (i64, i64, i64, i64) -> i64, () -> ()
		section(3, "\x02\x00\x01") +
		section(5, "\x01\x00\x01") +
		section(7, "\x03\x06memory\x02\x00\x08evaluate\x00\x00\x0epermitd_abi_v1\x00\x01") +
		section(10, "\x02"+string(binary.AppendUvarint(nil, uint64(len(evaluate))))+evaluate+"\x02\x00\x0b")
}

// faults.md 19: weights that can not be, over REST, the hold stream and the channel, and from a policy -> refused, and the count is as it was.
func TestWeightsThatCannotBeLeaveTheCountAsItIs(t *testing.T) {
	t.Parallel()
	s := servePolicies(t)
	const limit, held = 5, 2
	s.declare(t, "db", limit)
	w := s.open(t)
	w.send(`{"type":"acquire","ref":"held","semaphore":"db","permits":%d}`, held)
	w.expect("granted")
	intact := func(what string) {
		if got := s.inUse(t); got != held {
			t.Fatalf("%s: %d in use", what, got)
		}
	}
	for weight, want := range map[string]struct {
		status int
		kind   string
	}{
		"-1": {400, "bad_request"}, "0": {400, "bad_request"}, "1.5": {400, "bad_request"}, `"3"`: {400, "bad_request"}, "1e308": {400, "bad_request"},
		"9223372036854775807": {400, "bad_request"}, "-9223372036854775808": {400, "bad_request"}, fmt.Sprint(engine.WeightMax + 1): {400, "bad_request"},
		fmt.Sprint(limit + 1): {422, "weight_exceeds_limit"},
	} {
		for _, verb := range []string{"acquire", "hold"} {
			path := "/v1/semaphores/db/" + verb
			expect(t, s.rest("POST", path, `{"wait":0,"permits":`+weight+`}`, nil), want.status, want.kind)
			expect(t, s.rest("POST", path, "wait=0&permits="+url.QueryEscape(weight), nil), want.status, want.kind)
		}
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":0,"permits":%s}`, weight)
		if f := w.expect("refused"); f["kind"] != want.kind {
			t.Errorf("over the channel, %s: %v", weight, f)
		}
		intact(weight)
	}
	expect(t, s.rest("PUT", "/v1/policies/p", answering(1), nil), 201)
	expect(t, s.rest("PATCH", "/v1/semaphores/db", `{"policy":{"name":"p","timeout":"500ms"}}`, nil), 200)
	for answer, want := range map[int64]struct {
		status int
		kind   string
	}{
		-1: {403, "denied_by_policy"}, limit + 1: {422, "weight_exceeds_limit"}, engine.WeightMax + 1: {422, "weight_exceeds_limit"},
		math.MaxInt64: {422, "weight_exceeds_limit"},
	} {
		expect(t, s.rest("PUT", "/v1/policies/p", answering(answer), nil), 200)
		expect(t, s.rest("POST", "/v1/semaphores/db/acquire", `{"wait":0}`, nil), want.status, want.kind)
		w.send(`{"type":"acquire","ref":"1","semaphore":"db","wait":0}`)
		if f := w.expect("refused"); f["kind"] != want.kind {
			t.Errorf("over the channel, a policy that answers %d: %v", answer, f)
		}
		intact(fmt.Sprint("a policy answers ", answer))
	}
	for _, answer := range []int64{-2, math.MinInt64} { // they are no weights at all: no such module is taken
		expect(t, s.rest("PUT", "/v1/policies/p", answering(answer), nil), 422, `"stage":"evaluate"`, "bad_result")
	}
}
