package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// patchTries bounds how often a change is made anew because somebody else has changed the semaphore in between.
const patchTries = 8

// patchSemaphore changes what a merge patch (RFC 7396) names and leaves the rest as it is; null puts the default back.
//
//	@Summary	Change what is named
//	@ID			patch-semaphore
//	@Tags		semaphores
//	@Param		name		path	string		true	"Name, escaped once; - where ?name= has it"
//	@Param		patch		body	patchBody	true	"A merge patch"
//	@Param		If-Match	header	string		false	"The ETag of the revision to change"
//	@Produce	json,plain
//	@Success	200		{object}	semaphoreJSON
//	@Header		200		{string}	ETag	"The revision"
//	@Failure	404		{object}	problem	"unknown_semaphore"
//	@Failure	412		{object}	problem	"rev_mismatch"
//	@Failure	422		{object}	problem	"invalid_definition, unknown_policy"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name} [patch]
func (s *Server) patchSemaphore(c echo.Context, who *principal) error {
	p := &params{nulls: true}
	name, err := p.begin(c.Request(), who)
	if err != nil {
		return err
	}
	cond, err := condition(c.Request())
	if err == nil && cond.IfAbsent {
		err = badRequest("If-None-Match", "what is not there can not be changed; PUT declares it")
	}
	if err != nil {
		return err
	}
	sem, err := s.patch(c.Request().Context(), name, p, cond, who.name)
	if err != nil {
		return invalidDefinition(err)
	}
	s.changed(c, who, &sem, false)
	return answerSemaphore(c, http.StatusOK, sem)
}

// patch makes the change on the revision that it has read, so that two changes of different fields are both kept. What is
// in force already is answered as it is, whatever revision was named: then the change was made before.
func (s *Server) patch(ctx context.Context, name string, p *params, cond engine.Condition, by string) (engine.Semaphore, error) {
	for range patchTries {
		sem, err := s.engine.Semaphore(ctx, name)
		if err != nil {
			return sem, err
		}
		def, invalid := p.definition(sem.Definition)
		if err := firstError(p.end(), invalid); err != nil {
			return sem, err
		}
		if err := s.checkBinding(ctx, def.Policy, sem.Definition.Policy); err != nil {
			return sem, err
		}
		rev := cmp.Or(cond.IfRev, sem.Rev)
		if rev > sem.Rev {
			return sem, engine.ErrRevMismatch
		}
		changed, _, err := s.engine.Put(ctx, name, def, engine.Condition{IfRev: rev}, by)
		if cond.IfRev > 0 || !errors.Is(err, engine.ErrRevMismatch) {
			return changed, err
		}
	}
	return engine.Semaphore{}, engine.ErrRevMismatch
}
