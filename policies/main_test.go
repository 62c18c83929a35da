package policies

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	CompileIfAsked()
	probeIfAsked()
	goleak.VerifyTestMain(m)
}
