package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
	"github.com/permitd/permitd/server"
)

// Defaults of flags, and how long a start and a stop may take.
const (
	listenUsual      = "127.0.0.1:7707"
	dataUsual        = "./permitd-data"
	prefixUsual      = "permitd"
	nodeTimeoutUsual = 500 * time.Millisecond
	nodeTimeoutMin   = 10 * time.Millisecond
	nodeTimeoutMax   = 10 * time.Second
	connectionsUsual = 20_000
	metricsUsual     = 1000

	startTimeMax = time.Second      // for a quorum, before the start is announced without one
	stopTimeMax  = 10 * time.Second // for requests and channels to end
	warnFirst    = 5 * time.Second  // between two words about a missing quorum, at first …
	warnLater    = time.Minute      // … and later
)

// serveFlags are the flags of serve.
type serveFlags struct {
	doorFlags
	listen         string
	data           string
	redis          []string
	prefix         string
	nodeTimeout    time.Duration
	durableNodes   bool
	maxSemaphores  int
	maxConnections int
	metricsNames   int
	wasmEngine     string
}

func newServe() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve REST and the lease channel",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := readEnvironment(cmd); err != nil {
				return err
			}
			if err := f.validate(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", listenUsual, "address to serve on")
	f.doorFlags.add(flags)
	flags.StringVar(&f.data, "data", dataUsual, "directory of the embedded store, or :memory:")
	flags.StringSliceVar(&f.redis, "redis", nil, "Redis nodes instead of the embedded store, an odd number: host:port, redis:// or rediss:// URLs")
	flags.StringVar(&f.prefix, "redis-prefix", prefixUsual, "what keys on Redis start with")
	flags.DurationVar(&f.nodeTimeout, "node-timeout", nodeTimeoutUsual, "how long a node may take to answer")
	flags.BoolVar(&f.durableNodes, "durable-nodes", false, "the Redis nodes keep what they have acknowledged (appendfsync always): after a power "+
		"cut nobody waits for the longest TTL")
	flags.IntVar(&f.maxSemaphores, "max-semaphores", engine.SemaphoresUsual, "semaphores that may be created on use")
	flags.IntVar(&f.metricsNames, "metrics-semaphores", metricsUsual, "semaphores with a label of their own in /metrics; the rest are added up")
	flags.StringVar(&f.wasmEngine, "wasm-engine", string(policies.Compiler), "how policies run: compiler, or interpreter, which is slower and compiles nothing")
	flags.IntVar(&f.maxConnections, "max-connections", connectionsUsual, "connections beyond it are turned away; less where the limit of open files is")
	describeEnvironment(flags)
	return cmd
}

// validate reports all that cannot be, at once.
func (f *serveFlags) validate(given func(flag string) bool) error {
	var wrong error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = errors.Join(wrong, misconfigured(format, args...))
		}
	}
	redis := len(f.redis) > 0
	check(!redis || !given("data"), "--data and --redis exclude each other: permits live in one directory, or on Redis")
	check(redis || !given("redis-prefix"), "--redis-prefix is for --redis")
	check(redis || !f.durableNodes, "--durable-nodes is for --redis: the embedded store knows by itself what it has lost")
	check(f.nodeTimeout >= nodeTimeoutMin && f.nodeTimeout <= nodeTimeoutMax, "--node-timeout must be %v to %v", nodeTimeoutMin, nodeTimeoutMax)
	check(f.maxSemaphores >= 1, "--max-semaphores must be at least 1")
	check(f.metricsNames >= 1, "--metrics-semaphores must be at least 1")
	check(f.maxConnections >= 1, "--max-connections must be at least 1")
	check(knownEngine(f.wasmEngine), "--wasm-engine must be compiler or interpreter")
	return errors.Join(wrong, f.doorFlags.validate())
}

