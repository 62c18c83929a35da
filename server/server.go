package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/permitd/permitd/engine"
)

// Limits of connections.
const (
	connectionsUsual = 20_000
	headerBytesMax   = 16 << 10
	requestTimeMax   = 20 * time.Second // for a request to arrive, its body included
	idleTimeMax      = 2 * time.Minute
	responseTimeMax  = engine.WaitMax + time.Minute // from the request's header to the end of its answer
)

// Config is what a Server needs. Zero fields take the default their comment names.
type Config struct {
	Engine         *engine.Engine // required; Shutdown closes it
	Version        string         // told by metrics, welcome frames and /healthz
	LocalOnly      bool           // serve only Host names of this machine: for listeners on a loopback address without auth
	MaxConnections int            // beyond it connections are answered 503, and closed 1013; 20,000
	Log            *slog.Logger   // discarded
}

// Server serves an engine. Serve starts it, Shutdown stops it and waits. Safe for concurrent use.
type Server struct {
	cfg     Config
	engine  *engine.Engine
	log     *slog.Logger
	echo    *echo.Echo
	http    *http.Server
	metrics *metrics
	origins *http.CrossOriginProtection
	ids     requestIDs
	taken   connectionCount
	done    sharedRecent // what operators ended, by what they asked for

	draining atomic.Bool
	channels channels
}

// New makes a server. It fails on nothing but a missing engine, which panics.
func New(cfg Config) *Server {
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = connectionsUsual
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, engine: cfg.Engine, log: cfg.Log,
		echo: echo.New(), origins: http.NewCrossOriginProtection(), ids: newRequestIDs(),
	}
	s.metrics = newMetrics(s)
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(s.doors)
	s.routes()
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
	s.get("/healthz", s.healthz)
	s.get("/readyz", s.readyz)
	s.get("/metrics", s.metrics.serve)
	s.get(problemsPath, s.problems)
	s.get("/v1/nodes", s.nodes)
	s.get("/v1/semaphores", s.listSemaphores)
	s.echo.Match([]string{"GET", "HEAD", "PUT", "PATCH", "DELETE"}, "/v1/semaphores/", s.noName)
	s.get("/v1/semaphores/:name", s.getSemaphore)
	s.echo.PUT("/v1/semaphores/:name", s.putSemaphore)
	s.echo.PATCH("/v1/semaphores/:name", s.patchSemaphore)
	s.echo.DELETE("/v1/semaphores/:name", s.deleteSemaphore)
	s.echo.POST("/v1/semaphores/:name/acquire", s.acquire)
	s.echo.POST("/v1/semaphores/:name/release", s.release)
	s.echo.POST("/v1/semaphores/:name/renew", s.renew)
	s.get("/v1/semaphores/:name/leases", s.listLeases)
	s.echo.DELETE("/v1/semaphores/:name/leases/:id", s.breakLease)
	s.get("/v1/semaphores/:name/waiters", s.listWaiters)
	s.get("/v1/leases", s.findLeases)
	s.echo.GET("/v1/ws", s.openChannel)
}

// get serves HEAD as well, which Echo would answer with 405.
func (s *Server) get(path string, h echo.HandlerFunc) {
	s.echo.GET(path, h)
	s.echo.HEAD(path, h)
}

// ServeHTTP serves one request, for tests and for servers of the caller's own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Serve accepts connections until Shutdown, and then returns nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(s.taken.listener(l))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops serving: no new connections, waiters are told draining, kept leases are renewed
// once and left to their TTL, channels are closed with 1012, and the engine is closed. It waits for all of
// this; what is left when ctx ends is cut. A second call does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.draining.Swap(true) {
		return nil
	}
	idle := make(chan error, 1)
	go func() { idle <- s.http.Shutdown(ctx) }()
	s.engine.Drain(ctx)
	s.channels.drain(ctx)
	err := <-idle
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.engine.Close()
	return err
}

// problems lists the kinds that a problem's type points to.
func (s *Server) problems(c echo.Context) error {
	rows := make([][]string, len(kinds))
	for i, k := range kinds {
		rows[i] = []string{k.name, http.StatusText(k.status), k.title}
	}
	return answerText(c, http.StatusOK, columns(rows))
}
