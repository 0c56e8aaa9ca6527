// Package metrics counts what the controller does, and sums up what is managed.
package metrics

import (
	"schedule-night/internal/outlook"
	"schedule-night/internal/workload"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of a pass, as labels of controller_reconcile_total.
const (
	ResultSuccess      = "success"       // and time alone changes nothing
	ResultRequeueAfter = "requeue_after" // success, to be looked at again at the boundary
	ResultError        = "error"
)

// Directions of a scale write, as labels of schedule_night_scaled_total.
const (
	directionDown = "down"
	directionUp   = "up"
)

// Metrics are what a controller counts as it goes. What can be told from the cache at
// any time is the clusterCollector's.
type Metrics struct {
	reconciles *prometheus.CounterVec
	duration   prometheus.Histogram
	scaled     *prometheus.CounterVec
	lag        prometheus.Histogram
}

// New makes all of them, at 0.
func New() *Metrics {
	m := &Metrics{
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
	for _, result := range []string{ResultSuccess, ResultRequeueAfter, ResultError} {
		m.reconciles.WithLabelValues(result)
	}
	for _, direction := range []string{directionDown, directionUp} {
		m.scaled.WithLabelValues(direction)
	}
	return m
}

// Register adds the metrics, and those of what the cache and the event queue know, to
// /metrics.
func (m *Metrics) Register(totals func() outlook.Totals, lostEvents func() int64) {
	legacyregistry.RawMustRegister(m.Collectors(totals, lostEvents)...)
}

// Collectors are what Register adds.
func (m *Metrics) Collectors(totals func() outlook.Totals, lostEvents func() int64) []prometheus.Collector {
	return []prometheus.Collector{m.reconciles, m.duration, m.scaled, m.lag, &clusterCollector{totals},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "schedule_night_events_lost_total",
			Help: "Events that could not be delivered.",
		}, func() float64 { return float64(lostEvents()) })}
}

// ObservePass counts a pass, by its result.
func (m *Metrics) ObservePass(result string, took time.Duration) {
	m.duration.Observe(took.Seconds())
	m.reconciles.WithLabelValues(result).Inc()
}

// ObserveScale counts an accepted write of the count that was due. If it was due at a
// boundary, the record that the workload had before tells which.
func (m *Metrics) ObserveScale(from int32, was *workload.Record, due *outlook.Decision, now time.Time) {
	direction := directionUp
	if due.Replicas < from {
		direction = directionDown
	}
	m.scaled.WithLabelValues(direction).Inc()
	if was == nil || was.Status == due.Record.Status {
		return
	}
	if until := was.Until(); !until.IsZero() && !until.After(now) {
		m.lag.Observe(now.Sub(until).Seconds())
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
type clusterCollector struct{ totals func() outlook.Totals }

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deploymentsDesc, overdueDesc, replicasDesc, cpuDesc, memoryDesc, nextDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(values chan<- prometheus.Metric) {
	t := c.totals()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(deploymentsDesc, float64(t.Asleep), string(outlook.Asleep))
	gauge(deploymentsDesc, float64(t.Awake), string(outlook.Awake))
	gauge(deploymentsDesc, float64(t.Invalid), string(outlook.Invalid))
	gauge(deploymentsDesc, float64(t.Released), string(outlook.Released))
	gauge(overdueDesc, float64(t.Overdue))
	gauge(replicasDesc, t.SavedReplicas)
	gauge(cpuDesc, t.SavedCores)
	gauge(memoryDesc, t.SavedBytes)
	if !t.Next.IsZero() {
		gauge(nextDesc, float64(t.Next.UnixNano())/1e9)
	}
}
