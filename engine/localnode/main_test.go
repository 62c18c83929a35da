package localnode

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir) // until it is killed
	}
	goleak.VerifyTestMain(m)
}
