package policies

import (
	"time"
)

// Outcome is what a module answered.
type Outcome string

// The outcomes.
const (
	OutcomeAllow Outcome = "allow" // with a weight
	OutcomeDeny  Outcome = "deny"
	OutcomeNone  Outcome = "none" // no opinion: the weight is what was requested
	OutcomeFault Outcome = "fault"
)

var outcomes = [...]Outcome{OutcomeAllow, OutcomeDeny, OutcomeNone, OutcomeFault}

// Act is what the server has to do.
type Act uint8

// The acts.
const (
	ActAllow       Act = iota // ask for Weight permits
	ActDeny                   // refuse, with Reason; policy_fault where Fault is set
	ActUnavailable            // 503 policy_unavailable
)

// Decision is a policy's word on a request.
type Decision struct {
	Act         Act
	Outcome     Outcome
	Weight      int64 // > 0 with ActAllow; may exceed the limit, which is a refusal of its own
	Reason      string
	Priority    int // if HasPriority, it overrides the request's
	HasPriority bool
	TTL         time.Duration // > 0 overrides the request's
	Fault       *Fault        // of OutcomeFault
	Logs        []LogLine
	Elapsed     time.Duration // in the module
	Policy      string
	Generation  int64  // of the version that decided; 0: none did
	SHA256      string // likewise
}

// answered makes a decision of what evaluate returned and what the module set.
func (c *call) answered(answer int64) Decision {
	d := Decision{Outcome: OutcomeAllow, Weight: answer, Reason: c.said.reason, TTL: c.said.ttl, Logs: c.said.logs}
	if c.said.hasPriority {
		d.Priority, d.HasPriority = int(c.said.priority), true
	}
	switch answer {
	case answerNone:
		d.Outcome, d.Weight = OutcomeNone, c.request.Requested
	case answerDeny:
		d.Outcome, d.Act, d.Weight = OutcomeDeny, ActDeny, 0
	}
	return d
}

// faulted makes a decision of a fault: what the module set is dropped, and the binding says what happens.
func faulted(f *Fault, onFault OnFault, r *Request) Decision {
	d := Decision{Outcome: OutcomeFault, Fault: f}
	switch onFault {
	case OnFaultAllowRequested:
		d.Weight = r.Requested
	case OnFaultUnavailable:
		d.Act = ActUnavailable
	default:
		d.Act = ActDeny
	}
	return d
}

// Evaluation is a decision as people and programs are told it.
type Evaluation struct {
	Decision   Outcome   `json:"decision"`
	Weight     int64     `json:"weight,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Priority   *int      `json:"priority,omitempty"`
	TTLMS      int64     `json:"ttl_ms,omitempty"`
	Fault      *Fault    `json:"fault,omitempty"`
	Logs       []LogLine `json:"logs,omitempty"`
	EvaluateNS int64     `json:"evaluate_ns"`
	Generation int64     `json:"generation,omitempty"`
	SHA256     string    `json:"sha256,omitempty"`
}

// Told is the decision for people and programs.
func (d *Decision) Told() Evaluation {
	e := Evaluation{
		Decision: d.Outcome, Weight: d.Weight, Reason: d.Reason, TTLMS: d.TTL.Milliseconds(), Fault: d.Fault, Logs: d.Logs,
		EvaluateNS: d.Elapsed.Nanoseconds(), Generation: d.Generation, SHA256: d.SHA256,
	}
	if d.HasPriority {
		e.Priority = &d.Priority
	}
	return e
}
