package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/permitd/permitd/engine"
)

// stateCollector reads semaphores and nodes when it is scraped: nothing is kept that could be wrong. Semaphores beyond
// the first, in the order of their names, are added up as far as the time of a scrape reaches.
type stateCollector struct{ s *Server }

// semaphoreMetric is a gauge of a semaphore; merge says how those of otherSemaphores are put together.
type semaphoreMetric struct {
	desc  *prometheus.Desc
	value func(*engine.Semaphore) float64
	merge func(a, b float64) float64
}

func add(a, b float64) float64     { return a + b }
func largest(a, b float64) float64 { return max(a, b) }

var semaphoreMetrics = []semaphoreMetric{
	semaphoreGauge("limit", "Permits.", add, func(s *engine.Semaphore) float64 { return float64(s.Definition.Limit) }),
	semaphoreGauge("in_use", "Permits in leases.", add, func(s *engine.Semaphore) float64 { return float64(s.Status.InUse) }),
	semaphoreGauge("cooling", "Permits that min_hold keeps.", add, func(s *engine.Semaphore) float64 { return float64(s.Status.Cooling) }),
	semaphoreGauge("available", "Free permits.", add, func(s *engine.Semaphore) float64 { return float64(s.Status.Available) }),
	semaphoreGauge("waiters", "Requests in line, of all replicas.", add, func(s *engine.Semaphore) float64 { return float64(s.Status.Waiting) }),
	semaphoreGauge("leases", "Leases.", add, func(s *engine.Semaphore) float64 { return float64(s.Status.Leases) }),
	semaphoreGauge("oldest_wait_seconds", "How long the oldest request in line has waited.", largest,
		func(s *engine.Semaphore) float64 { return s.Status.OldestWait.Seconds() }),
	semaphoreGauge("last_grant_timestamp_seconds", "When this replica last granted; 0 for not yet.", largest,
		func(s *engine.Semaphore) float64 { return unixSeconds(s.Status.LastGrant) }),
	semaphoreGauge("longest_ttl_seconds", "The longest TTL granted, as far as nodes remember.", largest,
		func(s *engine.Semaphore) float64 { return s.Status.LongestTTL.Seconds() }),
	semaphoreGauge("over_committed", "Permits in use beyond a limit that has shrunk.", add,
		func(s *engine.Semaphore) float64 { return float64(s.Status.OverCommitted) }),
	semaphoreGauge("stalled", "1 while requests wait and nothing has moved for longer than the longest TTL.", add,
		func(s *engine.Semaphore) float64 { return oneIf(s.Status.Stalled) }),
}

var (
	nodesConfigured = nodeDesc("nodes_configured", "Nodes of the cluster.")
	nodesVoting     = nodeDesc("nodes_voting", "Nodes that vote.")
	nodesQuorum     = nodeDesc("quorum_nodes", "Nodes that have to agree.")
	nodeState       = nodeDesc("node_state", "1 for the state that a node is in, 0 for the others.", "node", "state")
	coldStarts      = nodeDesc("cold_starts_total", "Times that too few nodes voted and this replica has put together what all remembered.")
	readmitted      = nodeDesc("nodes_readmitted_total", "Times that this replica has readmitted a node, by what it was out for.", "node", "reason")
	nodeClockOffset = nodeDesc("node_clock_offset_seconds", "A node's clock less the median of the nodes' clocks.", "node")
)

// nodeStates are the states that a node can be in.
var nodeStates = []string{nodeUp, "down", "suspended", "readmitting", "out", "replaced"}

func semaphoreGauge(name, help string, merge func(a, b float64) float64, value func(*engine.Semaphore) float64) semaphoreMetric {
	return semaphoreMetric{nodeDesc("semaphore_"+name, help, "semaphore"), value, merge}
}

func nodeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricsNamespace+"_"+name, help, labels, nil)
}

// Describe tells what Collect may send.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range semaphoreMetrics {
		ch <- m.desc
	}
	for _, d := range []*prometheus.Desc{nodesConfigured, nodesVoting, nodesQuorum, nodeState, nodeClockOffset, coldStarts, readmitted} {
		ch <- d
	}
}

// Collect reads the state. Without a quorum there is nothing to say about semaphores, and the nodes tell why.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	c.collectNodes(ch)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
	defer cancel()
	c.collectSemaphores(ctx, ch)
}

func (c *stateCollector) collectSemaphores(ctx context.Context, ch chan<- prometheus.Metric) {
	var others []float64
	for read, after := 0, ""; ; {
		list, next, err := c.s.engine.Semaphores(ctx, "", after, pageMax)
		if err != nil {
			break
		}
		for i := range list {
			if read++; read > c.s.metrics.namesMax || list[i].Name == otherSemaphores {
				others = mergeSemaphore(others, &list[i])
				continue
			}
			for _, m := range semaphoreMetrics {
				ch <- gauge(m.desc, m.value(&list[i]), list[i].Name)
			}
		}
		if after = next; after == "" {
			break
		}
	}
	for i, value := range others {
		ch <- gauge(semaphoreMetrics[i].desc, value, otherSemaphores)
	}
}

func mergeSemaphore(others []float64, s *engine.Semaphore) []float64 {
	if others == nil {
		others = make([]float64, len(semaphoreMetrics))
	}
	for i, m := range semaphoreMetrics {
		others[i] = m.merge(others[i], m.value(s))
	}
	return others
}

func (c *stateCollector) collectNodes(ch chan<- prometheus.Metric) {
	quorum, nodes := c.s.engine.Nodes()
	ch <- gauge(nodesConfigured, float64(len(nodes)))
	ch <- gauge(nodesVoting, float64(votes(nodes)))
	ch <- gauge(nodesQuorum, float64(quorum))
	for _, n := range nodes {
		for _, state := range nodeStates {
			ch <- gauge(nodeState, oneIf(n.State == state), n.Name, state)
		}
		ch <- gauge(nodeClockOffset, n.ClockOffset.Seconds(), n.Name)
	}
	ch <- counter(coldStarts, float64(c.s.engine.ColdStarts()))
	for i, counts := range c.s.engine.Readmitted() {
		for reason, n := range counts {
			ch <- counter(readmitted, float64(n), nodes[i].Name, reason)
		}
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
