//go:build !linux

package policies

// probeIfAsked does nothing where machine code can not be forbidden.
func probeIfAsked() {}
