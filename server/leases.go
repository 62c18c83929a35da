package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// leaseJSON is a lease in lists: it has no capability.
type leaseJSON struct {
	ID        string `json:"id"`
	Semaphore string `json:"semaphore"`
	Weight    int    `json:"weight"`
	Slots     string `json:"slots"`
	Fence     int64  `json:"fence"`
	Holder    string `json:"holder"`
	Principal string `json:"principal,omitempty"`
	Address   string `json:"address,omitempty"`
	Via       string `json:"via,omitempty"`
	State     string `json:"state"`

	Policy *policyVersionJSON `json:"policy,omitempty"` // that weighed it

	GrantedAt   string `json:"granted_at,omitempty"` // not of what cools: the lease is over
	AgeMS       int64  `json:"age_ms"`
	ExpiresInMS *int64 `json:"expires_in_ms,omitempty"` // not of a lease that lives until it is released
}

func leaseOf(l engine.LeaseInfo) leaseJSON {
	j := leaseJSON{
		ID: l.ID, Semaphore: l.Semaphore, Weight: l.Weight, Slots: l.Slots.String(), Fence: l.Fence,
		Holder: l.Holder, Principal: l.Principal, Address: l.Address, Via: l.Via,
		State: leaseState(l), AgeMS: l.Age.Milliseconds(),
	}
	if l.Policy.Name != "" {
		j.Policy = &policyVersionJSON{l.Policy.Name, l.Policy.Generation}
	}
	if !l.GrantedAt.IsZero() {
		j.GrantedAt = formatTime(l.GrantedAt)
	}
	if l.ExpiresIn != engine.Never {
		j.ExpiresInMS = new(l.ExpiresIn.Milliseconds())
	}
	return j
}

func leaseState(l engine.LeaseInfo) string {
	if l.Cooling {
		return "cooling"
	}
	return "held"
}

// leaseRow is a lease in text/plain: semaphore, id, weight, slots, holder, state, age and end in ms (- for none), via.
func leaseRow(l engine.LeaseInfo) []string {
	ends := "-"
	if l.ExpiresIn != engine.Never {
		ends = strconv.FormatInt(l.ExpiresIn.Milliseconds(), 10)
	}
	return []string{
		l.Semaphore, l.ID, strconv.Itoa(l.Weight), l.Slots.String(), l.Holder, leaseState(l),
		strconv.FormatInt(l.Age.Milliseconds(), 10), ends, l.Via,
	}
}

// listLeases lists the leases of a semaphore, the oldest first.
//
//	@Summary	List the leases of a semaphore
//	@ID			list-leases
//	@Tags		leases
//	@Param		name	path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param		count	query	int		false	"Items of a page, 1 to 1000"
//	@Param		after	query	string	false	"next of the page before"
//	@Produce	json,plain
//	@Success	200		{object}	listJSON[leaseJSON]	"The oldest first"
//	@Failure	404		{object}	problem				"unknown_semaphore"
//	@Failure	default	{object}	problem				"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name}/leases [get]
func (s *Server) listLeases(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	after, count := p.leaseCursor(), p.integer("count", pageUsual, 1, pageMax)
	if err := p.end(); err != nil {
		return err
	}
	list, err := s.engine.Leases(c.Request().Context(), name)
	if err != nil {
		return err
	}
	list, next := leasePage(list, after, count)
	return answerLeases(c, list, next)
}

func answerLeases(c echo.Context, list []engine.LeaseInfo, next *string) error {
	if wantsText(c.Request()) {
		rows := make([][]string, len(list))
		for i, l := range list {
			rows[i] = leaseRow(l)
		}
		return answerText(c, http.StatusOK, columns(rows))
	}
	page := listJSON[leaseJSON]{Items: make([]leaseJSON, len(list)), Next: next}
	for i, l := range list {
		page.Items[i] = leaseOf(l)
	}
	return answerJSON(c, http.StatusOK, page)
}

// leasePage returns the page behind after, and where the next one starts. A later grant has the larger fence, so the
// order stays, whatever ends between two pages.
func leasePage(list []engine.LeaseInfo, after leaseCursor, count int) ([]engine.LeaseInfo, *string) {
	slices.SortFunc(list, func(a, b engine.LeaseInfo) int { return cursorOf(a).compare(cursorOf(b)) })
	list = slices.DeleteFunc(list, func(l engine.LeaseInfo) bool { return cursorOf(l).compare(after) <= 0 })
	if len(list) <= count {
		return list, nil
	}
	list = list[:count]
	return list, new(cursorOf(list[count-1]).String())
}

// leaseCursor is a place in the list of leases.
type leaseCursor struct {
	fence int64
	id    string
}

func cursorOf(l engine.LeaseInfo) leaseCursor { return leaseCursor{l.Fence, l.ID} }

func (c leaseCursor) compare(d leaseCursor) int {
	return cmp.Or(cmp.Compare(c.fence, d.fence), cmp.Compare(c.id, d.id))
}

func (c leaseCursor) String() string { return strconv.FormatInt(c.fence, 10) + "." + c.id }

// leaseCursor takes where a page starts; without it the list begins.
func (p *params) leaseCursor() leaseCursor {
	if !p.given("after") {
		return leaseCursor{fence: -1}
	}
	fence, id, found := strings.Cut(p.text("after", engine.NameMax), ".")
	n, ok := parseInteger(fence)
	if !found || !ok {
		p.fail("after", "must be the next of an earlier page")
	}
	return leaseCursor{n, id}
}
