package server

import (
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of /metrics.
const (
	metricNamesUsual = 1000 // semaphores with a label of their own; the rest are otherSemaphores
	otherSemaphores  = "_other"
	scrapesMax       = 2 // at once
	scrapeTimeMax    = 5 * time.Second
	metricsNamespace = "permitd"
)

// Buckets from half a millisecond to the longest wait over REST.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}

// metrics counts what the faces do. What semaphores and nodes are is read at the scrape, by stateCollector.
type metrics struct {
	serveHTTP http.Handler
	history   *history
	namesMax  int // semaphores with a label of their own

	acquires *prometheus.CounterVec // semaphore, outcome
	wait     prometheus.Histogram
	hold     prometheus.Histogram
	releases *prometheus.CounterVec   // reason
	lost     *prometheus.CounterVec   // semaphore, reason
	acts     *prometheus.CounterVec   // act
	requests *prometheus.HistogramVec // method, route, code
	channels prometheus.Gauge
	messages *prometheus.CounterVec // direction
	in, out  prometheus.Counter     // of messages
	closes   *prometheus.CounterVec // code

	answered observers[requestLabels] // of requests

	others prometheus.Counter // of acquires: the grants of semaphores without a label of their own

	mu     sync.RWMutex
	grants map[string]prometheus.Counter // likewise, by the semaphores that have one
}

func newMetrics(s *Server) *metrics {
	m := &metrics{history: &s.history, namesMax: s.cfg.MetricsSemaphores, grants: map[string]prometheus.Counter{}}
	m.acquires = counters("acquires_total", "Requests for permits, by what became of them.", "semaphore", "outcome")
	m.others = m.acquires.WithLabelValues(otherSemaphores, outcomeGranted)
	m.wait = histogram("acquire_wait_seconds", "From the request to the grant.")
	m.hold = histogram("hold_seconds", "From the grant to the end of a lease that was held over the lease channel.")
	m.releases = counters("releases_total", "Leases that were given back through this replica.", "reason")
	m.lost = counters("leases_lost_total", "Leases that their holder was told to be lost.", "semaphore", "reason")
	m.acts = counters("operator_acts_total", "What operators did through this replica.", "act")
	for _, act := range []string{actDeclared, actChanged, actDeleted, actBroken, actPolicyPut, actPolicyDeleted} {
		m.acts.WithLabelValues(act)
	}
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "http_request_duration_seconds",
		Help: "HTTP requests, the wait of an acquire included.", Buckets: durationBuckets,
	}, []string{"method", "route", "code"})
	m.channels = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Name: "websocket_connections", Help: "Open lease channels.",
	})
	m.messages = counters("websocket_messages_total", "Frames of the lease channel.", "direction")
	m.in, m.out = m.messages.WithLabelValues("in"), m.messages.WithLabelValues("out")
	m.closes = counters("websocket_closes_total", "Ended lease channels, by the close code.", "code")
	m.beginAtZero()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: metricsNamespace, Name: "build_info", Help: "1, with what runs as labels.",
		ConstLabels: prometheus.Labels{"version": s.cfg.Version, "goversion": runtime.Version()},
	})
	build.Set(1)

	registry := prometheus.NewRegistry()
	if s.cfg.NodeMeter != nil {
		registry.MustRegister(s.cfg.NodeMeter)
	}
	if s.policies != nil {
		registry.MustRegister(policyCollector{s.policies})
	}
	registry.MustRegister(
		m.acquires, m.wait, m.hold, m.releases, m.lost, m.acts, m.requests, m.channels, m.messages, m.closes, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&stateCollector{s},
	)
	m.serveHTTP = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry: registry, MaxRequestsInFlight: scrapesMax, ErrorHandling: promhttp.ContinueOnError,
	})
	return m
}

