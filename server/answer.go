package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Content types, as values of a header map. They are shared: nobody appends to them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	textType    = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
)

// A large answer may be read slowly, but not for ever. Small ones fit into the socket's buffer.
const (
	largeAnswer     = 4 << 10
	largeAnswerTime = 30 * time.Second
)

// answer writes a whole response.
func answer(c echo.Context, status int, contentType []string, body []byte) error {
	w := c.Response()
	if len(body) > largeAnswer {
		_ = http.NewResponseController(w.Writer).SetWriteDeadline(time.Now().Add(largeAnswerTime)) // not supported: no connection
	}
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// answerNow is answer, and tells whether the response could be handed to the connection.
func answerNow(c echo.Context, status int, contentType []string, body []byte) error {
	if err := answer(c, status, contentType, body); err != nil {
		return err
	}
	return http.NewResponseController(c.Response().Writer).Flush()
}

func answerJSON(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return answer(c, status, jsonType, append(body, '\n'))
}

func answerText(c echo.Context, status int, text string) error {
	return answer(c, status, textType, []byte(text))
}

// wantsText reports whether a client asks for text/plain before it asks for JSON.
func wantsText(r *http.Request) bool {
	for _, accept := range r.Header["Accept"] {
		for media := range strings.SplitSeq(accept, ",") {
			media, _, _ = strings.Cut(media, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "text/plain":
				return true
			case "application/json", "application/problem+json":
				return false
			}
		}
	}
	return false
}

// columns writes rows for scripts: fields separated by tabs, no heading. No field has a tab.
func columns(rows [][]string) string {
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(strings.Join(row, "\t"))
		b.WriteByte('\n')
	}
	return b.String()
}
