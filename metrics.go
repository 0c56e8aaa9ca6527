package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of a pass, as labels of controller_reconcile_total.
const (
	resultSuccess      = "success"       // and time alone changes nothing
	resultRequeueAfter = "requeue_after" // success, to be looked at again at the boundary
	resultError        = "error"
)

// Directions of a scale write, as labels of schedule_night_scaled_total.
const (
	directionDown = "down"
	directionUp   = "up"
)

// metrics are what a controller counts as it goes. What can be told from the cache at
// any time is the clusterCollector's.
type metrics struct {
	reconciles *prometheus.CounterVec
	duration   prometheus.Histogram
	scaled     *prometheus.CounterVec
	lag        prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_reconcile_total",
			Help: "Passes over a Deployment, by result.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "controller_reconcile_duration_seconds",
			Help:    "How long a pass over a Deployment takes.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 10, 9), // 1 µs, without a request, to 100 s
		}),
		scaled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "schedule_night_scaled_total",
			Help: "Accepted writes of a Deployment's replicas, by direction.",
		}, []string{"direction"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "schedule_night_transition_lag_seconds",
			Help:    "From the boundary of a schedule to the accepted write of the replicas.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}),
	}
	// A series that is not there cannot be told from one that has not been scraped.
	for _, result := range []string{resultSuccess, resultRequeueAfter, resultError} {
		m.reconciles.WithLabelValues(result)
	}
	for _, direction := range []string{directionDown, directionUp} {
		m.scaled.WithLabelValues(direction)
	}
	return m
}

// register adds the metrics, and those of what the cache and the event queue know,
// to /metrics.
func (m *metrics) register(sum func() totals, lostEvents func() float64) {
	legacyregistry.RawMustRegister(m.reconciles, m.duration, m.scaled, m.lag, &clusterCollector{sum},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "schedule_night_events_lost_total",
			Help: "Events that could not be delivered.",
		}, lostEvents))
}

// observeScale counts an accepted write. If it was due at a boundary, our record tells
// which: the condition still reads as before it.
func (m *metrics) observeScale(from, to int32, was, is *appsv1.DeploymentCondition, now time.Time) {
	if to < from {
		m.scaled.WithLabelValues(directionDown).Inc()
	} else {
		m.scaled.WithLabelValues(directionUp).Inc()
	}
	if was != nil && was.Status != is.Status {
		if r, ok := parseRecord(was.Message); ok && !r.until.IsZero() && !r.until.After(now) {
			m.lag.Observe(now.Sub(r.until).Seconds())
		}
	}
}

var (
	deploymentsDesc = prometheus.NewDesc("schedule_night_deployments", "Managed Deployments, by what their schedule says now.", []string{"state"}, nil)
	overdueDesc     = prometheus.NewDesc("schedule_night_overdue_deployments", "Managed Deployments whose replicas are not what their schedule has asked for since a minute ago or longer.", nil, nil)
	replicasDesc    = prometheus.NewDesc("schedule_night_saved_replicas", "Replicas that sleeping Deployments have less than in the day.", nil, nil)
	cpuDesc         = prometheus.NewDesc("schedule_night_saved_cpu_cores", "CPU that the containers of the saved replicas would request.", nil, nil)
	memoryDesc      = prometheus.NewDesc("schedule_night_saved_memory_bytes", "Memory that the containers of the saved replicas would request.", nil, nil)
	nextDesc        = prometheus.NewDesc("schedule_night_next_transition_timestamp_seconds", "When the next managed Deployment goes to sleep or wakes up; absent if none will.", nil, nil)
)

// clusterCollector computes from the cache, when it is asked. Every replica does, not
// only the leader: that nobody leads is when overdue Deployments matter most.
type clusterCollector struct{ sum func() totals }

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deploymentsDesc, overdueDesc, replicasDesc, cpuDesc, memoryDesc, nextDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(values chan<- prometheus.Metric) {
	t := c.sum()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(deploymentsDesc, float64(t.Asleep), planAsleep)
	gauge(deploymentsDesc, float64(t.Awake), planAwake)
	gauge(deploymentsDesc, float64(t.Invalid), planInvalid)
	gauge(overdueDesc, float64(t.Overdue))
	gauge(replicasDesc, t.SavedReplicas)
	gauge(cpuDesc, t.SavedCores)
	gauge(memoryDesc, t.SavedBytes)
	if !t.next.IsZero() {
		gauge(nextDesc, float64(t.next.UnixNano())/1e9)
	}
}
