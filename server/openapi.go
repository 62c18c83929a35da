package server

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/openapi"
)

// docsPage shows the OpenAPI document. It is one small page without anything from elsewhere.
//
//go:embed docs.html
var docsPage string

// docsPolicy lets the page run its own script, and read the document.
var docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; script-src 'sha256-" + hashOfScript(docsPage) + "'"

func hashOfScript(page string) string {
	_, rest, _ := strings.Cut(page, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// showDocument tells the API in OpenAPI 3.0.
//
//	@Summary	This document, in OpenAPI 3.0
//	@ID			openapi
//	@Tags		about
//	@Produce	json
//	@Success	200	{object}	object
//	@Router		/openapi.json [get]
func (s *Server) showDocument(c echo.Context, _ *principal) error {
	return answer(c, http.StatusOK, jsonType, openapi.Document)
}

// showSwagger tells the API in Swagger 2.0, for tools that know nothing newer.
//
//	@Summary	The same in Swagger 2.0
//	@ID			swagger
//	@Tags		about
//	@Produce	json
//	@Success	200	{object}	object
//	@Router		/swagger.json [get]
func (s *Server) showSwagger(c echo.Context, _ *principal) error {
	return answer(c, http.StatusOK, jsonType, openapi.Swagger)
}

// showChannelSchema tells the frames of the lease channel.
//
//	@Summary	The frames of the lease channel, in JSON Schema
//	@ID			channel-schema
//	@Tags		about
//	@Produce	json
//	@Success	200	{object}	object
//	@Router		/channel.schema.json [get]
func (s *Server) showChannelSchema(c echo.Context, _ *principal) error {
	return answer(c, http.StatusOK, jsonType, openapi.Channel)
}

// showDocs shows the document to people.
//
//	@Summary	This document for people
//	@ID			docs
//	@Tags		about
//	@Produce	html
//	@Success	200	{string}	string
//	@Router		/docs [get]
func (s *Server) showDocs(c echo.Context, _ *principal) error {
	h := c.Response().Header()
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	return answer(c, http.StatusOK, htmlType, []byte(docsPage))
}

// showRoot sends who has only the address to the documents.
//
//	@Summary	Where to begin: /docs
//	@ID			root
//	@Tags		about
//	@Produce	plain
//	@Success	302	{string}	string
//	@Router		/ [get]
func (s *Server) showRoot(c echo.Context, _ *principal) error {
	c.Response().Header().Set("Location", "/docs")
	return answer(c, http.StatusFound, textType, []byte("permitd "+s.cfg.Version+"; the API is told at /docs\n"))
}

var htmlType = []string{"text/html; charset=utf-8"}
