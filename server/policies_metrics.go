package server

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/permitd/permitd/policies"
)

// policyCollector reads at the scrape what policies have done here.
type policyCollector struct{ host *policies.Host }

func policyDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricsNamespace+"_policy_"+name, help, append([]string{"policy"}, labels...), nil)
}

var (
	policyEvaluations = policyDesc("evaluations_total", "Requests that the policy was asked about, by what it answered.", "outcome")
	policyEvaluate    = policyDesc("evaluate_seconds", "Time in the module.", "outcome")
	policyFaults      = policyDesc("faults_total", "Evaluations without an answer.", "kind")
	policyBreaker     = policyDesc("breaker_open", "1 while the policy is not asked because it has failed too often.")
	policyInstances   = policyDesc("instances", "Instances of the module.", "state")
	policyDiscards    = policyDesc("discards_total", "Instances that were thrown away.", "reason")
	policyCompile     = policyDesc("compile_seconds_total", "Time to compile versions.")
	policyInstantiate = policyDesc("instantiate_seconds_total", "Time to make instances.")
	policyGeneration  = policyDesc("generation", "Of the version at work here; 0: none is.")
	policySwaps       = policyDesc("swaps_total", "How often another version was put to work.")
	policyDifferences = policyDesc("shadow_differences_total", "Requests that a policy in shadow would have treated otherwise.")
)

// Describe implements prometheus.Collector.
func (c policyCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		policyEvaluations, policyEvaluate, policyFaults, policyBreaker, policyInstances, policyDiscards, policyCompile, policyInstantiate,
		policyGeneration, policySwaps, policyDifferences,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c policyCollector) Collect(out chan<- prometheus.Metric) {
	all := c.host.Metrics()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		collectPolicy(out, name, all[name])
	}
}

func collectPolicy(out chan<- prometheus.Metric, name string, m policies.Metrics) {
	number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{name}, labels...)...)
	}
	for outcome, h := range m.Evaluate {
		count, buckets := uint64(0), map[float64]uint64{}
		for i, bound := range policies.EvaluateBuckets {
			count += h.Counts[i]
			buckets[bound] = count
		}
		count += h.Counts[len(h.Counts)-1]
		number(policyEvaluations, prometheus.CounterValue, float64(count), string(outcome))
		out <- prometheus.MustNewConstHistogram(policyEvaluate, count, h.Sum.Seconds(), buckets, name, string(outcome))
	}
	for kind, n := range m.Faults {
		number(policyFaults, prometheus.CounterValue, float64(n), string(kind))
	}
	for why, n := range m.Discards {
		number(policyDiscards, prometheus.CounterValue, float64(n), why)
	}
	open := 0.0
	if m.BreakerOpen {
		open = 1
	}
	number(policyBreaker, prometheus.GaugeValue, open)
	number(policyInstances, prometheus.GaugeValue, float64(m.Busy), "busy")
	number(policyInstances, prometheus.GaugeValue, float64(m.Idle), "idle")
	number(policyCompile, prometheus.CounterValue, m.Compile.Seconds())
	number(policyInstantiate, prometheus.CounterValue, m.Instantiate.Seconds())
	number(policyGeneration, prometheus.GaugeValue, float64(m.Generation))
	number(policySwaps, prometheus.CounterValue, float64(m.Swaps))
	number(policyDifferences, prometheus.CounterValue, float64(m.Differences))
}