// beginAtZero tells what has not happened yet as 0: a rate of what has just appeared would miss the first.
func (m *metrics) beginAtZero() {
	for _, reason := range []string{"released", "broken", "cancelled", "disconnected", "given_back"} {
		m.releases.WithLabelValues(reason)
	}
	for _, reason := range []string{"expired", "broken", "moved", "deleted", "quorum_lost"} {
		m.lost.WithLabelValues(otherSemaphores, reason)
	}
	for _, how := range []closing{
		{code: websocket.CloseNormalClosure},
		{code: websocket.CloseGoingAway},
		{code: websocket.CloseAbnormalClosure},
		closeTooBig, closeNotJSON, closeRestart, closeOverloaded, closeUnauthenticated, closeTooMany, closeSilent,
	} {
		m.closes.WithLabelValues(how.label())
	}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: metricsNamespace, Name: name, Help: help}, labels)
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: name, Help: help, Buckets: durationBuckets,
	})
}

// serve answers a scrape.
//
//	@Summary	Metrics for Prometheus
//	@ID			metrics
//	@Tags		about
//	@Produce	plain
//	@Success	200		{string}	string
//	@Failure	default	{object}	problem	"What every request may be refused for: 400, 401, 403, 404, 405, 413, 421, 429, 500, 503"
//	@Security	Bearer
//	@Router		/metrics [get]
func (m *metrics) serve(c echo.Context, _ *principal) error {
	m.serveHTTP.ServeHTTP(c.Response(), c.Request())
	return nil
}

// grantsOf returns the counter of a semaphore's grants: the first have their own.
func (m *metrics) grantsOf(semaphore string) prometheus.Counter {
	m.mu.RLock()
	grants := m.grants[semaphore]
	m.mu.RUnlock()
	if grants != nil {
		return grants
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.grants) >= m.namesMax {
		return m.others
	}
	if m.grants[semaphore] == nil {
		m.grants[semaphore] = m.acquires.WithLabelValues(semaphore, outcomeGranted)
	}
	return m.grants[semaphore]
}

// label returns the label of a semaphore.
func (m *metrics) label(semaphore string) string {
	if m.grantsOf(semaphore) == m.others {
		return otherSemaphores
	}
	return semaphore
}

// Outcomes of a request for permits besides the kinds of problems.
const (
	outcomeGranted   = "granted"
	outcomeCancelled = "cancelled"
)

// acquired counts a request for permits; err is what it ended with, nil for a grant.
func (m *metrics) acquired(semaphore string, err error, waited time.Duration) {
	if err == nil {
		m.grantsOf(semaphore).Inc()
		m.history.count(semaphore, true)
		m.wait.Observe(waited.Seconds())
		return
	}
	outcome, label := outcomeCancelled, otherSemaphores
	if !errors.Is(err, errClientLeft) {
		outcome = problemOf(err).Kind
	}
	if outcome == kindNoPermit.name || outcome == kindTooManyWaiters.name {
		m.history.count(semaphore, false)
	}
	if outcome != kindUnknownSemaphore.name { // whose names anybody can make up
		label = m.label(semaphore)
	}
	m.acquires.WithLabelValues(label, outcome).Inc()
}

func (m *metrics) released(reason string) { m.releases.WithLabelValues(reason).Inc() }

// ended counts the end of a lease that was held over the channel since granted.
func (m *metrics) ended(reason string, granted time.Time) {
	m.released(reason)
	m.heldFor(granted)
}

func (m *metrics) heldFor(granted time.Time) { m.hold.Observe(time.Since(granted).Seconds()) }

func (m *metrics) lostLease(semaphore, reason string) {
	m.lost.WithLabelValues(m.label(semaphore), reason).Inc()
}

func (m *metrics) request(c echo.Context, took time.Duration) {
	route := c.Path()
	if route == "" {
		route = "none"
	}
	key := requestLabels{method(c.Request().Method), route, c.Response().Status}
	m.answered.get(key, func() prometheus.Observer {
		return m.requests.WithLabelValues(key.method, key.route, strconv.Itoa(key.status))
	}).Observe(took.Seconds())
}

// requestLabels are what the labels of a request come from.
type requestLabels struct {
	method, route string
	status        int
}

// method bounds the values of a label that clients choose.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return name
	}
	return "other"
}
