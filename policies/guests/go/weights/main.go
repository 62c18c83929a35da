//go:build wasip1

// Weight by attribute. The configuration is a table:
//
//	attribute tier
//	gold 1
//	silver 2
//	* 4
//
// A request weighs what it asks for times the number beside its value of the attribute; 0 denies. * is for all other values, and
// for none; without such a line those are as if there were no policy.
package main

import (
	"github.com/permitd/permitd/policies/guests/go/permitd"
	"github.com/permitd/permitd/policies/guests/go/table"
)

var factors table.Table

func main() {}

//go:wasmexport configure
func configure() int32 {
	var err error
	if factors, err = table.Parse(permitd.Config(), nil); err != nil {
		permitd.Log(permitd.Error, err.Error())
		return 1
	}
	return 0
}

//go:wasmexport evaluate
func evaluate(requested, limit, available, waiting int64) int64 {
	value, _ := permitd.Attribute(factors.Attribute)
	factor, there := factors.Find(value)
	switch {
	case !there:
		return permitd.NoOpinion
	case factor == 0:
		return permitd.Deny("not admitted")
	}
	return int64(factor) * requested
}
