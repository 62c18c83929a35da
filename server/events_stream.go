package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

var eventStreamType = []string{"text/event-stream"}

// gap says in a stream that events are missing in it.
type gap struct {
	Type   string `json:"type"`
	Missed int64  `json:"missed,omitempty"` // 0: nobody knows
	Detail string `json:"detail"`
}

// listEvents streams the events of this replica as server-sent events: those that are kept, or those behind Last-Event-ID, and
// then what happens.
//
//	@Summary	What happens at this replica, as server-sent events
//	@ID			events
//	@Tags		cluster
//	@Param		semaphore		query	string	false	"Only of this semaphore"
//	@Param		Last-Event-ID	header	string	false	"Go on behind it"
//	@Produce	text/event-stream
//	@Success	200		{string}	string	"The last 1,000, and then what happens; a gap is said"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/v1/events [get]
func (s *Server) listEvents(c echo.Context, who *principal) error {
	p, err := readParams(c.Request())
	if err != nil {
		return err
	}
	semaphore := p.text("semaphore", engine.NameMax)
	if err := p.end(); err != nil {
		return err
	}
	if semaphore != "" {
		if err := who.mayUse(semaphore); err != nil {
			return err
		}
	}
	r, w := c.Request(), c.Response()
	rc := http.NewResponseController(w.Writer)
	if err := rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errClientLeft
	}
	h := w.Header()
	h["Content-Type"] = eventStreamType
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	st := eventStream{s: s, who: who, semaphore: semaphore, send: func(b []byte) error {
		if err := rc.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		return rc.Flush()
	}}
	return st.run(r)
}

// eventStream is one who follows the events.
type eventStream struct {
	s         *Server
	who       *principal
	semaphore string // "": all
	send      func([]byte) error
	last      int64 // number of the event that was sent
}

func (st *eventStream) run(r *http.Request) error {
	b := st.resume(r.Header.Get("Last-Event-ID"))
	alive := time.NewTicker(aliveAfter)
	defer alive.Stop()
	var tokens <-chan struct{}
	if st.s.cfg.Tokens != nil {
		tokens = st.s.cfg.Tokens.changes()
	}
	for {
		list, missed, changed := st.s.events.after(st.last)
		b = st.append(b, list, missed)
		if len(b) > 0 && st.send(b) != nil {
			return errClientLeft
		}
		b = b[:0]
		select {
		case <-changed:
		case <-alive.C:
			b = append(b, ": alive\n\n"...)
		case <-tokens:
			tokens = st.s.cfg.Tokens.changes()
			if st.who = st.s.cfg.Tokens.withHash(st.who.hash); st.who == nil || st.who.may(scopeRead) != nil {
				return nil
			}
		case <-st.s.leaving:
			return nil
		case <-r.Context().Done():
			return errClientLeft
		}
	}
}

// resume starts behind the event with this id; where that is not known any more it says so and starts with what is kept.
func (st *eventStream) resume(id string) (b []byte) {
	b = append(b, ": events of "+st.s.events.replica+"\n\n"...) // a proxy passes on a header with the first byte behind it
	if id == "" {
		_, missed, _ := st.s.events.after(0)
		st.last = missed // nobody misses what was before
		return b
	}
	number, ok := st.s.events.number(id)
	if !ok {
		b = appendGap(b, 0, "Last-Event-ID is of another replica, or of before a restart")
		_, number, _ = st.s.events.after(0)
	}
	st.last = number
	return b
}

func (st *eventStream) append(b []byte, list []event, missed int64) []byte {
	if missed > 0 {
		b = appendGap(b, missed, fmt.Sprintf("the last %d events are kept", eventsMax))
	}
	for i := range list {
		v := &list[i]
		st.last = v.number
		if st.semaphore != "" && v.Semaphore != st.semaphore || !st.who.sees(v.Semaphore) {
			continue
		}
		text, _ := json.Marshal(v) // of strings and numbers: it cannot fail
		b = fmt.Appendf(b, "id: %s\ndata: %s\n\n", v.ID, text)
	}
	return b
}

func appendGap(b []byte, missed int64, detail string) []byte {
	text, _ := json.Marshal(gap{"gap", missed, detail}) // as above
	return fmt.Appendf(b, "data: %s\n\n", text)
}
