package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

// settled is a controller whose cache holds one Deployment that is as it should be.
func settled(b *testing.B) *world {
	clk := clocktesting.NewFakeClock(nighttest.Time(b, "2026-11-28T12:00:00Z"))
	w := newWorld(b, clk)
	b.Cleanup(w.Queue.ShutDown)
	d := workloadtest.Deployment(3, "window=Mon-Fri 21:00-07:00", "timezone=Europe/Berlin")
	record := decide(workloadtest.Of(d), w.Defaults, nil, clk.Now()).Record
	w.cache(workloadtest.WithCondition(d, record.Status, record.Reason, record.Message))
	return w
}

// BenchmarkPassNothing is a pass that changes nothing, as each resync makes for each
// Deployment.
func BenchmarkPassNothing(b *testing.B) {
	w := settled(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if after, err := w.reconcile(ctx, "default/web"); err != nil || after == 0 {
			b.Fatal(after, err)
		}
	}
	if len(w.client.Actions()) > 0 {
		b.Fatal("it wrote")
	}
}

func BenchmarkAt(b *testing.B) {
	s := nighttest.Defaults(b)
	now := nighttest.Time(b, "2026-11-28T12:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		if state, err := s.At(now); err != nil || state.Asleep {
			b.Fatal(state, err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	defaults := nighttest.Defaults(b)
	annotations := workloadtest.Deployment(3, "window=Mon-Fri 21:00-07:00", "timezone=Europe/Berlin").Annotations
	b.ReportAllocs()
	for b.Loop() {
		if s, err := night.ParseSchedule(annotations, defaults); err != nil || !s.On {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandlerUnmanaged is an update of a Deployment that never opted in,
// BenchmarkHandlerChurn one of the status of one that did.
func BenchmarkHandlerUnmanaged(b *testing.B) {
	benchmarkHandler(b, workloadtest.Of(workloadtest.Without(workloadtest.Deployment(3), "on")))
}

func BenchmarkHandlerChurn(b *testing.B) {
	benchmarkHandler(b, workloadtest.Of(workloadtest.Deployment(3)))
}

func benchmarkHandler(b *testing.B, old *workload.Workload) {
	w := settled(b)
	cur := old.DeepCopy()
	cur.ResourceVersion = "2"
	b.ReportAllocs()
	for b.Loop() {
		w.updated(old, cur)
	}
	if w.Queue.Len() > 0 {
		b.Fatal("it was queued")
	}
}

// BenchmarkTrim tells what is held of a Deployment of a realistic size.
func BenchmarkTrim(b *testing.B) {
	for name, annotate := range map[string]func(*appsv1.Deployment){
		"managed":   func(*appsv1.Deployment) {},
		"unmanaged": func(d *appsv1.Deployment) { delete(d.Annotations, night.AnnotationOn) },
	} {
		b.Run(name, func(b *testing.B) {
			var held []*workload.Workload
			before := heap()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				d := realistic(len(held))
				annotate(d)
				b.StartTimer()
				held = append(held, workloadtest.Of(d))
			}
			b.ReportMetric(float64(heap()-before)/float64(len(held)), "held-B/op")
			runtime.KeepAlive(held)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func realistic(i int) *appsv1.Deployment {
	d := workloadtest.Deployment(3, "window=Mon-Fri 21:00-07:00")
	d.Name = fmt.Sprintf("web-%d", i)
	d.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 2000))}}
	for range 2 {
		c := corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", j), Value: "value"})
		}
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, c)
	}
	return d
}
