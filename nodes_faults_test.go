//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/server/client"
)

// monitored lets n clients take the permits of a semaphore and give them back, until ctx ends, and counts how many were held at once, by
// what the clients were told.
type monitored struct {
	ttl                time.Duration
	held, most, grants atomic.Int64
	clients            sync.WaitGroup
}

func (m *monitored) run(ctx context.Context, urls []string, n, limit int) {
	for i := range n {
		m.clients.Go(func() {
			c, err := client.New(client.Config{URL: urls[i%len(urls)]})
			if err != nil {
				return
			}
			defer c.Close()
			for ctx.Err() == nil {
				l, err := c.Acquire(ctx, "db", client.Ask{Wait: time.Second, TTL: m.ttl, Create: &client.Definition{Limit: limit}})
				if err != nil {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				held := m.held.Add(1)
				for most := m.most.Load(); held > most && !m.most.CompareAndSwap(most, held); most = m.most.Load() {
				}
				m.grants.Add(1)
				time.Sleep(time.Millisecond)
				m.held.Add(-1)
				for range 20 {
					if _, err := c.Release(context.WithoutCancel(ctx), "db", l.Capability, 0); err == nil {
						break
					}
				}
			}
		})
	}
}

// grantsGoOn fails the test unless more grants come.
func (m *monitored) grantsGoOn(t *testing.T) {
	t.Helper()
	before := m.grants.Load()
	eventually(t, "grants go on", func() bool { return m.grants.Load() > before+20 })
}

// voting reports how many nodes vote as a replica sees it.
func voting(r *running) int {
	nodes, err := r.client.Nodes(context.Background())
	if err != nil {
		return 0
	}
	n := 0
	for _, node := range nodes.Items {
		if node.State == "up" {
			n++
		}
	}
	return n
}

// era is that of a node as a replica sees it.
func era(r *running, node int) int64 {
	nodes, err := r.client.Nodes(context.Background())
	if err != nil {
		return 0
	}
	return nodes.Items[node].Era
}

// slow-fsync-kill-9: AOF everysec, fsync stalled 3 s, kill -9, restart -> the node is out until reseeded; nothing granted twice.
func TestScheduleSlowFsyncKill9(t *testing.T) {
	t.Parallel()
	var servers []*redistest.Server
	var shims []*redistest.Shim
	var addresses []string
	for i := range 3 {
		shims = append(shims, redistest.NewShim(t))
		servers = append(servers, redistest.Start(t, redistest.Args("--appendonly", "yes", "--appendfsync", "everysec"), shims[i].Option()))
		addresses = append(addresses, servers[i].Addr())
	}
	r := start(t, "--redis", strings.Join(addresses, ","))
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute, Create: &client.Definition{Limit: 2}})
	if err != nil {
		t.Fatal(err)
	}
	shims[0].SlowSync(3 * time.Second)
	second, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond) // a flush has begun
	if _, err := r.client.Release(t.Context(), "db", second.Capability, 0); err != nil {
		t.Fatal(err)
	}
	third, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	servers[0].Kill()
	shims[0].SlowSync(0)
	servers[0].Restart()
	eventually(t, "the node votes again, in a new era", func() bool {
		if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
			t.Fatalf("while both permits are held: %v", err)
		}
		return voting(r) == 3 && era(r, 0) > 1
	})
	servers[1].Kill() // now the word of the first counts
	for _, l := range []client.Lease{lease, third} {
		if _, err := r.client.Renew(t.Context(), "db", l.Capability, 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
		t.Errorf("with the first and the third: %v", err)
	}
}

// faults.md 35: FLUSHALL on a minority under load -> out, reseeded, never above the limit.
func TestFlushAllOnAMinorityUnderLoad(t *testing.T) {
	t.Parallel()
	servers, nodes := redisNodes(t, 3)
	r, other := start(t, "--redis", nodes), start(t, "--redis", nodes)
	ctx, stop := context.WithCancel(t.Context())
	m := &monitored{ttl: 10 * time.Second}
	m.run(ctx, []string{r.url, other.url}, 8, 3)
	m.grantsGoOn(t)
	for i, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		eventually(t, "the node was readmitted", func() bool { return era(r, i) > 1 && voting(r) == 3 && voting(other) == 3 })
		m.grantsGoOn(t)
	}
	stop()
	m.clients.Wait()
	if most := m.most.Load(); most > 3 {
		t.Errorf("%d of 3 permits were held at once", most)
	}
	eventually(t, "all permits are back", func() bool {
		s, err := r.client.Semaphore(t.Context(), "db")
		return err == nil && s.Status.InUse == 0
	})
}

