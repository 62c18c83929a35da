package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// capabilityMax is more than the bytes of a lease string.
const capabilityMax = 256

// capability takes the secret string by which a holder is known.
func (p *params) capability() string {
	if !p.given("lease") {
		p.fail("lease", "is missing")
	}
	return p.text("lease", capabilityMax)
}

// release gives a lease back, or all of it but the weight keep. A client that leaves does not stop it.
//
//	@Summary		Give a lease back
//	@Description	Needs no token: the lease tells who asks.
//	@ID				release
//	@Tags			leases
//	@Param			name	path	string		true	"Name, escaped once; - where ?name= has it"
//	@Param			request	body	releaseBody	true	"The lease, and what stays of it"
//	@Produce		json,plain
//	@Success		200		{object}	releasedAnswer	"Also when it is repeated; in text released or held"
//	@Failure		404		{object}	problem			"unknown_lease"
//	@Failure		410		{object}	problem			"lease_expired, lease_broken"
//	@Failure		default	{object}	problem			"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Router			/v1/semaphores/{name}/release [post]
func (s *Server) release(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	capability, keep := p.capability(), p.integer("keep", 0, 0, engine.WeightMax)
	if err := p.end(); err != nil {
		return err
	}
	released, err := s.engine.Release(context.WithoutCancel(c.Request().Context()), name, capability, keep)
	if err != nil {
		return err
	}
	if !released.Held && !released.Again {
		s.metrics.released("released")
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, releasedState(&released)+"\n")
	}
	buf := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(buf)
	*buf = append(appendReleased(append((*buf)[:0], '{'), &released), "}\n"...)
	return answer(c, http.StatusOK, jsonType, *buf)
}

// renew lengthens a lease. In text/plain it prints the validity in milliseconds.
//
//	@Summary		Lengthen a lease
//	@Description	Needs no token: the lease tells who asks.
//	@ID				renew
//	@Tags			leases
//	@Param			name	path	string		true	"Name, escaped once; - where ?name= has it"
//	@Param			request	body	renewBody	true	"The lease, and for how long from now on"
//	@Produce		json,plain
//	@Success		200		{object}	leaseAnswer	"In text renewed MS"
//	@Failure		404		{object}	problem		"unknown_lease"
//	@Failure		410		{object}	problem		"lease_expired, lease_released, lease_broken: never a silent re-acquire"
//	@Failure		default	{object}	problem		"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Router			/v1/semaphores/{name}/renew [post]
func (s *Server) renew(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	capability, ttl := p.capability(), p.ttl()
	if err := firstError(p.end(), mayKeep(who, ttl)); err != nil {
		return err
	}
	lease, err := s.engine.Renew(c.Request().Context(), name, capability, ttl)
	if err != nil {
		return err
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, fmt.Sprintf("renewed %d\n", lease.Validity.Milliseconds()))
	}
	return answerLease(c, &lease)
}
