package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

const (
	findTimeMax    = 2 * time.Second // after it a page ends where it is, so that a rare lease among many semaphores costs nobody much
	findSemaphores = 100             // read at once
)

// leaseFilter says which leases are looked for; the zero value of a field asks for nothing.
type leaseFilter struct {
	who                          *principal // whose token must name the semaphore
	semaphore, holder, principal string
	olderThan                    time.Duration
}

func (f *leaseFilter) fits(l *engine.LeaseInfo) bool {
	return (f.holder == "" || f.holder == l.Holder) && (f.principal == "" || f.principal == l.Principal) && l.Age >= f.olderThan
}

// findLeases lists the leases of all semaphores, by semaphore and then the oldest first. A page may have fewer than were asked
// for, even none, and a next.
//
//	@Summary	Find leases across semaphores
//	@ID			find-leases
//	@Tags		leases
//	@Param		semaphore	query	string	false	"Of this semaphore"
//	@Param		holder		query	string	false	"Of this holder"
//	@Param		principal	query	string	false	"Of this principal"
//	@Param		older_than	query	string	false	"At least so old, such as 10m"
//	@Param		count		query	int		false	"Items of a page, 1 to 1000"
//	@Param		after		query	string	false	"next of the page before"
//	@Produce	json,plain
//	@Success	200		{object}	listJSON[leaseJSON]	"A page may have fewer than were asked for, and a next"
//	@Failure	default	{object}	problem				"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/leases [get]
func (s *Server) findLeases(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	f := leaseFilter{
		who:       who,
		semaphore: p.text("semaphore", engine.NameMax), holder: p.text("holder", engine.HolderMax),
		principal: p.text("principal", engine.HolderMax), olderThan: p.duration("older_than", 0, 0, 10*365*24*time.Hour),
	}
	after, count := p.findCursor(), p.integer("count", pageUsual, 1, pageMax)
	if err := p.end(); err != nil {
		return err
	}
	list, next, err := s.leasesFrom(c.Request().Context(), &f, after, count)
	if err != nil {
		return err
	}
	return answerLeases(c, list, next)
}

// leasesFrom returns a page of the leases that fit, and where the next one starts.
func (s *Server) leasesFrom(ctx context.Context, f *leaseFilter, after findCursor, count int) ([]engine.LeaseInfo, *string, error) {
	list, end := []engine.LeaseInfo{}, time.Now().Add(findTimeMax)
	for {
		names, next, err := s.leasedAfter(ctx, f, after.semaphore)
		if err != nil {
			return nil, nil, err
		}
		if after.lease.id != "" && f.who.sees(after.semaphore) { // that semaphore is not done yet
			names = slices.Insert(names, 0, after.semaphore)
		}
		for _, name := range names {
			if after.semaphore != "" && time.Now().After(end) {
				return list, new(after.String()), nil
			}
			from := leaseCursor{fence: -1}
			if name == after.semaphore {
				from = after.lease
			}
			page, more, err := s.leasesOf(ctx, name, f, from, count-len(list))
			if err != nil {
				return nil, nil, err
			}
			list = append(list, page...)
			switch {
			case more != nil && len(page) == 0: // the page was full before
				return list, new(after.String()), nil
			case more != nil:
				return list, new(findCursor{name, *more}.String()), nil
			}
			after = findCursor{semaphore: name}
		}
		if next == "" {
			return list, nil, nil
		}
		after = findCursor{semaphore: next}
	}
}

// leasesOf returns the leases of a semaphore that fit, at most count of them, and where to go on. A semaphore that is deleted
// meanwhile has none.
func (s *Server) leasesOf(ctx context.Context, name string, f *leaseFilter, from leaseCursor, count int) ([]engine.LeaseInfo, *leaseCursor, error) {
	list, err := s.engine.Leases(ctx, name)
	if err == engine.ErrUnknownSemaphore {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	list = slices.DeleteFunc(list, func(l engine.LeaseInfo) bool { return !f.fits(&l) || cursorOf(l).compare(from) <= 0 })
	slices.SortFunc(list, func(a, b engine.LeaseInfo) int { return cursorOf(a).compare(cursorOf(b)) })
	if len(list) <= count {
		return list, nil, nil
	}
	if count == 0 {
		return nil, &from, nil
	}
	return list[:count], new(cursorOf(list[count-1])), nil
}

// leasedAfter returns the semaphores behind after that have leases, of the one that is asked for, or of some of all, and where
// to go on.
func (s *Server) leasedAfter(ctx context.Context, f *leaseFilter, after string) (names []string, next string, err error) {
	if f.semaphore != "" {
		if f.semaphore > after && f.who.sees(f.semaphore) {
			names = []string{f.semaphore}
		}
		return names, "", nil
	}
	list, next, err := s.engine.Semaphores(ctx, "", after, findSemaphores)
	for _, sem := range list {
		if (sem.Status.Leases > 0 || sem.Status.Cooling > 0) && f.who.sees(sem.Name) {
			names = append(names, sem.Name)
		}
	}
	return names, next, err
}

// findCursor is a place among the leases of all semaphores: behind a lease, or, where that has no id, behind all of the semaphore.
type findCursor struct {
	semaphore string
	lease     leaseCursor
}

func (c findCursor) String() string { return c.lease.String() + "." + c.semaphore }

// findCursor takes where a page starts; without it the list begins.
func (p *params) findCursor() findCursor {
	if !p.given("after") {
		return findCursor{}
	}
	fence, rest, found := strings.Cut(p.text("after", engine.NameMax+capabilityMax), ".")
	id, name, foundToo := strings.Cut(rest, ".")
	n, ok := parseInteger(fence)
	if !found || !foundToo || !ok || name == "" {
		p.fail("after", "must be the next of an earlier page")
	}
	return findCursor{name, leaseCursor{n, id}}
}