// faults.md 29: one node's clock jumps an hour -> that node is suspended and comes back, no lease ends early. (The clocks of clients and
// replicas are asked for nothing.)
func TestANodesClockJumpsAnHour(t *testing.T) {
	t.Parallel()
	shim := redistest.NewShim(t)
	addresses := []string{redistest.Start(t, shim.Option()).Addr()}
	for range 2 {
		addresses = append(addresses, redistest.Start(t).Addr())
	}
	r := start(t, "--redis", strings.Join(addresses, ","))
	lease, err := r.client.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute, Create: &client.Definition{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1)
	for _, jump := range []time.Duration{time.Hour, 0} {
		shim.Shift(jump)
		eventually(t, "the node was readmitted", func() bool {
			if _, err := r.client.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
				t.Fatalf("while the permit is held: %v", err)
			}
			return era(r, 0) > at && voting(r) == 3
		})
		at = era(r, 0)
		if _, err := r.client.Renew(t.Context(), "db", lease.Capability, 0); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(r.stderr.String(), "its clock jumped") {
		t.Errorf("it did not say why:\n%s", r.stderr)
	}
}

// faults.md 37: a node with a slow fsync does not slow a majority.
func TestASlowDiskSlowsNoMajority(t *testing.T) {
	t.Parallel()
	const stall = 2 * time.Second
	shim := redistest.NewShim(t)
	addresses := []string{redistest.Start(t, redistest.AOF, shim.Option()).Addr()}
	for range 2 {
		addresses = append(addresses, redistest.Start(t, redistest.AOF).Addr())
	}
	r := start(t, "--redis", strings.Join(addresses, ","))
	if _, err := r.client.Put(t.Context(), "db", client.Definition{Limit: 1}, 0); err != nil {
		t.Fatal(err)
	}
	median := func() time.Duration { // of what acquire and release take
		var took []time.Duration
		for range 40 {
			begin := time.Now()
			l, err := r.client.Acquire(t.Context(), "db", client.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.client.Release(t.Context(), "db", l.Capability, 0); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	usual := median()
	shim.SlowSync(stall)
	slow := median()
	t.Logf("%v, and %v while each write to one of three disks takes %v", usual, slow, stall)
	if slow > 4*usual+stall/40 { // a busy machine takes its time for either
		t.Errorf("acquire and release take %v instead of %v while each write to one of three disks takes %v", slow, usual, stall)
	}
}

// stores are the flags of each kind of store, a new one each.
var stores = map[string]func(t *testing.T) []string{
	"embedded": func(t *testing.T) []string { return []string{"--data", t.TempDir()} },
	"three nodes": func(t *testing.T) []string {
		_, nodes := redisNodes(t, 3)
		return []string{"--redis", nodes}
	},
}

// faults.md 23: a crash between any two writes -> what is in use is what the leases weigh.
func TestWhatIsInUseIsWhatTheLeasesWeighAfterACrash(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for name, flags := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := flags(t)
			for range 4 {
				cmd, url := process(t, binary, args...)
				m := &monitored{ttl: 2 * time.Second} // what the crash leaves behind is soon over
				ctx, stop := context.WithCancel(t.Context())
				m.run(ctx, []string{url}, 8, 5)
				m.grantsGoOn(t)
				_ = cmd.Process.Kill()
				stop()
				m.clients.Wait()
				_ = cmd.Wait()

				cmd, url = process(t, binary, args...)
				c, err := client.New(client.Config{URL: url})
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "in use is the sum of the weights", func() bool {
					s, err := c.Semaphore(t.Context(), "db")
					leases, err2 := c.Leases(t.Context(), "db")
					weights := 0
					for _, l := range leases {
						weights += l.Weight
					}
					return err == nil && err2 == nil && s.Status.InUse == weights && s.Status.InUse+s.Status.Available == 5 && s.Status.InUse <= 5
				})
				c.Close()
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
	}
}

// faults.md 24: kill -9 of permitd with 100 leases -> the same 100 on restart.
func TestAHundredLeasesLiveOnAfterACrash(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for name, flags := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := flags(t)
			cmd, url := process(t, binary, args...)
			before := hundred(t, url)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_, url = process(t, binary, args...)
			c, err := client.New(client.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			eventually(t, "the same hundred", func() bool {
				list, err := c.Leases(t.Context(), "db")
				return err == nil && leasesOf(list) == leasesOf(before)
			})
			if _, err := c.Acquire(t.Context(), "db", client.Ask{Wait: client.NoWait}); !isKind(err, client.NoPermit) {
				t.Errorf("beside the hundred: %v", err)
			}
		})
	}
}

// hundred takes 100 permits, a lease each, and returns their list.
func hundred(t *testing.T, url string) []client.LeaseInfo {
	t.Helper()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 100 {
		if _, err := c.Acquire(t.Context(), "db", client.Ask{TTL: 10 * time.Minute, Create: &client.Definition{Limit: 100}}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.Leases(t.Context(), "db")
	if err != nil || len(list) != 100 {
		t.Fatalf("%d leases, %v", len(list), err)
	}
	return list
}

// leasesOf are leases as what must live on: who has which permits under which fence.
func leasesOf(list []client.LeaseInfo) string {
	var lines []string
	for _, l := range list {
		lines = append(lines, fmt.Sprint(l.ID, " ", l.Slots, " ", l.Fence, " ", l.Holder))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
