//go:build !race

package server

// stormHolders come back, or are served, at once.
const stormHolders = 5000
