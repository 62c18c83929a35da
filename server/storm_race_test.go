//go:build race

package server

// stormHolders come back, or are served, at once; under the race detector each takes ten times as long.
const stormHolders = 500
