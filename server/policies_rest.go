package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

const policiesPath = "/v1/policies/"

// wasmMark is how a module begins, whatever its Content-Type says: curl -T sends none.
const wasmMark = "\x00asm"

func (s *Server) policyRoutes() {
	s.get("/v1/policies", scopeRead, s.listPolicies)
	const policy = policiesPath + ":name"
	s.get(policy, scopeRead, s.getPolicy)
	s.echo.PUT(policy, s.needs(scopeOperate, s.putPolicy))
	s.echo.DELETE(policy, s.needs(scopeOperate, s.deletePolicy))
	s.echo.POST(policy+"/evaluate", s.needs(scopeOperate, s.evaluatePolicy))
}

// beginPolicy reads the name of the policy that a request concerns, and its parameters in the query alone.
func beginPolicy(c echo.Context) (p *params, name string, err error) {
	p = &params{}
	p.addForm(c.Request().URL.RawQuery)
	name, err = policyName(c.Request(), p)
	return p, name, err
}

// change says who changes a policy and what it depends on.
func change(c echo.Context, who *principal) (policies.Change, error) {
	cond, err := condition(c.Request())
	by := policies.Change{By: who.name, IfRev: cond.IfRev}
	if cond.IfAbsent {
		by.IfRev = -1
	}
	return by, err
}

// putPolicy uploads a module and puts it to work, or goes back to a stored version of it.
//
//	@Summary		Upload a policy, or go back to a stored version
//	@Description	The body is the module itself, up to 8 MiB (curl -T), or {"sha256": …} of a stored version. Once it is answered, every new request here is weighed by it.
//	@ID				put-policy
//	@Tags			policies
//	@Param			name			path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param			dry_run			query	bool	false	"Only check the module"
//	@Param			module			body	string	true	"The module"
//	@Param			If-Match		header	string	false	"The ETag of the revision to change"
//	@Param			If-None-Match	header	string	false	"*: only if there is none"
//	@Accept			application/wasm,json
//	@Produce		json,plain
//	@Success		200		{object}	policies.Status
//	@Success		201		{object}	policies.Status
//	@Header			200		{string}	ETag	"The revision"
//	@Failure		404		{object}	problem	"not_found: no such stored version"
//	@Failure		412		{object}	problem	"rev_mismatch"
//	@Failure		422		{object}	problem	"invalid_module: stage, got, want and hint say why"
//	@Failure		default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security		Bearer
//	@Router			/v1/policies/{name} [put]
func (s *Server) putPolicy(c echo.Context, who *principal) error {
	p, name, err := beginPolicy(c)
	if err != nil {
		return err
	}
	dryRun := p.flag("dry_run", false)
	by, err := change(c, who)
	if err := firstError(p.end(), err); err != nil {
		return err
	}
	body, err := readModule(c.Request())
	switch {
	case err != nil:
		return err
	case !bytes.HasPrefix(body, []byte(wasmMark)) && strings.HasPrefix(strings.TrimLeft(string(body[:min(len(body), bodyMax)]), " \t\r\n"), "{"):
		return s.revertPolicy(c, who, name, string(body), dryRun, by)
	case dryRun:
		report, err := s.policies.Check(c.Request().Context(), bytes.NewReader(body))
		if err != nil {
			return problemOfPolicy(err)
		}
		return answerJSON(c, http.StatusOK, policies.Status{
			Name: name, SHA256: report.SHA256, ABI: report.ABI, Report: report, Versions: []policies.Stored{}, UsedBy: []string{},
		})
	}
	st, created, err := s.policies.Put(c.Request().Context(), name, bytes.NewReader(body), by)
	if err != nil {
		return problemOfPolicy(err)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.policyPut(c, who, status, &st)
}

// readModule reads a body of at most the size of a module, and a byte to see that it is larger.
func readModule(r *http.Request) ([]byte, error) {
	if r.ContentLength > policies.ModuleMax {
		return nil, newProblem(kindTooLarge, "a module has up to %d bytes", policies.ModuleMax)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, policies.ModuleMax+1))
	switch {
	case err != nil:
		return nil, badRequest("", "the body did not arrive whole")
	case len(body) > policies.ModuleMax:
		return nil, newProblem(kindTooLarge, "a module has up to %d bytes", policies.ModuleMax)
	}
	return body, nil
}

// revertPolicy puts a stored version to work again.
func (s *Server) revertPolicy(c echo.Context, who *principal, name, body string, dryRun bool, by policies.Change) error {
	p := &params{}
	p.addBody(body, "")
	sum := p.text("sha256", 64)
	if err := p.end(); err != nil {
		return err
	}
	if sum == "" || dryRun {
		return badRequest("sha256", "sha256 of a stored version is needed, and no dry_run: it was checked when it was uploaded")
	}
	st, err := s.policies.Revert(c.Request().Context(), name, sum, by)
	if err != nil {
		return problemOfPolicy(err)
	}
	return s.policyPut(c, who, http.StatusOK, &st)
}

// policyPut answers a change of a policy, and tells of it once however often it is repeated.
func (s *Server) policyPut(c echo.Context, who *principal, status int, st *policies.Status) error {
	if key := "policy " + etag(st.Rev) + st.Name; s.done.get(key) == "" {
		s.done.add(key, actPolicyPut)
		s.acted(c, who, event{Type: actPolicyPut, Policy: st.Name, Rev: st.Rev, Generation: st.Rev, SHA256: st.SHA256})
	}
	return answerPolicy(c, status, st)
}

func answerPolicy(c echo.Context, status int, st *policies.Status) error {
	c.Response().Header().Set("ETag", etag(st.Rev))
	if wantsText(c.Request()) {
		return answerText(c, status, columns([][]string{policyRow(st)}))
	}
	return answerJSON(c, status, st)
}

