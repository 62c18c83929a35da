package localnode_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// former is a coordinator that knows one node and has formed it.
type former struct {
	node   *localnode.Node
	header *engine.Header
	start  time.Time
}

// form opens a node and makes it a cluster of its own, with one semaphore.
func form(t testing.TB, cfg localnode.Config, limit int) *former {
	t.Helper()
	node, err := localnode.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	f := &former{node: node, header: &engine.Header{}, start: time.Now()}
	probed := make(chan engine.Probe, 100)
	node.Start("replica", func() time.Duration { return time.Since(f.start) }, events{probed})
	first := <-probed
	if first.Record == nil {
		token := engine.Ballot{Counter: 1, Replica: "replica"}
		f.says(t, &engine.Freeze{Token: token, RunID: first.RunID}, engine.SaysDone)
		f.says(t, &engine.Load{Token: token, RunID: first.RunID, Cluster: "c", N: 1, Known: []int64{1}}, engine.SaysDone)
		f.says(t, &engine.Commit{Token: token, RunID: first.RunID}, engine.SaysDone)
	}
	f.header = &engine.Header{Cluster: "c", Known: []int64{1}}
	peek := f.do(&engine.Peek{Kind: engine.RegisterSemaphore, Name: "db"})
	if peek.Definition == (engine.Ballot{}) {
		f.says(t, &engine.Accept{
			Kind: engine.RegisterSemaphore, Name: "db", Ballot: engine.Ballot{Counter: 1}, Value: engine.Value{Limit: limit},
		}, engine.SaysAccepted)
	}
	return f
}

// do sends an operation and waits for its answer.
func (f *former) do(op engine.Op) *engine.Answer {
	answered := make(chan *engine.Answer, 1)
	f.node.Send(&engine.Call{Header: f.header, Op: op, Done: func(a *engine.Answer) { answered <- a }})
	return <-answered
}

// says sends an operation and fails the test unless it is answered so.
func (f *former) says(t testing.TB, op engine.Op, want engine.Says) *engine.Answer {
	t.Helper()
	a := f.do(op)
	if a.Err != nil || a.Says != want {
		t.Fatalf("%s: says %q, error %v; want %q", engine.OpName(op), a.Says, a.Err, want)
	}
	return a
}

// events hears how a node is.
type events struct{ probed chan engine.Probe }

func (e events) Probed(p engine.Probe, _ bool) {
	select {
	case e.probed <- p:
	default:
	}
}
func (events) Down(error)        {}
func (events) Woken(engine.Wake) {}

func claimOf(lease string, ttl time.Duration) *engine.Claim {
	return &engine.Claim{
		Semaphore: "db", Lease: lease, By: "attempt of " + lease, Owner: engine.Owner{Nonce: "owner of " + lease},
		Info: `{"holder":"bench","principal":"","address":"127.0.0.1:40000","via":"http"}`, Weight: 1, TTL: ttl,
	}
}

func releaseOf(lease string) *engine.Release {
	return &engine.Release{
		Semaphore: "db", Lease: lease, By: "attempt of " + lease, Owner: engine.Owner{Nonce: "owner of " + lease}, Why: engine.WhyReleased,
	}
}

func BenchmarkClaimAndReleaseOnState(b *testing.B) {
	for _, limit := range []int{1, 100, 1_000_000} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			s := localnode.NewState()
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
			apply(&engine.Accept{Kind: engine.RegisterSemaphore, Name: "db", Ballot: engine.Ballot{Counter: 1}, Value: engine.Value{Limit: limit}})
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				now += 100 // so that tombstones come and go as they do at 10,000 pairs a second
				lease := fmt.Sprintf("%016d", n)
				if a := apply(claimOf(lease, 30*time.Second)); a.Says != engine.SaysGranted {
					b.Fatal(a.Says)
				}
				apply(releaseOf(lease))
			}
		})
	}
}

func BenchmarkClaimAndReleaseOfManyCallers(b *testing.B) {
	for _, callers := range []int{1, 50} {
		for _, dir := range []string{localnode.Memory, "disk"} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, dir), func(b *testing.B) {
				cfg := localnode.Config{Dir: dir}
				if dir == "disk" {
					cfg.Dir = b.TempDir()
				}
				f := form(b, cfg, 100)
				b.ReportAllocs()
				pairs := make(chan int)
				var callersDone sync.WaitGroup
				for range callers {
					callersDone.Go(func() {
						for n := range pairs {
							lease := fmt.Sprintf("%016d", n)
							f.says(b, claimOf(lease, 30*time.Second), engine.SaysGranted)
							f.says(b, releaseOf(lease), engine.SaysReleased)
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
