package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// Pages of lists.
const (
	pageUsual = 100
	pageMax   = 1000
)

// semaphoreJSON is a semaphore as clients see it.
type semaphoreJSON struct {
	Name       string         `json:"name"`
	Rev        int64          `json:"rev"`
	Declared   bool           `json:"declared"`
	ChangedAt  string         `json:"changed_at"`
	ChangedBy  string         `json:"changed_by,omitempty"`
	Definition definitionJSON `json:"definition"`
	Status     statusJSON     `json:"status"`
}

// statusJSON is what a semaphore does: limit = in_use + cooling + available - over_committed.
type statusJSON struct {
	InUse         int   `json:"in_use"`
	Cooling       int   `json:"cooling"`
	Available     int   `json:"available"`
	OverCommitted int   `json:"over_committed"`
	GrantingInMS  int64 `json:"granting_in_ms,omitempty"` // after a cold start: nothing is granted before, whatever is available
	Waiting       int   `json:"waiting"`
	OldestWaitMS  int64 `json:"oldest_wait_ms"`
	NextExpiryMS  int64 `json:"next_expiry_ms,omitempty"`
	GrantedTotal  int64 `json:"granted_total"` // by this replica since it started
	Stalled       bool  `json:"stalled"`
}

type listJSON[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next" extensions:"x-nullable"`
}

func semaphoreOf(s engine.Semaphore) semaphoreJSON {
	return semaphoreJSON{
		Name: s.Name, Rev: s.Rev, Declared: s.Declared,
		ChangedAt: formatTime(s.ChangedAt), ChangedBy: s.ChangedBy,
		Definition: definitionOf(s.Definition),
		Status: statusJSON{
			InUse: s.Status.InUse, Cooling: s.Status.Cooling,
			Available: s.Status.Available, OverCommitted: s.Status.OverCommitted, GrantingInMS: s.Status.GrantingIn.Milliseconds(),
			Waiting: s.Status.Waiting, OldestWaitMS: s.Status.OldestWait.Milliseconds(),
			NextExpiryMS: s.Status.NextExpiry.Milliseconds(),
			GrantedTotal: s.Status.GrantedTotal, Stalled: s.Status.Stalled,
		},
	}
}

// semaphoreRow is a semaphore in text/plain: name, limit, in use, cooling, available, waiting, revision.
func semaphoreRow(s engine.Semaphore) []string {
	return []string{
		s.Name, strconv.Itoa(s.Definition.Limit), strconv.Itoa(s.Status.InUse), strconv.Itoa(s.Status.Cooling),
		strconv.Itoa(s.Status.Available), strconv.Itoa(s.Status.Waiting), strconv.FormatInt(s.Rev, 10),
	}
}

