package server

import (
	"encoding/json"

	"github.com/permitd/permitd/engine"
)

// frame is something to tell a client. It is encoded by the writer: events come with locks of the engine held.
type frame interface {
	appendTo(b []byte) []byte
}

// grantedFrame tells a grant.
type grantedFrame struct {
	ref      string
	attached bool
	lease    engine.Lease
}

func (f *grantedFrame) appendTo(b []byte) []byte {
	b = append(b, `{"type":"granted",`...)
	if f.ref != "" { // a hold stream has none
		b = append(appendText(append(b, `"ref":`...), f.ref), ',')
	}
	if f.attached {
		b = append(b, `"attached":true,`...)
	}
	return append(appendLease(b, &f.lease), '}')
}

// releasedFrame answers a release.
type releasedFrame struct {
	ref      string
	released engine.Released
}

func (f *releasedFrame) appendTo(b []byte) []byte {
	b = appendText(append(b, `{"type":"released","ref":`...), f.ref)
	return append(appendReleased(append(b, ','), &f.released), '}')
}

// jsonFrame is any frame that is not sent with every grant.
type jsonFrame struct{ v any }

func (f jsonFrame) appendTo(b []byte) []byte {
	text, _ := json.Marshal(f.v) // of strings and numbers: it cannot fail
	return append(b, text...)
}

type plainFrame struct {
	Type string `json:"type"`
	Ref  string `json:"ref,omitempty"`
}

type waitingFrame struct {
	Type  string `json:"type"`
	Ref   string `json:"ref,omitempty"`
	Ahead int    `json:"ahead"`
}

// refusedFrame is a problem as REST has it, but for its type: the frame's own stands there.
type refusedFrame struct {
	Type string `json:"type"`
	Ref  string `json:"ref,omitempty"`
	*problem
}

// errorFrame answers what cannot be tied to a request; the connection stays.
type errorFrame struct {
	Type   string `json:"type"`
	Ref    string `json:"ref,omitempty"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

type renewedFrame struct {
	Type   string    `json:"type"`
	Ref    string    `json:"ref,omitempty"`
	Leases []renewal `json:"leases"`
}

type cancelledFrame struct {
	Type string `json:"type"`
	Ref  string `json:"ref"`
	Of   string `json:"of"`
	Was  string `json:"was"`
}

type expiringFrame struct {
	Type       string `json:"type"`
	ID         string `json:"id"`
	ValidityMS int64  `json:"validity_ms"`
	Reason     string `json:"reason"`
}

type lostFrame struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Semaphore string `json:"semaphore"`
	Reason    string `json:"reason"`
}

type drainingFrame struct {
	Type             string `json:"type"`
	ReconnectAfterMS int64  `json:"reconnect_after_ms"`
}

// welcome is the first frame: who serves, who the client is to it, and how much it may ask.
type welcome struct {
	Type      string        `json:"type"`
	Version   string        `json:"version"`
	Replica   string        `json:"replica"`
	Principal string        `json:"principal"`
	Scopes    []string      `json:"scopes"`
	AliveMS   int64         `json:"alive_ms"`
	Limits    channelLimits `json:"limits"`
}

type channelLimits struct {
	FrameBytes int   `json:"frame_bytes"`
	Requests   int   `json:"requests"` // leases and waiters
	Watches    int   `json:"watches"`
	WaitMS     int64 `json:"wait_ms"`
}

func welcomeFrame(c *channel) frame {
	who := c.who.Load()
	return jsonFrame{welcome{
		Type: "welcome", Version: c.server.cfg.Version, Replica: c.server.engine.Replica(),
		Principal: who.name, Scopes: who.scopes, AliveMS: aliveAfter.Milliseconds(),
		Limits: channelLimits{FrameBytes: frameMax, Requests: channelRequestsMax, Watches: watchesMax, WaitMS: engine.WaitMaxChannel.Milliseconds()},
	}}
}

func refused(ref string, err error) frame {
	return jsonFrame{refusedFrame{Type: "refused", Ref: ref, problem: problemOf(err)}}
}
