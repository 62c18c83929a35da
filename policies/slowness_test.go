//go:build !race

package policies

const slowness = 1