// formatTime writes a time as every answer does: UTC, RFC 3339 with milliseconds.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// putSemaphore declares a semaphore.
//
//	@Summary	Declare a semaphore, or change it to exactly this
//	@ID			put-semaphore
//	@Tags		semaphores
//	@Param		name			path	string			true	"Name, escaped once; - where ?name= has it"
//	@Param		definition		body	definitionBody	true	"Only limit is required"
//	@Param		If-Match		header	string			false	"The ETag of the revision to change"
//	@Param		If-None-Match	header	string			false	"*: only if there is none"
//	@Produce	json,plain
//	@Success	200		{object}	semaphoreJSON
//	@Success	201		{object}	semaphoreJSON
//	@Header		200		{string}	ETag	"The revision"
//	@Failure	412		{object}	problem	"rev_mismatch"
//	@Failure	422		{object}	problem	"invalid_definition, unknown_policy"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name} [put]
func (s *Server) putSemaphore(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	def, invalid := p.definition(engine.Definition{})
	cond, err := condition(c.Request())
	if err := firstError(p.end(), err, invalidDefinition(invalid)); err != nil {
		return err
	}
	if err := s.checkBinding(c.Request().Context(), def.Policy, engine.Binding{}); err != nil {
		return err
	}
	sem, created, err := s.engine.Put(c.Request().Context(), name, def, cond, who.name)
	switch {
	case errors.Is(err, engine.ErrRevMismatch) && cond.IfAbsent:
		return newProblem(kindRevMismatch, "there is such a semaphore already")
	case err != nil:
		return invalidDefinition(err)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	s.changed(c, who, &sem, created)
	return answerSemaphore(c, status, sem)
}

// changed tells that an operator has put a definition in force, once, however often the change is repeated.
func (s *Server) changed(c echo.Context, who *principal, sem *engine.Semaphore, created bool) {
	s.bound(sem)
	act, key := actChanged, "change "+etag(sem.Rev)+sem.Name
	if created {
		act = actDeclared
	}
	if sem.ChangedBy != who.name || s.done.get(key) != "" { // it was in force before
		return
	}
	s.done.add(key, act)
	s.acted(c, who, event{Type: act, Semaphore: sem.Name, Rev: sem.Rev, Policy: sem.Definition.Policy.Policy})
}

// getSemaphore reads a semaphore.
//
//	@Summary	Read a semaphore
//	@ID			get-semaphore
//	@Tags		semaphores
//	@Param		name	path	string	true	"Name, escaped once; - where ?name= has it"
//	@Produce	json,plain
//	@Success	200		{object}	semaphoreJSON
//	@Header		200		{string}	ETag	"The revision"
//	@Failure	404		{object}	problem	"unknown_semaphore"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name} [get]
func (s *Server) getSemaphore(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	sem, err := s.engine.Semaphore(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return answerSemaphore(c, http.StatusOK, sem)
}

// listSemaphores lists those that the token names.
//
//	@Summary	List semaphores
//	@ID			list-semaphores
//	@Tags		semaphores
//	@Param		prefix	query	string	false	"Of names"
//	@Param		count	query	int		false	"Items of a page, 1 to 1000"
//	@Param		after	query	string	false	"next of the page before"
//	@Produce	json,plain
//	@Success	200		{object}	listJSON[semaphoreJSON]
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores [get]
func (s *Server) listSemaphores(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	prefix, after := p.text("prefix", engine.NameMax), p.text("after", engine.NameMax)
	count := p.integer("count", pageUsual, 1, pageMax)
	if err := p.end(); err != nil {
		return err
	}
	list, next, err := s.engine.Semaphores(c.Request().Context(), prefix, after, count)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(sem engine.Semaphore) bool { return !who.sees(sem.Name) })
	if wantsText(c.Request()) {
		rows := make([][]string, len(list))
		for i, sem := range list {
			rows[i] = semaphoreRow(sem)
		}
		return answerText(c, http.StatusOK, columns(rows))
	}
	page := listJSON[semaphoreJSON]{Items: make([]semaphoreJSON, len(list))}
	for i, sem := range list {
		page.Items[i] = semaphoreOf(sem)
	}
	if next != "" {
		page.Next = &next
	}
	return answerJSON(c, http.StatusOK, page)
}

// begin reads the parameters and the name of a request that concerns one semaphore, which who may have to do with.
func (s *Server) begin(c echo.Context, who *principal) (*params, string, error) {
	p := &params{}
	name, err := p.begin(c.Request(), who)
	return p, name, err
}

func (p *params) begin(r *http.Request, who *principal) (name string, err error) {
	if err := p.read(r); err != nil {
		return "", err
	}
	if name, err = semaphoreName(r, p); err == nil {
		err = who.mayUse(name)
	}
	return name, err
}

func answerSemaphore(c echo.Context, status int, s engine.Semaphore) error {
	c.Response().Header().Set("ETag", etag(s.Rev))
	if wantsText(c.Request()) {
		return answerText(c, status, columns([][]string{semaphoreRow(s)}))
	}
	return answerJSON(c, status, semaphoreOf(s))
}

func etag(rev int64) string { return `"` + strconv.FormatInt(rev, 10) + `"` }

// condition reads If-Match and If-None-Match: a revision as its ETag has it, and *.
func condition(r *http.Request) (engine.Condition, error) {
	var cond engine.Condition
	if match := r.Header.Get("If-Match"); match != "" {
		rev, ok := parseInteger(strings.TrimSuffix(strings.TrimPrefix(match, `"`), `"`))
		if !ok || rev < 1 || match != etag(rev) {
			return cond, badRequest("If-Match", `If-Match must be the ETag of a revision, such as "3"`)
		}
		cond.IfRev = rev
	}
	switch r.Header.Get("If-None-Match") {
	case "":
	case "*":
		cond.IfAbsent = true
	default:
		return cond, badRequest("If-None-Match", "If-None-Match can only be *")
	}
	if cond.IfAbsent && cond.IfRev > 0 {
		return cond, badRequest("If-Match", "If-Match and If-None-Match exclude each other")
	}
	return cond, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
