package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/policies"
)

// Limits of connections.
const (
	connectionsUsual = 20_000
	requestsUsual    = 1000
	headerBytesMax   = 16 << 10
	requestTimeMax   = 20 * time.Second // for a request to arrive, its body included
	idleTimeMax      = 2 * time.Minute
	responseTimeMax  = engine.WaitMax + time.Minute // from the request's header to the end of its answer
)

// Config is what a Server needs. Zero fields take the default their comment names.
type Config struct {
	Engine         *engine.Engine // required; Shutdown closes it
	Version        string         // told by metrics, welcome frames and /healthz
	MaxConnections int            // beyond it connections are answered 503, and closed 1013; 20,000
	MaxRequests    int            // under way of each principal, beyond it 429; 1,000

	MetricsSemaphores int        // with a label of their own in /metrics; 1,000
	NodeMeter         *NodeMeter // of the engine's nodes; nil: they are not measured

	Policies *policies.Host // of the engine's nodes; Shutdown closes it. nil: no policies are served

	Log *slog.Logger // discarded

	Tokens         *Tokens        // who may ask; nil: everybody
	LocalOnly      bool           // serve only Host names of this machine: for listeners on a loopback address without auth
	AllowHosts     []string       // Host names served besides, and then no others
	AllowOrigins   []string       // scheme://host[:port] of pages that may ask besides those of this server
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	TLS            *tls.Config    // nil: plain HTTP. HTTP/1.1 alone is spoken over it: only there a failed write is always told
}

// Server serves an engine. Serve starts it, Shutdown stops it and waits. Safe for concurrent use.
type Server struct {
	cfg     Config
	engine  *engine.Engine
	log     *slog.Logger
	echo    *echo.Echo
	http    *http.Server
	metrics *metrics
	events  *events
	history history
	topics  topics
	origins *http.CrossOriginProtection
	ids     requestIDs

	lastHost atomic.Pointer[string] // a Host header that was served: most requests have the same; nil: none was yet

	taken connectionCount
	busy  inFlight
	done  sharedRecent // what operators ended, by what they asked for

	policies       *policies.Host // nil: there are none
	policiesWanted chan struct{}  // capacity 1: look what is in force
	policiesSeen   chan struct{}  // closed when what is in force was read once
	faultsTold     sharedRecent   // of policies, by second

	draining atomic.Bool
	stopped  chan struct{} // closed by Shutdown: work ends
	work     sync.WaitGroup
	leaving  chan struct{} // closed when leases that are kept have been renewed for the last time
	channels channels
}

// New makes a server, which watches over its engine until Shutdown. It panics on a missing engine and on an origin that is none.
func New(cfg Config) *Server {
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = connectionsUsual
	}
	if cfg.MetricsSemaphores == 0 {
		cfg.MetricsSemaphores = metricNamesUsual
	}
	if cfg.MaxRequests == 0 {
		cfg.MaxRequests = requestsUsual
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, engine: cfg.Engine, log: cfg.Log,
		echo: echo.New(), origins: http.NewCrossOriginProtection(), ids: newRequestIDs(),
		leaving: make(chan struct{}), stopped: make(chan struct{}), events: newEvents(cfg.Engine.Replica()),
		policies: cfg.Policies, policiesWanted: make(chan struct{}, 1), policiesSeen: make(chan struct{}),
	}
	for _, origin := range cfg.AllowOrigins {
		if err := s.origins.AddTrustedOrigin(origin); err != nil {
			panic(fmt.Sprintf("server: Config.AllowOrigins: %v", err))
		}
	}
	s.metrics = newMetrics(s)
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(s.doors)
	s.routes()
	s.events.add(event{Type: eventStarted})
	s.work.Go(s.followNodes)
	s.work.Go(s.followSemaphores)
	if cfg.Tokens != nil {
		s.work.Go(s.followTokens)
	}
	if s.policies != nil {
		s.work.Go(s.followPolicies)
	}
	s.http = &http.Server{
		Handler:        s.echo,
		ReadTimeout:    requestTimeMax, // acquire lifts it before it waits
		WriteTimeout:   responseTimeMax,
		IdleTimeout:    idleTimeMax,
		MaxHeaderBytes: headerBytesMax,
		ErrorLog:       slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug), // what broken clients do
	}
	return s
}

