package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// healthz says that the process serves at all: for a supervisor that restarts it.
func (s *Server) healthz(c echo.Context) error {
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ok\n")
	}
	return answerJSON(c, http.StatusOK, struct {
		Status  string `json:"status"`
		Version string `json:"version,omitempty"`
	}{"ok", s.cfg.Version})
}

// readyz says whether requests should be sent here: for a load balancer. It names what is missing.
func (s *Server) readyz(c echo.Context) error {
	if s.draining.Load() {
		return engine.ErrDraining
	}
	quorum, nodes := s.engine.Nodes()
	if problem := WithoutQuorum(quorum, nodes); problem != "" {
		return newProblem(kindQuorumUnavailable, "%s", problem)
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "ready\n")
	}
	return answerJSON(c, http.StatusOK, struct {
		Status string `json:"status"`
		Quorum int    `json:"quorum"`
		Voting int    `json:"voting"`
		Nodes  int    `json:"nodes"`
	}{"ready", quorum, votes(nodes), len(nodes)})
}
