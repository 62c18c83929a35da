package server

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/permitd/permitd/engine"
)

// requestBuckets reach from a tenth of a millisecond to the longest node time-out.
var requestBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

var nodeQueued = nodeDesc("node_lane_queued_requests", "Requests to a node that are not answered yet.", "node")

// NodeMeter measures what nodes are asked for, by standing between an engine and its nodes, and, as the engine's Meter, what comes
// of it. Safe for concurrent use.
type NodeMeter struct {
	took  *prometheus.HistogramVec // node, op, outcome
	nodes []*meteredNode

	handover   prometheus.Histogram
	claims     prometheus.Histogram
	violations *prometheus.CounterVec // invariant
}

// NewNodeMeter returns a meter for Config.NodeMeter and engine.Config.Meter, and nodes for engine.Config.Nodes that it measures.
func NewNodeMeter(nodes []engine.Node) (*NodeMeter, []engine.Node) {
	m := &NodeMeter{took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "node_request_duration_seconds",
		Help: "From the queueing of a request to a node to its answer, or to that there is none.", Buckets: requestBuckets,
	}, []string{"node", "op", "outcome"})}
	m.handover = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "handover_seconds", Buckets: requestBuckets,
		Help: "From what made room for a waiter of this replica, a release here or a message of the nodes, to its grant.",
	})
	m.claims = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: metricsNamespace, Name: "claim_rounds", Buckets: []float64{1, 2, 3, 5, 10, 20, 50, 100},
		Help: "Claims that a grant took.",
	})
	m.violations = counters("invariant_violations_total", "Broken promises: each is a fault of permitd or of a node's memory.", "invariant")
	for _, invariant := range engine.Invariants {
		m.violations.WithLabelValues(invariant) // told as 0
	}
	metered := make([]engine.Node, len(nodes))
	for i, node := range nodes {
		n := &meteredNode{Node: node, took: m.took.MustCurryWith(prometheus.Labels{"node": node.Name()})}
		m.nodes = append(m.nodes, n)
		metered[i] = n
	}
	return m, metered
}

// HandedOver, Granted and Violated make it an engine.Meter.
func (m *NodeMeter) HandedOver(took time.Duration) { m.handover.Observe(took.Seconds()) }

// Granted counts the claims of a grant.
func (m *NodeMeter) Granted(claims int) { m.claims.Observe(float64(claims)) }

// Violated counts a broken promise.
func (m *NodeMeter) Violated(invariant string) { m.violations.WithLabelValues(invariant).Inc() }

func (m *NodeMeter) parts() []prometheus.Collector {
	return []prometheus.Collector{m.took, m.handover, m.claims, m.violations}
}

// Describe and Collect make it a prometheus.Collector.
func (m *NodeMeter) Describe(ch chan<- *prometheus.Desc) {
	for _, part := range m.parts() {
		part.Describe(ch)
	}
	ch <- nodeQueued
}

// Collect reads what was measured.
func (m *NodeMeter) Collect(ch chan<- prometheus.Metric) {
	for _, part := range m.parts() {
		part.Collect(ch)
	}
	for _, n := range m.nodes {
		ch <- gauge(nodeQueued, float64(n.queued.Load()), n.Name())
	}
}

// meteredNode is a node whose answers are counted.
type meteredNode struct {
	engine.Node
	took   prometheus.ObserverVec // op, outcome
	known  observers[[2]string]   // of took
	queued atomic.Int64
}

// Send sends the calls on and measures each.
func (n *meteredNode) Send(calls ...*engine.Call) {
	start := time.Now()
	n.queued.Add(int64(len(calls)))
	for _, c := range calls {
		done, op := c.Done, engine.OpName(c.Op)
		c.Done = func(a *engine.Answer) {
			n.queued.Add(-1)
			n.observer(op, outcomeOf(a.Err)).Observe(time.Since(start).Seconds())
			done(a)
		}
	}
	n.Node.Send(calls...)
}

func (n *meteredNode) observer(op, outcome string) prometheus.Observer {
	return n.known.get([2]string{op, outcome}, func() prometheus.Observer { return n.took.WithLabelValues(op, outcome) })
}

// outcomeOf says what became of a request to a node.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, engine.ErrTimeout):
		return "timeout"
	case errors.Is(err, engine.ErrLost):
		return "lost"
	case errors.Is(err, engine.ErrDown), errors.Is(err, engine.ErrOut), errors.Is(err, engine.ErrClosed):
		return "not_sent"
	}
	return "error"
}
