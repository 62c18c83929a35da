//go:build !race

package server

// stormHolders come back at once.
const stormHolders = 5000
