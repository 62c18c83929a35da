package server

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// over is a context that has ended: for a look that waits for nothing.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

type (
	healthJSON struct {
		Status  string `json:"status"`
		Version string `json:"version,omitempty"`
	}
	readyJSON struct {
		Status string `json:"status"`
		Quorum int    `json:"quorum"`
		Voting int    `json:"voting"`
		Nodes  int    `json:"nodes"`
	}
)

// healthz says that the process serves at all: for a supervisor that restarts it.
//
//	@Summary	The process serves
//	@ID			healthz
//	@Tags		about
//	@Produce	json,plain
//	@Success	200		{object}	healthJSON
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Router		/healthz [get]
func (s *Server) healthz(c echo.Context, _ *principal) error {
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ok\n")
	}
	return answerJSON(c, http.StatusOK, healthJSON{"ok", s.cfg.Version})
}

// readyz says whether requests should be sent here: for a load balancer. It names what is missing.
//
//	@Summary	Requests should be sent here
//	@ID			readyz
//	@Tags		about
//	@Produce	json,plain
//	@Success	200		{object}	readyJSON
//	@Failure	503		{object}	problem	"quorum_unavailable, draining, policy_unavailable: the detail names what is missing"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Router		/readyz [get]
func (s *Server) readyz(c echo.Context, _ *principal) error {
	if s.draining.Load() {
		return engine.ErrDraining
	}
	if err := s.engine.Ready(over); err != nil {
		return newProblem(kindQuorumUnavailable, "%s", oneLine(err.Error()))
	}
	if err := s.policiesReady(c.Request().Context()); err != nil {
		return err
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ready\n")
	}
	quorum, nodes := s.engine.Nodes()
	return answerJSON(c, http.StatusOK, readyJSON{"ready", quorum, votes(nodes), len(nodes)})
}
