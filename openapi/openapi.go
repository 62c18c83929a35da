// Package openapi has the documents of the API. They are generated from the comments and the types of package server: make
// openapi writes them anew, and CI fails where they differ.
package openapi

import _ "embed"

var (
	// Document is the API in OpenAPI 3.0, in JSON.
	//
	//go:embed openapi.json
	Document []byte

	// Swagger is the API in Swagger 2.0, in JSON: what the comments say. It knows no tokens but as a header, and one type a body.
	//
	//go:embed swagger.json
	Swagger []byte

	// Channel has the frames of the lease channel in JSON Schema.
	//
	//go:embed channel.schema.json
	Channel []byte
)
