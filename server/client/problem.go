package client

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Problem is what a server answers instead of doing what it was asked. Kind is stable: programs may rely on it.
type Problem struct {
	Status      int           `json:"status"`
	Kind        string        `json:"kind"`
	Title       string        `json:"title"`
	Detail      string        `json:"detail"`
	Field       string        `json:"field"`
	Limit       int           `json:"limit"`
	Requested   int           `json:"requested"`
	Weight      int           `json:"weight"`
	InUse       int           `json:"in_use"`
	Waiting     int           `json:"waiting"`
	Ahead       int           `json:"ahead"`
	PlaceKeptMS int64         `json:"place_kept_ms"` // for so long Ask.Key resumes the place at this replica
	Ticket      string        `json:"ticket"`        // for Ask.Ticket
	RequestID   string        `json:"request_id"`
	RetryAfter  time.Duration `json:"-"` // 0: none was told
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Kind
	}
	return p.Kind + ": " + p.Detail
}

// Kinds that programs most often ask for.
const (
	NoPermit     = "no_permit"
	LeaseExpired = "lease_expired"
	Draining     = "draining"
)

// problemOf reads a problem. What is none, from a proxy for example, gets the kind unexpected.
func problemOf(response *http.Response, text []byte) *Problem {
	p := &Problem{}
	if json.Unmarshal(text, p) != nil || p.Kind == "" {
		p = &Problem{Kind: "unexpected", Detail: response.Status}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
