package enginetest

import (
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// Subject is a node that the contract is tried on: blank, alone, and not started.
type Subject struct {
	Node engine.Node

	// Advance moves the node's clock forward, at once. Nil when that cannot be done: then what must pass is waited for.
	Advance func(time.Duration)
}

// rule is one test of the contract; its name is the rule as a sentence.
type rule struct {
	name string
	try  func(*contract)
}

// ruleGroup is the rules about one thing.
type ruleGroup struct {
	name  string
	rules []rule
}

// Contract tries every rule of engine/node.go that one node can show by itself, each on a subject of its own, those about
// long times and large numbers aside (ContractOfTime, ContractOfBulk). What only a readmission makes (copies, two leases on one slot) is left to the tests of
// readmission.
func Contract(t *testing.T, open func(*testing.T) Subject) {
	tryRules(t, open, []ruleGroup{
		{"forming", formingRules},
		{"header", headerRules},
		{"claim", claimRules},
		{"claim order", claimOrderRules},
		{"mend", mendRules},
		{"mend of a retry", retryRules},
		{"renew", renewRules},
		{"release", releaseRules},
		{"cooling", coolingRules},
		{"attach", attachRules},
		{"line", lineRules},
		{"wake", wakeRules},
		{"registers", registerRules},
		{"blobs", blobRules},
		{"changes", changeRules},
		{"reading", readingRules},
		{"ends", endRules},
	})
}

// ContractOfBulk tries the rules about thousands of leases: on subjects that take a claim in a millisecond.
func ContractOfBulk(t *testing.T, open func(*testing.T) Subject) {
	tryRules(t, open, []ruleGroup{{"bulk", bulkRules}})
}

// ContractOfTime tries the rules that need more time than anybody waits for, on subjects whose clock can be moved.
func ContractOfTime(t *testing.T, open func(*testing.T) Subject) {
	tryRules(t, open, []ruleGroup{
		{"tombstones", tombstoneTimeRules},
		{"cooling", coolingTimeRules},
		{"header", headerTimeRules},
		{"ends", endTimeRules},
	})
}

func tryRules(t *testing.T, open func(*testing.T) Subject, groups []ruleGroup) {
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, rule := range group.rules {
				t.Run(rule.name, func(t *testing.T) {
					t.Parallel()
					rule.try(newContract(t, open(t)))
				})
			}
		})
	}
}
