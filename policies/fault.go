package policies

// FaultKind says what went wrong with an evaluation.
type FaultKind string

// Faults of a module, which count for its breaker, and of the host, which do not.
const (
	FaultBadPointer  FaultKind = "bad_pointer"  // a pointer and length beyond the module's memory
	FaultBadCall     FaultKind = "bad_call"     // an import that may not be called at that time
	FaultTrap        FaultKind = "trap"         // an instruction that failed, or env.abort
	FaultExit        FaultKind = "exit"         // the module ended itself
	FaultTimeout     FaultKind = "timeout"      // not ready by the deadline
	FaultBadResult   FaultKind = "bad_result"   // an answer that means nothing
	FaultOverloaded  FaultKind = "overloaded"   // no instance was free in time
	FaultBreakerOpen FaultKind = "breaker_open" // too many faults of late: not asked
)

// faultKinds are all of them, in the order of metrics.
var faultKinds = [...]FaultKind{
	FaultBadPointer, FaultBadCall, FaultTrap, FaultExit, FaultTimeout, FaultBadResult, FaultOverloaded, FaultBreakerOpen,
}

// Fault is an evaluation that gave no answer. Detail is for whoever wrote the module: bounded, and without any stack.
type Fault struct {
	Kind   FaultKind `json:"kind"`
	Detail string    `json:"detail,omitempty"`
}

func (f *Fault) Error() string {
	if f.Detail == "" {
		return string(f.Kind)
	}
	return string(f.Kind) + ": " + f.Detail
}
