package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/server/client"
)

// plan is what is to be played.
type plan struct {
	seed       uint64
	length     time.Duration
	partitions bool // two permits, and nothing but partitions
}

// command plays it again.
func (p plan) command() string {
	text := fmt.Sprintf("go run ./deploy/chaos -seed %d -time %v", p.seed, p.length)
	if p.partitions {
		text += " -partitions"
	}
	return text
}

const (
	nodesUsual    = 3
	replicasUsual = 3
	clientsUsual  = 12
	backTimeMax   = time.Minute // for all permits to be back, once nothing goes wrong any more
)

// world is the processes, and the ways between them.
type world struct {
	out      io.Writer
	start    time.Time
	nodes    []*node
	replicas []*replica
	ways     [][]*proxy // of each replica to each node

	mu     sync.Mutex     // guards what follows
	counts map[string]int // faults by name
}

// node is a redis-server whose clock and disk can be tampered with.
type node struct {
	server *redistest.Server
	shim   *redistest.Shim // nil: there is no C compiler
	ahead  time.Duration
}

// play plays a plan and tells of it. It fails when the history is none that a semaphore could have had, or permits do not come back.
func play(ctx context.Context, t redistest.TB, out io.Writer, p plan) error {
	w := &world{out: out, start: time.Now(), counts: map[string]int{}}
	dir := t.TempDir()
	if err := w.build(t, dir); err != nil {
		return err
	}
	for _, r := range w.replicas {
		if err := r.ready(ctx); err != nil {
			return err
		}
	}
	w.tell("%d nodes, %d replicas, %d clients; seed %d", len(w.nodes), len(w.replicas), clientsUsual, p.seed)
	c := &crowd{
		replicas: w.replicas, history: &history{}, now: func() time.Duration { return time.Since(w.start) },
		semaphores: []semaphore{{"one", 1, 1}, {"two", 2, 1}, {"six", 6, 3}},
	}
	if p.partitions {
		c.semaphores = c.semaphores[1:2]
	}
	w.trouble(ctx, p, c)
	err := w.aftermath(ctx, c)
	w.summary(c.history)
	limits := map[string]int{}
	for _, s := range c.semaphores {
		limits[s.name] = s.limit
	}
	pictures, mkErr := os.MkdirTemp("", "permitd-chaos-found-")
	err = errors.Join(err, mkErr, c.history.check(limits, pictures))
	if err == nil {
		w.tell("the history is one of semaphores, and all permits are back")
		return os.RemoveAll(pictures)
	}
	return errors.Join(err, w.keepLogs(pictures))
}

// build starts nodes and replicas, and a way from each to each.
func (w *world) build(t redistest.TB, dir string) error {
	binary := filepath.Join(dir, "permitd")
	if output, err := exec.Command("go", "build", "-o", binary, "github.com/permitd/permitd").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	if !redistest.HasCompiler() {
		w.tell("there is no C compiler (cc): clocks do not jump and disks do not stall")
	}
	for range nodesUsual {
		n := &node{}
		options := []redistest.Option{redistest.AOF}
		if redistest.HasCompiler() {
			n.shim = redistest.NewShim(t)
			options = append(options, n.shim.Option())
		}
		n.server = redistest.Start(t, options...)
		w.nodes = append(w.nodes, n)
	}
	for i := range replicasUsual {
		var ways []*proxy
		var addresses []string
		for _, n := range w.nodes {
			p := newProxy(t, n.server.Addr())
			ways, addresses = append(ways, p), append(addresses, p.addr())
		}
		w.ways = append(w.ways, ways)
		w.replicas = append(w.replicas, newReplica(t, fmt.Sprintf("r%d", i+1), binary, addresses, dir))
	}
	return nil
}

