//go:build !linux || race

package policies

// limitChild does nothing where there are no such limits, and under the race detector, which reserves terabytes of addresses:
// the time by the wall still bounds the child.
func limitChild() error { return nil }
