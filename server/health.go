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

// healthz says that the process serves at all: for a supervisor that restarts it.
func (s *Server) healthz(c echo.Context, _ *principal) error {
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ok\n")
	}
	return answerJSON(c, http.StatusOK, struct {
		Status  string `json:"status"`
		Version string `json:"version,omitempty"`
	}{"ok", s.cfg.Version})
}

// readyz says whether requests should be sent here: for a load balancer. It names what is missing.
func (s *Server) readyz(c echo.Context, _ *principal) error {
	if s.draining.Load() {
		return engine.ErrDraining
	}
	if err := s.engine.Ready(over); err != nil {
		return newProblem(kindQuorumUnavailable, "%s", oneLine(err.Error()))
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ready\n")
	}
	quorum, nodes := s.engine.Nodes()
	return answerJSON(c, http.StatusOK, struct {
		Status string `json:"status"`
		Quorum int    `json:"quorum"`
		Voting int    `json:"voting"`
		Nodes  int    `json:"nodes"`
	}{"ready", quorum, votes(nodes), len(nodes)})
}
