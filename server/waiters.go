package server

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// waitersJSON is who waits at this replica, in order, and how many at others.
type waitersJSON struct {
	Replica string        `json:"replica"`
	Items   []waiterJSON  `json:"items"`
	Others  []replicaJSON `json:"others"`
}

// waiterJSON is a request in line.
type waiterJSON struct {
	ID        string `json:"id"` // of the lease that it would get
	Holder    string `json:"holder"`
	Principal string `json:"principal,omitempty"`
	Address   string `json:"address,omitempty"`
	Via       string `json:"via,omitempty"`
	Weight    int    `json:"weight"`
	Priority  int    `json:"priority"`
	WaitingMS int64  `json:"waiting_ms"`
	Present   bool   `json:"present"` // whoever asked is there
}

// replicaJSON is the line at another replica.
type replicaJSON struct {
	Replica      string `json:"replica"`
	Waiting      int    `json:"waiting"`
	OldestWaitMS int64  `json:"oldest_wait_ms"`
}

// listWaiters lists who waits for a semaphore. In text/plain a line has id, holder, weight, priority and the wait in ms.
//
//	@Summary	List who waits
//	@ID			list-waiters
//	@Tags		semaphores
//	@Param		name	path	string	true	"Name, escaped once; - where ?name= has it"
//	@Param		count	query	int		false	"At most so many of this replica, 1 to 1000"
//	@Produce	json,plain
//	@Success	200		{object}	waitersJSON
//	@Failure	404		{object}	problem	"unknown_semaphore"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/semaphores/{name}/waiters [get]
func (s *Server) listWaiters(c echo.Context, who *principal) error {
	p, name, err := s.begin(c, who)
	if err != nil {
		return err
	}
	count := p.integer("count", pageUsual, 1, pageMax)
	if err := p.end(); err != nil {
		return err
	}
	here, elsewhere, err := s.engine.Waiters(c.Request().Context(), name, count)
	if err != nil {
		return err
	}
	if wantsText(c.Request()) {
		rows := make([][]string, len(here))
		for i, w := range here {
			rows[i] = []string{
				w.ID, w.Holder, strconv.Itoa(w.Weight), strconv.Itoa(w.Priority), strconv.FormatInt(w.Waiting.Milliseconds(), 10),
			}
		}
		return answerText(c, http.StatusOK, columns(rows))
	}
	page := waitersJSON{Replica: s.engine.Replica(), Items: make([]waiterJSON, len(here)), Others: make([]replicaJSON, len(elsewhere))}
	for i, w := range here {
		page.Items[i] = waiterOf(w)
	}
	for i, o := range elsewhere {
		page.Others[i] = replicaJSON{Replica: o.Replica, Waiting: o.Waiting, OldestWaitMS: o.OldestWait.Milliseconds()}
	}
	return answerJSON(c, http.StatusOK, page)
}

func waiterOf(w engine.WaiterInfo) waiterJSON {
	return waiterJSON{
		ID: w.ID, Holder: w.Holder, Principal: w.Principal, Address: w.Address, Via: w.Via, Weight: w.Weight, Priority: w.Priority,
		WaitingMS: w.Waiting.Milliseconds(), Present: !w.Away,
	}
}
