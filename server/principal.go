package server

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/permitd/permitd/engine"
)

// What a token may allow.
const (
	scopeLease   = "lease"   // acquire
	scopeOperate = "operate" // declare, change, delete, break
	scopeRead    = "read"    // look
	scopeHolder  = ""        // no token: the lease says who asks
	scopeNone    = "none"    // no token: whoever comes
)

var everyScope = []string{scopeLease, scopeOperate, scopeRead}

// anonymous is the name of whoever brings no token.
const anonymous = "anonymous"

// principal is who asks. Immutable.
type principal struct {
	name        string
	scopes      []string
	globs       []string // of semaphores; nil: all
	priorityMax int
	hash        [sha256.Size]byte // of the token
}

var (
	// everyone is who asks where there are no tokens.
	everyone = &principal{name: anonymous, scopes: everyScope, priorityMax: engine.PriorityMax}
	// nobody is who asks without a token where there are some: it can release and renew what it has the lease of.
	nobody = &principal{name: anonymous}
)

// may refuses what no scope of the principal allows.
func (p *principal) may(scope string) error {
	if scope == scopeHolder || scope == scopeNone || slices.Contains(p.scopes, scope) {
		return nil
	}
	return newProblem(kindForbidden, "the token of %s does not have the scope %s", p.name, scope)
}

// mayUse refuses a semaphore that the token does not name.
func (p *principal) mayUse(semaphore string) error {
	if p.sees(semaphore) {
		return nil
	}
	return newProblem(kindForbidden, "the token of %s is not for this semaphore", p.name)
}

// sees reports whether the token names a semaphore; lists leave out what it does not name. What is no semaphore's, "", is for all.
func (p *principal) sees(semaphore string) bool {
	return p.globs == nil || semaphore == "" || slices.ContainsFunc(p.globs, func(glob string) bool { return globMatches(glob, semaphore) })
}

// globMatches reports whether a glob fits a text: * stands for any text, ? for any character.
func globMatches(glob, text string) bool {
	star, restart := -1, 0 // the last *, and what comes behind what it has taken so far
	g, t := 0, 0
	for t < len(text) {
		_, size := utf8.DecodeRuneInString(text[t:])
		switch {
		case g < len(glob) && glob[g] == '*':
			star, restart = g, t
			g++
		case g < len(glob) && glob[g] == '?':
			g, t = g+1, t+size
		case g < len(glob) && glob[g] == text[t]:
			g, t = g+1, t+1
		case star >= 0:
			_, size = utf8.DecodeRuneInString(text[restart:])
			restart += size
			g, t = star+1, restart
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// authenticate says who sends a request that needs a scope.
func (s *Server) authenticate(r *http.Request, scope string) (*principal, error) {
	if s.cfg.Tokens == nil {
		return everyone, nil
	}
	if scope == scopeNone {
		return nobody, nil
	}
	token := bearer(r)
	p := s.cfg.Tokens.of(token)
	switch {
	case p == nil && scope == scopeHolder:
		return nobody, nil
	case p == nil && token != "":
		return nil, newProblem(kindUnauthenticated, "this token is not known")
	case p == nil:
		return nil, newProblem(kindUnauthenticated, "a token is needed: Authorization: Bearer …")
	}
	return p, p.may(scope)
}

// bearer returns the token in the Authorization header.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// tokenProtocol is what a browser's token travels behind: page code can send no header with an upgrade, and a token may have
// characters that no subprotocol can have.
const tokenProtocol = "permitd.token."

// channelToken returns the token of an upgrade, and the subprotocols besides it.
func channelToken(r *http.Request) (token string, offered []string) {
	token = bearer(r)
	for _, protocol := range websocket.Subprotocols(r) {
		encoded, found := strings.CutPrefix(protocol, tokenProtocol)
		if !found {
			offered = append(offered, protocol)
		} else if text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "=")); err == nil {
			token = string(text)
		}
	}
	return token, offered
}
