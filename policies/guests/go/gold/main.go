//go:build wasip1

// Gold clients go first at face value. Others are denied when less than a quarter is free, else weigh double and get 5 s.
package main

import (
	"time"

	"github.com/permitd/permitd/policies/guests/go/permitd"
)

func main() {}

//go:wasmexport evaluate
func evaluate(requested, limit, available, waiting int64) int64 {
	if tier, _ := permitd.Attribute("tier"); tier == "gold" {
		permitd.SetPriority(10)
		return requested
	}
	if 4*available < limit {
		return permitd.Deny("less than a quarter is free")
	}
	permitd.SetTTL(5 * time.Second)
	return 2 * requested
}
