// Package permitd is for policies of permitd that are written in Go:
//
//	//go:build wasip1
//
//	package main
//
//	import "github.com/permitd/permitd/policies/guests/go/permitd"
//
//	func main() {}
//
//	//go:wasmexport evaluate
//	func evaluate(requested, limit, available, waiting int64) int64 {
//		if tier, _ := permitd.Attribute("tier"); tier == "gold" {
//			return requested
//		}
//		return 2 * requested
//	}
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o policy.wasm
//
// evaluate answers the weight, [NoOpinion], or [Deny]. A policy with a configuration may export configure, which answers 0 if the
// configuration is fine; only [Config] and [Log] may be called there, and nothing of this package before.
//
// What is kept in variables is shared by all requests that the same instance serves, unless the binding says isolation: fresh.
// The package is built for GOOS=wasip1 only. TinyGo should do as well, and has not been tried.
package permitd