// serve serves until ctx ends.
func (f *serveFlags) serve(ctx context.Context, stdout, stderr io.Writer) (err error) {
	tuneHeap()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	cfg := server.Config{Version: version, Log: log}
	follow, err := f.doorFlags.apply(&cfg)
	if err != nil {
		return err
	}
	l, err := f.bind()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeListener(l)) }()
	nodes, err := f.nodes(log)
	if err != nil {
		return err
	}
	meter, metered := server.NewNodeMeter(nodes)
	e, err := engine.Open(engine.Config{Nodes: metered, Meter: meter, NodeTimeout: f.nodeTimeout, Log: log, MaxSemaphores: f.maxSemaphores, DurableNodes: f.durableNodes})
	if err != nil {
		return misconfigured("--redis: %w", err)
	}
	cfg.Policies, err = policies.Open(policies.Config{
		Store: policies.OnNodes(e), Bindings: server.PolicyBindings(e), Engine: policies.Engine(f.wasmEngine), Log: log,
	})
	if err != nil {
		e.Close()
		return internal(fmt.Errorf("policies: %w", err))
	}
	cfg.Engine, cfg.NodeMeter, cfg.MetricsSemaphores, cfg.MaxConnections = e, meter, f.metricsNames, f.connections(log)
	s := server.New(cfg)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	following, stopFollowing := context.WithCancel(ctx)
	var files sync.WaitGroup
	files.Go(func() { follow(following, log) })
	defer files.Wait()
	defer stopFollowing()
	err = f.watch(ctx, e, ended, log, &announcement{flags: f, to: stdout, addr: l.Addr(), nodes: nodes})
	return errors.Join(err, stop(s, log))
}

// bind takes the port. An address beyond this machine needs tokens, or --insecure.
func (f *serveFlags) bind() (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", f.listen)
	if err != nil {
		return nil, misconfigured("--listen: %w", err)
	}
	if !f.insecure && f.open() && !addr.IP.IsLoopback() {
		return nil, misconfigured("--listen %s is not an address of this machine alone: whoever reaches it could take and free "+
			"permits. Let in who has a token (--tokens FILE), or everybody (--insecure)", f.listen)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, misconfigured("--listen: %w", err)
	}
	return l, nil
}

// closeListener is for a start that fails; a server closes its listener itself.
func closeListener(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// watch announces the start and waits for the end: ctx, a mistake in the configuration that the nodes tell, or a server
// that fails.
func (f *serveFlags) watch(ctx context.Context, e *engine.Engine, ended <-chan error, log *slog.Logger, tell *announcement) error {
	first, cancel := context.WithTimeout(ctx, startTimeMax)
	err := e.Ready(first)
	cancel()
	if errors.Is(err, engine.ErrConfiguration) {
		return misconfigured("%w", err)
	}
	tell.listens()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	if err == nil {
		ready <- nil
	} else {
		tell.waits()
		go func() { ready <- awaitQuorum(waiting, e, log) }()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return internal(fmt.Errorf("serving ended: %w", err))
		case err := <-ready:
			if err != nil {
				return misconfigured("%w", err)
			}
			if ctx.Err() == nil {
				tell.ready()
				log.Info("ready", "replica", e.Replica())
			}
		}
	}
}

// awaitQuorum waits for the nodes and says from time to time what is missing. It returns an error if waiting will not help, and nil
// also when ctx has ended.
func awaitQuorum(ctx context.Context, e *engine.Engine, log *slog.Logger) error {
	for wait := warnFirst; ctx.Err() == nil; wait = warnLater {
		round, cancel := context.WithTimeout(ctx, wait)
		err := e.Ready(round)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrConfiguration):
			return err
		case ctx.Err() == nil:
			log.Warn("not ready", "error", err)
		}
	}
	return nil
}

// stop ends serving in order: waiters are told, leases are left to their TTL.
func stop(s *server.Server, log *slog.Logger) error {
	log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeMax)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		log.Warn("connections were cut", "error", err)
	}
	return nil
}
