package policies

import (
	"fmt"
	"strconv"
)

// Stage is the step of the upload at which a module was refused, from cheap to dear.
type Stage string

// The stages, in their order.
const (
	StageSize        Stage = "size"
	StageHeader      Stage = "header"
	StageSections    Stage = "sections"
	StageLimits      Stage = "limits"
	StageMemory      Stage = "memory"
	StageImports     Stage = "imports"
	StageExports     Stage = "exports"
	StageCompile     Stage = "compile"
	StageInstantiate Stage = "instantiate"
	StageEvaluate    Stage = "evaluate"
)

// Refusal says why a module was not taken: at which stage, what it had, what was wanted, and what its author may do. Its
// texts are safe to show to whoever uploaded the module.
type Refusal struct {
	Stage Stage  `json:"stage"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	Hint  string `json:"hint,omitempty"`
}

func (r *Refusal) Error() string {
	s := fmt.Sprintf("%s: got %s, want %s", r.Stage, r.Got, r.Want)
	if r.Hint != "" {
		s += " (" + r.Hint + ")"
	}
	return s
}

// Kind is the stable name of the refusal: too_large or invalid_module.
func (r *Refusal) Kind() string {
	if r.Stage == StageSize {
		return "too_large"
	}
	return "invalid_module"
}

// quote shows a module's own words, bounded.
func quote(s string) string { return strconv.Quote(bounded([]byte(s), descriptorMax)) }
