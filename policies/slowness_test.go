//go:build !race

package policies

const slowness = 1

// usualEngine is that of tests that do not name one.
const usualEngine = Compiler