// trouble lets faults happen while clients work, for as long as the plan says.
func (w *world) trouble(ctx context.Context, p plan, c *crowd) {
	ctx, cancel := context.WithTimeout(ctx, p.length)
	defer cancel()
	var clients sync.WaitGroup
	clients.Go(func() { c.run(ctx, p.seed, clientsUsual) })
	all := partitions
	if !p.partitions {
		all = append(slices.Clone(faults), partitions...)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f fault) bool {
		return w.nodes[0].shim == nil && (f.name == "a clock jumps" || f.name == "a disk stalls")
	})
	w.happen(ctx, rand.New(rand.NewPCG(p.seed, 0)), all)
	clients.Wait()
	w.tell("no more faults")
}

// healed waits until all replicas see all nodes vote, so that the next node may lose its memory.
func (w *world) healed(ctx context.Context) {
	for ctx.Err() == nil {
		up := 0
		for _, r := range w.replicas {
			round, cancel := context.WithTimeout(ctx, time.Second)
			nodes, err := r.client.Nodes(round)
			cancel()
			if err == nil && !slices.ContainsFunc(nodes.Items, func(n client.Node) bool { return n.State != "up" }) {
				up++
			}
		}
		if up == len(w.replicas) {
			return
		}
		rest(ctx, 100*time.Millisecond)
	}
}

// aftermath waits until all nodes vote, each semaphore grants, and all permits are back.
func (w *world) aftermath(ctx context.Context, c *crowd) error {
	begin := time.Now()
	for _, r := range w.replicas {
		if err := r.ready(ctx); err != nil {
			return err
		}
	}
	w.tell("all nodes vote for all replicas, %.1f s after the last fault", time.Since(begin).Seconds())
	ctx, cancel := context.WithTimeout(ctx, backTimeMax)
	defer cancel()
	for _, s := range c.semaphores {
		for _, r := range w.replicas {
			l, err := r.client.Acquire(ctx, s.name, client.Ask{Permits: s.limit, Wait: backTimeMax / 2, TTL: 5 * time.Second, Create: &client.Definition{Limit: s.limit}})
			if err != nil {
				return fmt.Errorf("all %d of %s, at %s: %w\n%s", s.limit, s.name, r.name, err, w.stateOf(s.name))
			}
			if _, err := r.client.Release(ctx, s.name, l.Capability, 0); err != nil {
				return fmt.Errorf("releasing %s, at %s: %w", s.name, r.name, err)
			}
		}
	}
	for _, s := range c.semaphores {
		for _, r := range w.replicas {
			if err := back(ctx, r, s.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// stateOf is what each replica says of a semaphore.
func (w *world) stateOf(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var text strings.Builder
	for _, r := range w.replicas {
		s, err := r.client.Semaphore(ctx, name)
		leases, err2 := r.client.Leases(ctx, name)
		fmt.Fprintf(&text, "  %s: %+v %v; leases %+v %v\n", r.name, s.Status, err, leases, err2)
	}
	return text.String()
}

// back waits until nothing of a semaphore is in use and nobody waits, as a replica tells it.
func back(ctx context.Context, r *replica, name string) error {
	for {
		s, err := r.client.Semaphore(ctx, name)
		if err == nil && s.Status.InUse == 0 && s.Status.Cooling == 0 && s.Status.Waiting == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s tells of %s: %+v, %w", r.name, name, s.Status, err)
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// tell adds a line to the tale.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(w.out, "%8.3f s  %s\n", time.Since(w.start).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[name]++
}

// summary tells how often what happened.
func (w *world) summary(h *history) {
	for _, counts := range []map[string]int{w.counts, h.kinds} {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
		}
		w.tell("%s", strings.Join(list, " · "))
	}
}

// keepLogs leaves what the replicas have written beside the pictures.
func (w *world) keepLogs(to string) error {
	w.tell("the logs of the replicas are in %s", to)
	var wrong error
	for _, r := range w.replicas {
		text, err := os.ReadFile(r.log)
		wrong = errors.Join(wrong, err, os.WriteFile(filepath.Join(to, r.name+".log"), text, 0o600))
	}
	return wrong
}
