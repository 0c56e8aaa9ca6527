package main

import (
	"context"
	"schedule-night/internal/workload/workloadtest"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// TestAutoscalersComeAndGo: at any time, and each change is looked at at once.
func TestAutoscalersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=12:00-13:00", "daytime=enforce"))
		w.watchAutoscalers()
		hpas := w.client.AutoscalingV2().HorizontalPodAutoscalers("default")
		scale := func(n int32) {
			d := w.live("default", "web")
			d.Spec.Replicas = ptr.To(n)
			w.store(d)
			w.settle()
		}
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		scale(6)
		w.expect("scale web=3")

		if _, err := hpas.Create(context.Background(), workloadtest.HPAFor("web", 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		scale(6)
		w.expect() // the autoscaler's
		if got := w.events.reasons(); len(got) != 2 || got[1] != reasonAutoscalerConflict {
			t.Errorf("events %q", w.events.all())
		}
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("scale web=0", "status web=True/NightWindow")
		w.until("2000-01-01T13:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
		scale(8)
		w.expect()

		other := workloadtest.HPAFor("other", 2)
		other.ResourceVersion = "2"
		if _, err := hpas.Update(context.Background(), other, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expect("scale web=3") // enforced again
		if err := hpas.Delete(context.Background(), "hpa", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.expect()
	})
}

// TestAutoscalerNightCount: a night count above 0 is recorded, set once, and then left
// to the autoscaler.
func TestAutoscalerNightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(8, "window=12:00-13:00", "night-replicas=4"))
		w.watchAutoscalers()
		if err := w.client.Tracker().Add(workloadtest.HPAFor("web", 2)); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=4", "status web=True/NightWindow")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) }) // the autoscaler
		w.settle()
		w.expect()
		w.until("2000-01-01T13:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
	})
}
