package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"schedule-night/internal/metrics"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload/workloadtest"
)

// TestMetricsLint holds the metrics to Prometheus' own conventions.
func TestMetricsLint(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T23:00:00Z")), workloadtest.Deployment(3))
	defer w.Queue.ShutDown()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.collectors()...)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, error %v", problems, err)
	}
}

// TestClusterMetrics: what a night looks like in numbers.
func TestClusterMetrics(t *testing.T) {
	sized := func(d *appsv1.Deployment) *appsv1.Deployment {
		always := corev1.ContainerRestartPolicyAlways
		request := func(cpu, memory string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
		}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Resources: request("250m", "64Mi")}, {Resources: request("250m", "64Mi")}}
		d.Spec.Template.Spec.InitContainers = []corev1.Container{
			{Resources: request("8", "8Gi")}, // done before the Pod runs
			{Resources: request("500m", "128Mi"), RestartPolicy: &always},
		}
		return d
	}
	objects := []*appsv1.Deployment{
		sized(workloadtest.Deployment(0)),                            // asleep: 3 replicas saved
		sized(workloadtest.Deployment(1, "night-replicas=1")),        // asleep: 2 saved
		workloadtest.Deployment(3),                                   // asleep by its schedule, and not yet scaled: overdue
		workloadtest.Deployment(3, "window=22:59-23:30"),             // the same, for a minute
		workloadtest.Deployment(3, "window=22:59-23:30", "on=false"), // not managed
		workloadtest.Deployment(3, "awake-until=2026-11-28T23:10:00Z"),
		workloadtest.Deployment(3, "window=x"),
		workloadtest.Without(workloadtest.Deployment(3), "on"),
		workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on"), // opted out, and to be woken: overdue
	}
	w := newWorld(t, clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T23:00:00Z")))
	defer w.Queue.ShutDown()
	for i, d := range objects {
		d.Name, d.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprint(i))
		w.cache(d)
	}
	want := `
# HELP schedule_night_deployments Managed Deployments, by what their schedule says now.
# TYPE schedule_night_deployments gauge
schedule_night_deployments{state="asleep"} 4
schedule_night_deployments{state="awake"} 1
schedule_night_deployments{state="invalid"} 1
schedule_night_deployments{state="released"} 1
# HELP schedule_night_next_transition_timestamp_seconds When the next managed Deployment goes to sleep or wakes up; absent if none will.
# TYPE schedule_night_next_transition_timestamp_seconds gauge
schedule_night_next_transition_timestamp_seconds 1.7959074e+09
# HELP schedule_night_overdue_deployments Managed Deployments whose replicas are not what their schedule has asked for since a minute ago or longer.
# TYPE schedule_night_overdue_deployments gauge
schedule_night_overdue_deployments 3
# HELP schedule_night_saved_cpu_cores CPU that the containers of the saved replicas would request.
# TYPE schedule_night_saved_cpu_cores gauge
schedule_night_saved_cpu_cores 5
# HELP schedule_night_saved_memory_bytes Memory that the containers of the saved replicas would request.
# TYPE schedule_night_saved_memory_bytes gauge
schedule_night_saved_memory_bytes 1.34217728e+09
# HELP schedule_night_saved_replicas Replicas that sleeping Deployments have less than in the day.
# TYPE schedule_night_saved_replicas gauge
schedule_night_saved_replicas 5
`
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.collectors()...)
	var names []string
	for line := range strings.Lines(want) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestControllerMetrics: counters and the lag, over a boundary, an edit, a failure.
func TestControllerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=01:00-02:00"))
		w.run()
		w.until("2000-01-01T01:00:00Z")
		w.settle()
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) }) // no boundary: no lag
		w.settle()
		w.expect("status web=False/DayWindow", "status web=True/NightWindow", "scale web=0", "scale web=0")
		registry := prometheus.NewRegistry()
		registry.MustRegister(w.collectors()...)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP schedule_night_scaled_total Accepted writes of a Deployment's replicas, by direction.
# TYPE schedule_night_scaled_total counter
schedule_night_scaled_total{direction="down"} 2
schedule_night_scaled_total{direction="up"} 0
`), "schedule_night_scaled_total"); err != nil {
			t.Error(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				switch family.GetName() {
				case "controller_reconcile_total":
					n, result := m.GetCounter().GetValue(), m.GetLabel()[0].GetValue()
					if result == metrics.ResultRequeueAfter && n == 0 || result == metrics.ResultError && n > 0 {
						t.Errorf("%v passes with the result %s", n, result)
					}
				case "schedule_night_transition_lag_seconds":
					if h := m.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() > time.Second.Seconds() {
						t.Errorf("lag %v", h)
					}
				}
			}
		}
	})
}
