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
	if !released.Held {
		s.metrics.released("released")
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, releasedState(&released)+"\n")
	}
	b := append(make([]byte, 0, leaseAnswerSize), '{')
	return answer(c, http.StatusOK, jsonType, append(appendReleased(b, &released), "}\n"...))
}

// renew lengthens a lease. In text/plain it prints the validity in milliseconds.
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
