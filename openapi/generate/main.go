// Command generate writes the documents of package openapi into a directory, from the Swagger 2.0 document that swag made of
// the comments in package server:
//
//	go run ./openapi/generate swagger.json openapi
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/permitd/permitd/server"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate SWAGGER.JSON DIRECTORY")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(swagger, dir string) error {
	text, err := os.ReadFile(swagger)
	if err != nil {
		return err
	}
	var old openapi2.T
	if err := json.Unmarshal([]byte(rename(string(text))), &old); err != nil {
		return err
	}
	if err := write(dir, "swagger.json", &old); err != nil {
		return err
	}
	doc, err := openapi2conv.ToV3(&old)
	if err != nil {
		return err
	}
	mend(doc)
	if err := validate(doc); err != nil {
		return err
	}
	if err := write(dir, "openapi.json", doc); err != nil {
		return err
	}
	return write(dir, "channel.schema.json", server.ChannelSchema())
}

// validate reads the document as others will.
func validate(doc *openapi3.T) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	loader := openapi3.NewLoader()
	read, err := loader.LoadFromData(text)
	if err != nil {
		return err
	}
	return read.Validate(loader.Context)
}

// rename gives types the names that clients of the API would give them.
func rename(text string) string {
	return strings.NewReplacer(
		"server.listJSON-server_leaseJSON", "leases", "server.listJSON-server_semaphoreJSON", "semaphores",
		"server.leaseAnswer", "grant", "server.releasedAnswer", "released", "server.acquireBody", "acquire", "server.holdBody", "hold", "server.createBody", "create",
		"server.definitionBody", "declare", "server.patchBody", "patch", "server.releaseBody", "release", "server.renewBody", "renew",
		"server.brokenJSON", "broken", "server.definitionJSON", "definition", "server.healthJSON", "health", "server.historyJSON", "history",
		"server.leaseJSON", "lease", "server.nodeJSON", "node", "server.nodesJSON", "nodes", "server.readyJSON", "ready",
		"server.replicaJSON", "replica", "server.semaphoreJSON", "semaphore", "server.statusJSON", "status", "server.waiterJSON", "waiter",
		"server.waitersJSON", "waiters", "server.problem", "problem",
	).Replace(text)
}

// mend says what Swagger 2.0 can not.
func mend(doc *openapi3.T) {
	doc.Servers = openapi3.Servers{{URL: "/", Description: "where this document is from"}}
	doc.Components.SecuritySchemes["Bearer"].Value = openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer")
	for _, s := range doc.Components.Schemas {
		if s.Value.Type.Is("object") {
			s.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
		}
	}
	for _, ask := range []string{"acquire", "hold"} {
		words := doc.Components.Schemas[ask].Value.Properties
		words["create"] = either(words["create"].Value.Description, openapi3.NewSchemaRef("#/components/schemas/create", nil), openapi3.NewIntegerSchema().NewRef())
		words["permits"] = either(words["permits"].Value.Description, words["permits"], openapi3.NewStringSchema().WithEnum("all_free").NewRef())
	}
	for _, path := range doc.Paths.Map() {
		for _, op := range path.Operations() {
			mendBody(op)
			for code, response := range op.Responses.Map() {
				mendResponse(code, response.Value)
			}
		}
	}
}

// either is a schema that one of these fits.
func either(description string, schemas ...*openapi3.SchemaRef) *openapi3.SchemaRef {
	return openapi3.NewSchemaRef("", &openapi3.Schema{Description: description, OneOf: schemas})
}

// mendBody says that a form is as good as JSON, and that a merge patch has a type of its own.
func mendBody(op *openapi3.Operation) {
	if op.RequestBody == nil {
		return
	}
	body := op.RequestBody.Value
	schema := body.Content.Get("application/json")
	body.Content, body.Extensions = openapi3.Content{"application/json": schema}, nil
	if op.OperationID == "patch-semaphore" {
		body.Content["application/merge-patch+json"] = schema
	}
	body.Content["application/x-www-form-urlencoded"] = schema
}

// mendResponse gives problems their type, and text/plain its shape.
func mendResponse(code string, response *openapi3.Response) {
	json := response.Content["application/json"]
	if code >= "400" { // and default
		response.Content = openapi3.Content{"text/plain": text()}
		response.Content["application/problem+json"] = openapi3.NewMediaType().WithSchemaRef(openapi3.NewSchemaRef("#/components/schemas/problem", nil))
		return
	}
	if response.Content["text/plain"] != nil {
		response.Content["text/plain"] = text()
	}
	if json != nil && json.Schema == nil {
		delete(response.Content, "application/json")
	}
}

func text() *openapi3.MediaType {
	return openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema())
}

// write writes a document, indented, so that a change of it can be read.
func write(dir, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var sorted any // members in one order, whatever the library does
	if err := json.Unmarshal(raw, &sorted); err != nil {
		return err
	}
	text, err := json.MarshalIndent(sorted, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
}
