package server

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// breakLease ends a lease, whoever holds it.
//
//	@Summary	Break a lease, whoever holds it
//	@ID			break-lease
//	@Tags		leases
//	@Param		name	path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param		id		path	string	true	"Of the lease"
//	@Param		reason	query	string	false	"Why, for those who will ask"
//	@Produce	json,plain
//	@Success	200		{object}	brokenJSON	"Also when it is repeated"
//	@Failure	404		{object}	problem		"unknown_lease"
//	@Failure	410		{object}	problem		"lease_released"
//	@Failure	default	{object}	problem		"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name}/leases/{id} [delete]
func (s *Server) breakLease(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	id, ok := pathLease(c.Request().URL)
	reason := p.reason()
	if err := p.end(); err != nil {
		return err
	}
	if !ok {
		return newProblem(kindUnknownLease, "%s", engine.ErrUnknownLease.Error())
	}
	broken, err := s.engine.Break(c.Request().Context(), name, id)
	if err != nil {
		return err
	}
	// Repeated, it answers as the first time, though nothing is left that could be broken.
	key := "lease " + id + " " + name
	weight := broken.Weight
	if weight == 0 {
		weight, _ = strconv.Atoi(s.done.get(key)) // "": it was broken at another replica
	}
	if s.done.get(key) == "" {
		s.broke(c, who, name, broken, reason)
	}
	s.done.add(key, strconv.Itoa(weight))
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, "broken\n")
	}
	return answerJSON(c, http.StatusOK, brokenJSON{ID: id, State: "broken", Weight: weight})
}

// broke tells that an operator has broken a lease.
func (s *Server) broke(c echo.Context, who *principal, semaphore string, b engine.Broken, reason string) {
	s.metrics.released("broken")
	s.acted(c, who, event{
		Type: actBroken, Semaphore: semaphore, Lease: b.ID, Holder: b.Holder, Weight: b.Weight, Reason: reason,
		Policy: b.Policy.Name, Generation: b.Policy.Generation,
	})
}

type brokenJSON struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Weight int    `json:"weight"` // that was held; 0 if it was broken at another replica
}
