package server

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Frames of the client, as decode.go reads them, and those of the server that are written by hand: for the schema alone.
type (
	acquireFrame struct {
		Type      string `json:"type"`
		Ref       string `json:"ref"`
		Semaphore string `json:"semaphore"`
		holdBody
	}
	attachFrame struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
		attachBody
	}
	releaseFrame struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
		releaseBody
	}
	renewFrame struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
		renewBody
	}
	cancelFrame struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
		Of   string `json:"of"`
	}
	topicFrame struct {
		Type  string `json:"type"`
		Ref   string `json:"ref"`
		Topic string `json:"topic"`
	}
	pingFrame struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
	}
	grantedSchema struct {
		Type     string `json:"type"`
		Ref      string `json:"ref,omitempty"`      // not in a hold stream
		Attached bool   `json:"attached,omitempty"` // the answer to attach
		leaseAnswer
	}
	releasedSchema struct {
		Type string `json:"type"`
		Ref  string `json:"ref"`
		releasedAnswer
	}
)

// clientFrames and serverFrames are all that there are, by their type.
var (
	clientFrames = map[string]any{
		"acquire": acquireFrame{}, "attach": attachFrame{}, "release": releaseFrame{}, "renew": renewFrame{}, "cancel": cancelFrame{},
		"watch": topicFrame{}, "unwatch": topicFrame{}, "ping": pingFrame{},
	}
	serverFrames = map[string]any{
		"welcome": welcome{}, "waiting": waitingFrame{}, "granted": grantedSchema{}, "refused": refusedFrame{}, "renewed": renewedFrame{},
		"released": releasedSchema{}, "cancelled": cancelledFrame{}, "unwatched": unwatchedFrame{}, "pong": pingFrame{},
		"expiring": expiringFrame{}, "lost": lostFrame{}, "state": stateFrame{}, "alive": plainFrame{}, "draining": drainingFrame{},
		"error": errorFrame{},
	}
)

// ChannelSchema is the JSON Schema of the lease channel's frames: client.TYPE and server.TYPE in its $defs.
func ChannelSchema() map[string]any {
	definitions := map[string]any{}
	for side, frames := range map[string]map[string]any{"client": clientFrames, "server": serverFrames} {
		for name, frame := range frames {
			s := schemaOf(reflect.TypeOf(frame))
			s["properties"].(map[string]any)["type"] = map[string]any{"type": "string", "enum": []any{name}}
			definitions[side+"."+name] = s
		}
		var one []any
		for _, name := range slices.Sorted(maps.Keys(frames)) {
			one = append(one, map[string]any{"$ref": "#/$defs/" + side + "." + name})
		}
		definitions[side] = map[string]any{"oneOf": one}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Frames of permitd's lease channel, subprotocol " + channelProtocol,
		"description": "Text messages of JSON. Clients ignore frames and fields that they do not know; the server refuses them. " +
			"In a hold stream the server's frames have no ref.",
		"anyOf": []any{map[string]any{"$ref": "#/$defs/client"}, map[string]any{"$ref": "#/$defs/server"}},
		"$defs": definitions,
	}
}

// schemaOf is the schema of what a type is encoded as.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := map[string]any{}, []any{}
		addFields(t, properties, &required)
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return map[string]any{} // anything
}

// addFields adds the fields of a struct. Those of embedded structs come after its own, which hide them.
func addFields(t reflect.Type, properties map[string]any, required *[]any) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var embedded []reflect.Type
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded = append(embedded, f.Type)
		}
		if _, hidden := properties[name]; name == "" || hidden {
			continue
		}
		properties[name] = schemaOf(f.Type)
		if name == "permits" { // or all that are free
			properties[name] = map[string]any{"oneOf": []any{properties[name], map[string]any{"type": "string", "enum": []any{"all_free"}}}}
		}
		if name == "create" { // or its limit alone
			properties[name] = map[string]any{"oneOf": []any{properties[name], map[string]any{"type": "integer"}}}
		}
		if name == "wait" || name == "ttl" || name == "grace" { // a bare 0 needs no unit
			properties[name] = map[string]any{"oneOf": []any{properties[name], map[string]any{"type": "integer", "enum": []any{0}}}}
		}
		if options == "" {
			*required = append(*required, name)
		}
	}
	for _, e := range embedded {
		addFields(e, properties, required)
	}
}
