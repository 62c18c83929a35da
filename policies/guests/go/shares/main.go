//go:build wasip1

// Fair share per tenant. The configuration is a table of shares in percent, and what happens beyond them:
//
//	attribute tenant
//	acme 50
//	* 10
//	over deny
//
// A tenant that asks for more than its share of what is available is denied, or with "over priority -20" goes later. * is for all
// other tenants, and for requests of none; without such a line those have no limit.
package main

import (
	"fmt"
	"strings"

	"github.com/permitd/permitd/policies/guests/go/permitd"
	"github.com/permitd/permitd/policies/guests/go/table"
)

var (
	shares   table.Table
	priority int // 0: deny
)

func main() {}

//go:wasmexport configure
func configure() int32 {
	var err error
	if shares, err = table.Parse(permitd.Config(), readOver); err != nil {
		permitd.Log(permitd.Error, err.Error())
		return 1
	}
	return 0
}

// readOver reads over deny, or over priority -20.
func readOver(words []string) (taken bool, err error) {
	if words[0] != "over" {
		return false, nil
	}
	if len(words) == 2 && words[1] == "deny" {
		return true, nil
	}
	if len(words) == 3 && words[1] == "priority" && strings.HasPrefix(words[2], "-") {
		if n, err := table.Number(words[2][1:]); err == nil && n >= 1 && n <= 100 {
			priority = -n
			return true, nil
		}
	}
	return false, fmt.Errorf("not: over deny, nor: over priority -1 … -100")
}

//go:wasmexport evaluate
func evaluate(requested, limit, available, waiting int64) int64 {
	tenant, _ := permitd.Attribute(shares.Attribute)
	share, there := shares.Find(tenant)
	if !there || 100*requested <= int64(share)*available {
		return permitd.NoOpinion
	}
	if priority == 0 {
		return permitd.Deny("more than its share of what is available")
	}
	permitd.SetPriority(priority)
	return permitd.NoOpinion
}
