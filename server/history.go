package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

const (
	historyEvery  = 5 * time.Second
	historyLength = 180  // samples: 15 minutes
	historyMax    = 1000 // semaphores; it takes that many views in 5 s, and about 10 MB
	sampleTimeMax = 2 * time.Second
)

// sample is a semaphore at an instant, and what happened in the 5 s before.
type sample struct {
	at                    time.Time
	inUse, limit, waiting int
	oldestWait            time.Duration
	grants, refusals      int
}

// past is the history of one semaphore.
type past struct {
	samples          []sample // the oldest first
	grants, refusals int      // since the last sample
	used             time.Time
}

// history remembers the last minutes of the semaphores that this replica was asked for lately.
type history struct {
	mu   sync.Mutex // guards what follows
	past map[string]*past
}

// of returns the past of a semaphore, which begins now if it has none; nil if there are too many. mu is held.
func (h *history) of(semaphore string) *past {
	p := h.past[semaphore]
	if p == nil && len(h.past) < historyMax {
		if h.past == nil {
			h.past = map[string]*past{}
		}
		p = &past{}
		h.past[semaphore] = p
	}
	if p != nil {
		p.used = time.Now()
	}
	return p
}

// count counts a grant or a refusal. It never blocks and may be called under locks of the engine.
func (h *history) count(semaphore string, granted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(semaphore)
	switch {
	case p == nil:
	case granted:
		p.grants++
	default:
		p.refusals++
	}
}

// names returns whom to sample, and forgets whom nobody has asked for in all the time that is remembered.
func (h *history) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.past))
	for name, p := range h.past {
		if time.Since(p.used) > historyEvery*historyLength {
			delete(h.past, name)
			continue
		}
		names = append(names, name)
	}
	return names
}

// add takes in a sample; a nil one says that there is no such semaphore.
func (h *history) add(semaphore string, s *engine.Semaphore) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.past[semaphore]
	if p == nil {
		return
	}
	if s == nil {
		delete(h.past, semaphore)
		return
	}
	if len(p.samples) == historyLength {
		p.samples = p.samples[:copy(p.samples, p.samples[1:])]
	}
	p.samples = append(p.samples, sample{
		at: time.Now(), inUse: s.Status.InUse, limit: s.Definition.Limit, waiting: s.Status.Waiting, oldestWait: s.Status.OldestWait,
		grants: p.grants, refusals: p.refusals,
	})
	p.grants, p.refusals = 0, 0
}

// followSemaphores takes samples until the server stops.
func (s *Server) followSemaphores() {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stopped:
			return
		}
		for _, name := range s.history.names() {
			_ = s.sample(context.Background(), name) // without a quorum there is nothing to remember
		}
	}
}

// sample takes one sample.
func (s *Server) sample(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeMax)
	defer cancel()
	sem, err := s.engine.Semaphore(ctx, name)
	switch {
	case err == nil:
		s.history.add(name, &sem)
	case errors.Is(err, engine.ErrUnknownSemaphore):
		s.history.add(name, nil)
	}
	return err
}

// historyJSON is the last 15 minutes of a semaphore, a column for each number. Grants and refusals are those of this replica
// in the 5 s before.
type historyJSON struct {
	Semaphore    string   `json:"semaphore"`
	At           []string `json:"at"`
	InUse        []int    `json:"in_use"`
	Limit        []int    `json:"limit"`
	Waiting      []int    `json:"waiting"`
	OldestWaitMS []int64  `json:"oldest_wait_ms"`
	Grants       []int    `json:"grants"`
	Refusals     []int    `json:"refusals"`
}

// showHistory tells the last minutes of a semaphore. One that was not asked for lately has a history from now on.
//
//	@Summary	The last 15 minutes of a semaphore, every 5 s
//	@ID			history
//	@Tags		cluster
//	@Param		semaphore	query	string	true	"Its name"
//	@Produce	json
//	@Success	200		{object}	historyJSON
//	@Failure	404		{object}	problem	"unknown_semaphore"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/history [get]
func (s *Server) showHistory(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	name := p.text("semaphore", engine.NameMax)
	if err := firstError(p.end(), checkName("semaphore", name), who.mayUse(name)); err != nil {
		return err
	}
	if !s.history.begun(name) {
		if err := s.sample(c.Request().Context(), name); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, s.history.table(name))
}

// begun reports whether a semaphore has a sample. It is remembered from now on.
func (h *history) begun(semaphore string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(semaphore)
	return p != nil && len(p.samples) > 0
}

func (h *history) table(semaphore string) historyJSON {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := historyJSON{
		Semaphore: semaphore, At: []string{}, InUse: []int{}, Limit: []int{}, Waiting: []int{}, OldestWaitMS: []int64{}, Grants: []int{}, Refusals: []int{},
	}
	p := h.past[semaphore]
	if p == nil {
		return t
	}
	for _, s := range p.samples {
		t.At = append(t.At, formatTime(s.at))
		t.InUse, t.Limit, t.Waiting = append(t.InUse, s.inUse), append(t.Limit, s.limit), append(t.Waiting, s.waiting)
		t.OldestWaitMS = append(t.OldestWaitMS, s.oldestWait.Milliseconds())
		t.Grants, t.Refusals = append(t.Grants, s.grants), append(t.Refusals, s.refusals)
	}
	return t
}
