package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/permitd/permitd/openapi"
)

// channelSchemas are those of the embedded document, by side and type.
var channelSchemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.Channel))
	if err != nil {
		panic(err)
	}
	const url = "channel.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(url, doc); err != nil {
		panic(err)
	}
	compiler.MustCompile(url)
	schemas := map[string]*jsonschema.Schema{}
	for side, frames := range map[string]map[string]any{"client": clientFrames, "server": serverFrames} {
		for name := range frames {
			schemas[side+"."+name] = compiler.MustCompile(url + "#/$defs/" + side + "." + name)
		}
	}
	return schemas
})

// checkFrame validates a frame against the schema.
func checkFrame(side string, f map[string]any) error {
	schema := channelSchemas()[fmt.Sprint(side, ".", f["type"])]
	if schema == nil {
		return fmt.Errorf("the schema has no frame of type %v", f["type"])
	}
	return schema.Validate(f)
}

// All frames that tests receive are validated; these are the others.
func TestFramesOfTheClientFitTheSchema(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.open(t)
	lease := "none"
	for _, test := range []struct{ frame, answer string }{
		{`{"type":"acquire","ref":"1","semaphore":"db","create":{"limit":2}}`, "granted"},
		{`{"type":"acquire","ref":"2","semaphore":"x","create":2,"wait":"1s","ttl":"5s","holder":"anna","permits":2,"priority":-1}`, "granted"},
		{`{"type":"acquire","ref":"3","semaphore":"y","create":{"limit":1,"ttl":"2s","ttl_max":"3s","min_hold":"1s","hold_max":"0s","max_waiters":7},"wait":0}`, "granted"},
		{`{"type":"renew","ref":"4","lease":"LEASE"}`, "renewed"},
		{`{"type":"renew","ref":"4","lease":"LEASE","ttl":"2s"}`, "renewed"},
		{`{"type":"release","ref":"5","lease":"LEASE"}`, "released"},
		{`{"type":"release","ref":"5","lease":"LEASE","keep":0}`, "released"},
		{`{"type":"acquire","ref":"a","semaphore":"db","key":"k","grace":"1m"}`, "granted"},
		{`{"type":"acquire","ref":"b","semaphore":"x","ticket":"none"}`, "refused"},
		{`{"type":"attach","ref":"c","semaphore":"db","lease":"none","grace":0}`, "refused"},
		{`{"type":"cancel","ref":"6","of":"2"}`, "cancelled"},
		{`{"type":"watch","ref":"7","topic":"nodes"}`, "state"},
		{`{"type":"unwatch","ref":"8","topic":"nodes"}`, "unwatched"},
		{`{"type":"ping","ref":"9"}`, "pong"},
	} {
		frame := strings.ReplaceAll(test.frame, "LEASE", lease)
		if err := checkText(frame); err != nil {
			t.Errorf("%s: %v", frame, err)
		}
		w.send("%s", frame)
		if f := w.expect(test.answer); test.answer == "granted" {
			lease = f["lease"].(string)
		}
	}
	for _, frame := range []string{
		`{"type":"acquire","ref":"1"}`, `{"type":"acquire","semaphore":"db"}`, `{"type":"ping","ref":"1","x":1}`, `{"type":"ping","ref":1}`,
		`{"type":"acquire","ref":"1","semaphore":"db","wait":30}`, `{"type":"acquire","ref":"1","semaphore":"db","permits":1.5}`,
		`{"type":"take","ref":"1"}`, `{"type":"acquire","ref":"1","semaphore":"db","create":{"ttl":"1s"}}`,
	} {
		if checkText(frame) == nil {
			t.Errorf("%s fits", frame)
		}
	}
}

// The README shows frames that a client can send as they are.
func TestTheFramesOfTheREADMEFitTheSchema(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```json\n")
	frames, _, found := strings.Cut(rest, "\n```")
	if !found {
		t.Fatal("the README shows no frames")
	}
	for frame := range strings.Lines(frames) {
		if err := checkText(frame); err != nil {
			t.Errorf("%s: %v", frame, err)
		}
	}
}

func checkText(frame string) error {
	var f map[string]any
	if err := json.Unmarshal([]byte(frame), &f); err != nil {
		return err
	}
	return checkFrame("client", f)
}

func TestTheEmbeddedSchemaIsThatOfTheTypes(t *testing.T) {
	t.Parallel()
	now, err := json.Marshal(ChannelSchema())
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(now, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(openapi.Channel, &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("make openapi would change channel.schema.json")
	}
}
