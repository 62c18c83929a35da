package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// reasonMax bounds the bytes of what an operator says why.
const reasonMax = 200

// reason takes why an operator does something, for those who will ask.
func (p *params) reason() string {
	reason := p.text("reason", reasonMax)
	if !plainText(reason) {
		p.fail("reason", "must not have control characters")
	}
	return reason
}

// deleteSemaphore removes a semaphore that has no holders; with break=true, also one that has: their leases are broken.
//
//	@Summary	Remove a semaphore
//	@ID			delete-semaphore
//	@Tags		semaphores
//	@Param		name		path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param		break		query	bool	false	"Also one with holders: their leases are broken"
//	@Param		reason		query	string	false	"Why, for those who will ask"
//	@Param		If-Match	header	string	false	"The ETag of the revision to change"
//	@Produce	json,plain
//	@Success	204
//	@Failure	404		{object}	problem	"unknown_semaphore"
//	@Failure	409		{object}	problem	"semaphore_in_use"
//	@Failure	412		{object}	problem	"rev_mismatch"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name} [delete]
func (s *Server) deleteSemaphore(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	breaking, reason := p.flag("break", false), p.reason()
	cond, err := condition(c.Request())
	if err := firstError(p.end(), err); err != nil {
		return err
	}
	if cond.IfAbsent {
		return badRequest("If-None-Match", "what is not there can not be deleted")
	}
	ctx := c.Request().Context()
	var broken []engine.Broken
	if breaking {
		broken, err = s.engine.DeleteBreaking(ctx, name, cond, who.name)
	} else {
		err = s.engine.Delete(ctx, name, cond, who.name)
	}
	for _, b := range broken {
		s.broke(c, who, name, b, reason)
	}
	again := deletion{name, cond.IfRev, breaking}
	switch {
	case err == nil:
		s.done.add(again.key(), "deleted")
		s.acted(c, who, event{Type: actDeleted, Semaphore: name, Reason: reason})
	case !errors.Is(err, engine.ErrUnknownSemaphore) || !again.named() || s.done.get(again.key()) == "":
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// deletion is how a deletion is known again that a proxy repeats. One that names neither a revision nor the breaking of leases
// is not: the second of two people who delete a semaphore should hear that there is none.
type deletion struct {
	semaphore string
	rev       int64
	breaking  bool
}

func (d deletion) named() bool { return d.rev > 0 || d.breaking }

func (d deletion) key() string {
	kind := "delete "
	if d.breaking {
		kind = "break "
	}
	return kind + etag(d.rev) + d.semaphore
}
