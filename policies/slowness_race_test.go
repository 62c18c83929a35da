//go:build race

package policies

// slowness is by how much the race detector stretches what is measured by the wall.
const slowness = 5