// policyRow is a policy in text/plain: name, revision, sha256, here, how many semaphores use it.
func policyRow(st *policies.Status) []string {
	return []string{st.Name, strconv.FormatInt(st.Rev, 10), st.SHA256, string(st.Here), strconv.Itoa(len(st.UsedBy))}
}

// getPolicy tells of a policy.
//
//	@Summary	Read what a policy is
//	@ID			get-policy
//	@Tags		policies
//	@Param		name	path	string	true	"Name, escaped once; - where ?name= has it"
//	@Produce	json,plain
//	@Success	200		{object}	policies.Status
//	@Header		200		{string}	ETag	"The revision"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/policies/{name} [get]
func (s *Server) getPolicy(c echo.Context, who *principal) error {
	p, name, err := beginPolicy(c)
	if err := firstError(err, p.end()); err != nil {
		return err
	}
	st, err := s.policies.Get(c.Request().Context(), name)
	if err != nil {
		return problemOfPolicy(err)
	}
	who.hide(&st)
	return answerPolicy(c, http.StatusOK, &st)
}

// hide leaves out the semaphores that a token does not name.
func (who *principal) hide(st *policies.Status) {
	st.UsedBy = slices.DeleteFunc(st.UsedBy, func(semaphore string) bool { return !who.sees(semaphore) })
	st.Differences = slices.DeleteFunc(st.Differences, func(d policies.Difference) bool { return !who.sees(d.Semaphore) })
}

// listPolicies lists all policies.
//
//	@Summary	List policies
//	@ID			list-policies
//	@Tags		policies
//	@Param		count	query	int		false	"Items of a page, 1 to 1000"
//	@Param		after	query	string	false	"next of the page before"
//	@Produce	json,plain
//	@Success	200		{object}	listJSON[policies.Status]
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/policies [get]
func (s *Server) listPolicies(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	after, count := p.text("after", policies.NameMax), p.integer("count", pageUsual, 1, pageMax)
	if err := p.end(); err != nil {
		return err
	}
	list, err := s.policies.List(c.Request().Context())
	if err != nil {
		return problemOfPolicy(err)
	}
	list = slices.DeleteFunc(list, func(st policies.Status) bool { return st.Name <= after && after != "" })
	page := listJSON[policies.Status]{Items: list[:min(len(list), count)]}
	rows := make([][]string, len(page.Items))
	for i := range page.Items {
		who.hide(&page.Items[i])
		rows[i] = policyRow(&page.Items[i])
	}
	if wantsText(c.Request()) {
		return answerText(c, http.StatusOK, columns(rows))
	}
	if len(list) > count {
		page.Next = &list[count-1].Name
	}
	return answerJSON(c, http.StatusOK, page)
}

// deletePolicy removes a policy that no semaphore is bound to.
//
//	@Summary	Delete a policy that nobody uses
//	@ID			delete-policy
//	@Tags		policies
//	@Param		name		path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param		If-Match	header	string	false	"The ETag of the revision to delete"
//	@Produce	json,plain
//	@Success	204
//	@Failure	409		{object}	problem	"policy_in_use: used_by names semaphores"
//	@Failure	412		{object}	problem	"rev_mismatch"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/policies/{name} [delete]
func (s *Server) deletePolicy(c echo.Context, who *principal) error {
	p, name, err := beginPolicy(c)
	by, wrong := change(c, who)
	if err := firstError(err, p.end(), wrong); err != nil {
		return err
	}
	key := "policy deleted " + who.name + " " + name
	err = s.policies.Delete(c.Request().Context(), name, max(0, by.IfRev))
	switch {
	case errors.Is(err, policies.ErrUnknownPolicy) && s.done.get(key) != "": // repeated
	case err != nil:
		err = problemOfPolicy(err)
		if p, ok := errors.AsType[*problem](err); ok { // the number is for all; the names are for those who may know them
			p.UsedBy = slices.DeleteFunc(p.UsedBy, func(semaphore string) bool { return !who.sees(semaphore) })
		}
		return err
	default:
		s.done.add(key, actPolicyDeleted)
		s.acted(c, who, event{Type: actPolicyDeleted, Policy: name})
	}
	return c.NoContent(http.StatusNoContent)
}

// evaluatePolicy asks a policy about a request that nobody makes: neither its metrics nor its breaker hear of it.
//
//	@Summary	Ask a policy, for a try
//	@ID			evaluate-policy
//	@Tags		policies
//	@Param		name	path	string			true	"Name, escaped once; - where ?name= has it"
//	@Param		request	body	evaluateBody	false	"What the policy is to see"
//	@Produce	json
//	@Success	200		{object}	policies.Evaluation
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/policies/{name}/evaluate [post]
func (s *Server) evaluatePolicy(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	name, err := policyName(c.Request(), p)
	if err != nil {
		return err
	}
	limit := p.integer("limit", engine.LimitMax, 1, engine.LimitMax)
	request := &policies.Request{
		Semaphore: p.text("semaphore", engine.NameMax), Client: who.name, Holder: p.text("holder", engine.HolderMax),
		ID: requestID(c.Response().Header()), Requested: int64(p.integer("requested", 1, 1, engine.WeightMax)), Limit: int64(limit),
		Available: int64(p.integer("available", limit, 0, engine.LimitMax)), Waiting: int64(p.integer("waiting", 0, 0, engine.MaxWaitersMax)),
		Attributes: p.attributes(), TTLMin: engine.TTLMin,
	}
	config := p.text("config", policies.ConfigMax)
	if err := p.end(); err != nil {
		return err
	}
	d, err := s.policies.DryRun(c.Request().Context(), name, config, request)
	if err != nil {
		return problemOfPolicy(err)
	}
	return answerJSON(c, http.StatusOK, d.Told())
}
