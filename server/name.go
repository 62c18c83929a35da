package server

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

const semaphoresPath = "/v1/semaphores/"

// semaphoreName returns the name in the path of a request, or that of ?name= where the path has "-": for
// "." and "..", which clients resolve, and for proxies that rewrite %2F.
func semaphoreName(r *http.Request, p *params) (string, error) {
	name, ok := pathName(r.URL)
	if !ok {
		return "", badRequest("name", "the name in the path is not escaped well")
	}
	if name == "-" {
		if !p.given("name") {
			return "", badRequest("name", "where the path has -, ?name= is needed")
		}
		name = p.text("name", engine.NameMax)
	}
	if p.err != nil {
		return "", p.err
	}
	return name, checkName("name", name)
}

// noName answers for the path that has a name missing at its end, which the router takes for another one.
func (s *Server) noName(echo.Context) error { return checkName("name", "") }

// pathName returns the segment behind /v1/semaphores/.
func pathName(u *url.URL) (string, bool) { return pathSegment(u, semaphoresPath) }

// pathSegment returns the segment behind a prefix, decoded exactly once. Echo's c.Param decodes some paths and leaves others as
// they are, which would make two names of one.
func pathSegment(u *url.URL, prefix string) (string, bool) {
	rest, found := strings.CutPrefix(u.EscapedPath(), prefix)
	segment, _, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(segment)
	return name, found && err == nil
}

// pathLease returns the segment behind /leases/, decoded exactly once; ok is false for what can not be the id of a lease.
func pathLease(u *url.URL) (id string, ok bool) {
	path := u.EscapedPath()
	id, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	return id, err == nil && id != "" && len(id) <= capabilityMax && plainText(id)
}

// checkName refuses what can not be a name of a semaphore; field is where it stood.
func checkName(field, name string) error {
	if e, ok := errors.AsType[*engine.InvalidError](engine.ValidName(name)); ok {
		return badRequest(field, "%s %s", field, e.Detail)
	}
	return nil
}

// plainText reports whether a text can be shown in a line: in lists, logs and terminals.
func plainText(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}
