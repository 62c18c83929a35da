package localnode

import (
	"fmt"
	"sync"
	"testing"

	"github.com/permitd/permitd/engine"
)

func BenchmarkClaimAndReleaseOnState(b *testing.B) {
	for _, limit := range []int{1, 100, 1_000_000} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			s := NewState()
			header := &engine.Header{Cluster: "c", Known: []int64{1}}
			now := int64(1e9)
			apply := func(op engine.Op) *engine.Answer {
				now++
				a, _ := s.Apply(now, header, now, engine.Placement{}, op)
				return a
			}
			apply(&engine.Freeze{Token: engine.Ballot{Counter: 1}})
			apply(&engine.Load{Token: engine.Ballot{Counter: 1}, Cluster: "c", N: 1, Known: []int64{1}})
			apply(&engine.Commit{Token: engine.Ballot{Counter: 1}})
			apply(&engine.Accept{Kind: engine.RegisterSemaphore, Name: db, Ballot: engine.Ballot{Counter: 1}, Value: engine.Value{Limit: limit}})
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				now += 100 // so that tombstones come and go as they do at 10,000 pairs a second
				lease := fmt.Sprintf("%016d", n)
				if a := apply(claimOf(lease, lease)); a.Says != engine.SaysGranted {
					b.Fatal(a.Says)
				}
				apply(releaseOf(lease, lease, engine.WhyReleased))
			}
		})
	}
}

func BenchmarkClaimAndReleaseOfManyCallers(b *testing.B) {
	for _, callers := range []int{1, 50} {
		for _, dir := range []string{Memory, "disk"} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, dir), func(b *testing.B) {
				cfg := Config{Dir: dir}
				if dir == "disk" {
					cfg.Dir = b.TempDir()
				}
				f := openAs(b, cfg, engine.Value{Limit: 100})
				b.ReportAllocs()
				pairs := make(chan int)
				var callersDone sync.WaitGroup
				for range callers {
					callersDone.Go(func() {
						for n := range pairs {
							lease := fmt.Sprintf("%016d", n)
							f.says(b, claimOf(lease, lease), engine.SaysGranted)
							f.says(b, releaseOf(lease, lease, engine.WhyReleased), engine.SaysReleased)
						}
					})
				}
				n := 0
				for b.Loop() {
					n++
					pairs <- n
				}
				close(pairs)
				callersDone.Wait()
			})
		}
	}
}
