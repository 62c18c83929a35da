//go:build race

package policies

// slowness is by how much the race detector stretches what is measured by the wall.
const slowness = 5

// usualEngine is that of tests that do not name one. The child that compiles is this program too: under the detector a hundred modules would
// take minutes.
const usualEngine = Interpreter

func init() { startTimeMax *= slowness }
