package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

func hpaFor(name string, minReplicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hpa", ResourceVersion: "1"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    ptr.To(minReplicas),
		},
	}
}

// TestAutoscalersComeAndGo: at any time, and each change is looked at at once.
func TestAutoscalersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, deployment(3, "window=12:00-13:00", "daytime=enforce"))
		var err error
		if w.autoscalers, err = newAutoscalers(w.factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
			t.Fatal(err)
		}
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

		if _, err := hpas.Create(context.Background(), hpaFor("web", 2), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		scale(6)
		w.expect() // the autoscaler's
		if got := w.events.reasons(); len(got) != 2 || got[1] != ReasonAutoscalerConflict {
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

		other := hpaFor("other", 2)
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

// TestMayReadAutoscalers: lacking the right is no reason to hang or to stop.
func TestMayReadAutoscalers(t *testing.T) {
	for _, tc := range []struct {
		answer error
		want   bool
		fails  bool
	}{
		{nil, true, false},
		{apierrors.NewForbidden(autoscalingv2.Resource("horizontalpodautoscalers"), "", errors.New("no")), false, false},
		{apierrors.NewNotFound(autoscalingv2.Resource("horizontalpodautoscalers"), ""), false, false},
		{errors.New("connection refused"), false, true},
	} {
		client := fake.NewClientset()
		client.PrependReactor("list", "horizontalpodautoscalers", func(k8stesting.Action) (bool, runtime.Object, error) {
			return tc.answer != nil, nil, tc.answer
		})
		got, err := mayReadAutoscalers(t.Context(), client, "")
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%v: got %v, error %v", tc.answer, got, err)
		}
	}
}

// TestAutoscalerToZero: of a trimmed autoscaler it can still be told whether 0 replicas
// can be its own choice.
func TestAutoscalerToZero(t *testing.T) {
	keda := hpaFor("web", 1)
	keda.Labels = map[string]string{kedaLabel: "web", "app": "web"}
	for _, tc := range []struct {
		hpa  *autoscalingv2.HorizontalPodAutoscaler
		want bool
	}{{hpaFor("web", 1), false}, {hpaFor("web", 0), true}, {keda, true}} {
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		a, err := newAutoscalers(factory.Autoscaling().V2().HorizontalPodAutoscalers())
		if err != nil {
			t.Fatal(err)
		}
		if err := a.informer.GetIndexer().Add(trimAutoscaler(tc.hpa)); err != nil {
			t.Fatal(err)
		}
		if got := a.of("default/web"); got == nil || got.toZero != tc.want {
			t.Errorf("minimum %d, labels %v: got %+v, want %v", *tc.hpa.Spec.MinReplicas, tc.hpa.Labels, got, tc.want)
		}
	}
}

// TestAutoscalerNightCount: a night count above 0 is recorded, set once, and then left
// to the autoscaler.
func TestAutoscalerNightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, deployment(8, "window=12:00-13:00", "night-replicas=4"))
		var err error
		if w.autoscalers, err = newAutoscalers(w.factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Tracker().Add(hpaFor("web", 2)); err != nil {
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