func (s *Server) routes() {
	s.get("/", scopeNone, s.showRoot)
	s.get("/healthz", scopeNone, s.healthz)
	s.get("/readyz", scopeNone, s.readyz)
	s.get("/metrics", scopeRead, s.metrics.serve)
	s.get(problemsPath, scopeNone, s.problems)
	s.get("/openapi.json", scopeNone, s.showDocument)
	s.get("/swagger.json", scopeNone, s.showSwagger)
	s.get("/channel.schema.json", scopeNone, s.showChannelSchema)
	s.get("/docs", scopeNone, s.showDocs)
	s.get("/v1/nodes", scopeRead, s.nodes)
	s.echo.POST("/v1/nodes/recover", s.needs(scopeOperate, s.recoverNodes))
	s.echo.POST("/v1/nodes/:node/readmit", s.needs(scopeOperate, s.readmitNode))
	s.get("/v1/leases", scopeRead, s.findLeases)
	s.get("/v1/history", scopeRead, s.showHistory)
	s.get("/v1/events", scopeRead, s.listEvents)
	s.get("/v1/semaphores", scopeRead, s.listSemaphores)
	s.echo.Match([]string{"GET", "HEAD", "PUT", "PATCH", "DELETE"}, "/v1/semaphores/", s.noName)
	const semaphore = "/v1/semaphores/:name"
	s.get(semaphore, scopeRead, s.getSemaphore)
	s.echo.PUT(semaphore, s.needs(scopeOperate, s.putSemaphore))
	s.echo.PATCH(semaphore, s.needs(scopeOperate, s.patchSemaphore))
	s.echo.DELETE(semaphore, s.needs(scopeOperate, s.deleteSemaphore))
	s.echo.POST(semaphore+"/acquire", s.needs(scopeLease, s.acquire))
	s.echo.POST(semaphore+"/hold", s.needs(scopeLease, s.hold))
	s.echo.POST(semaphore+"/release", s.needs(scopeHolder, s.release))
	s.echo.POST(semaphore+"/renew", s.needs(scopeHolder, s.renew))
	s.get(semaphore+"/leases", scopeRead, s.listLeases)
	s.echo.DELETE(semaphore+"/leases/:id", s.needs(scopeOperate, s.breakLease))
	s.get(semaphore+"/waiters", scopeRead, s.listWaiters)
	s.echo.GET(channelPath, s.openChannel)
	if s.policies != nil {
		s.policyRoutes()
	}
}

// get serves HEAD as well, which Echo would answer with 405.
func (s *Server) get(path, scope string, h handler) {
	s.echo.GET(path, s.needs(scope, h))
	s.echo.HEAD(path, s.needs(scope, h))
}

// ServeHTTP serves one request, for tests and for servers of the caller's own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Serve accepts connections until Shutdown, and then returns nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	l = s.taken.listener(l)
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS)
	}
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops serving: no new connections, waiters are told draining, kept leases are renewed
// once and left to their TTL, channels are closed with 1012, hold streams end, and the engine is closed. It waits for all of
// this; what is left when ctx ends is cut. A second call does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.draining.Swap(true) {
		return nil
	}
	idle := make(chan error, 1)
	go func() { idle <- s.http.Shutdown(ctx) }()
	s.engine.Drain(ctx)
	close(s.leaving)
	s.channels.drain(ctx)
	close(s.stopped)
	s.work.Wait()
	err := <-idle
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.engine.Close()
	if s.policies != nil {
		err = errors.Join(err, s.policies.Close())
	}
	return err
}

// problems lists the kinds that a problem's type points to.
//
//	@Summary	The kinds of problems
//	@ID			problems
//	@Tags		about
//	@Produce	plain
//	@Success	200		{string}	string	"A line each: kind, status, title"
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Router		/problems [get]
func (s *Server) problems(c echo.Context, _ *principal) error {
	rows := make([][]string, len(kinds))
	for i, k := range kinds {
		rows[i] = []string{k.name, http.StatusText(k.status), k.title}
	}
	return answerText(c, http.StatusOK, columns(rows))
}
