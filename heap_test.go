//go:build unix

package main

import (
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

func TestTheHeapMayGrowToItsUsualSizeOrByHalf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inUse uint64
		want  int
	}{
		{0, heapPercentMax},
		{5 << 20, heapPercentMax},
		{32 << 20, 200},
		{48 << 20, 100},
		{60 << 20, 60},
		{95 << 20, heapPercentMin},
		{1 << 30, heapPercentMin},
		{1 << 62, heapPercentMin},
	} {
		if got := heapPercent(c.inUse); got != c.want {
			t.Errorf("with %d bytes in use it may grow by %d %%, want %d %%", c.inUse, got, c.want)
		}
	}
}

// TestTheCollectorIsToldUnlessTheEnvironmentSays is not parallel: it sets the environment.
func TestTheCollectorIsToldUnlessTheEnvironmentSays(t *testing.T) {
	binary := build(t)
	for _, c := range []struct{ gogc, want string }{{"", "400"}, {"123", "123"}} {
		t.Setenv("GOGC", c.gogc)
		_, url := process(t, binary, "--data", ":memory:")
		response, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		if want := "\ngo_gc_gogc_percent " + c.want + "\n"; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("with GOGC=%q the metrics have no line %q, error %v", c.gogc, want, err)
		}
	}
}

// TestTheCollectorIsToldAnewWhenWhatIsInUseHasChanged is not parallel: the heap is the process's.
func TestTheCollectorIsToldAnewWhenWhatIsInUseHasChanged(t *testing.T) {
	(&heapTuner{percent: 100}).tune()
	becomes := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for end := time.Now().Add(20 * time.Second); ; {
			runtime.GC()
			if metrics.Read(percent); ok(percent[0].Value.Uint64()) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s it may grow by %d %%", what, percent[0].Value.Uint64())
			}
		}
	}
	held := make([]byte, 4*heapUsual) // its pages are never touched
	becomes("with much in use", func(percent uint64) bool { return percent == heapPercentMin })
	runtime.KeepAlive(held)
	becomes("with little in use", func(percent uint64) bool { return percent > heapPercentMin })
}
