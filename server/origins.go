package server

import (
	"net/http"
	"slices"
	"strings"
)

// What pages of allowed origins may send and read (CORS).
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsHeaders = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match"
	corsExposes = "ETag, Retry-After, Location, X-Request-Id, " + headerTicket
	corsMaxAge  = "600" // seconds for which a browser need not ask again
)

// checkOrigin refuses requests that pages of other origins make browsers send.
func (s *Server) checkOrigin(r *http.Request) error {
	if s.origins.Check(r) == nil && (!preflight(r) || s.allowsOrigin(r.Header.Get("Origin"))) {
		return nil
	}
	return newProblem(kindOriginRefused, "the request comes from a page of another origin; see --allow-origin")
}

// allowsOrigin reports whether pages of an origin other than this server's own may ask.
func (s *Server) allowsOrigin(origin string) bool { return slices.Contains(s.cfg.AllowOrigins, origin) }

// preflight reports whether a browser asks what a page may send.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// shareWith lets the page that a request comes from read the answer, if it may.
func (s *Server) shareWith(r *http.Request, h http.Header) {
	if len(s.cfg.AllowOrigins) == 0 {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !s.allowsOrigin(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposes)
	if preflight(r) {
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
}

// mayOpenFrom refuses a channel to pages of other origins: CrossOriginProtection has let it pass, since it does not look at
// GET.
func (s *Server) mayOpenFrom(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || sameOrigin(origin, r.Host) || s.allowsOrigin(origin) {
		return nil
	}
	return newProblem(kindOriginRefused, "the request comes from a page of another origin; see --allow-origin")
}

// servesHost reports whether requests to a Host name are served.
func (s *Server) servesHost(host string) bool {
	if !s.cfg.LocalOnly && len(s.cfg.AllowHosts) == 0 {
		return true
	}
	if last := s.lastHost.Load(); last != nil && *last == host {
		return true
	}
	name := hostName(host)
	served := localHost(name) || slices.ContainsFunc(s.cfg.AllowHosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
	if served {
		s.lastHost.Store(new(host))
	}
	return served
}
