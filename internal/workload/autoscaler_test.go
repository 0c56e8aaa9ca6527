package workload_test

import (
	"errors"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

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
		got, err := workload.MayReadAutoscalers(t.Context(), client, "")
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%v: got %v, error %v", tc.answer, got, err)
		}
	}
}

// TestAutoscalerToZero: of a trimmed autoscaler it can still be told whether 0 replicas
// can be its own choice.
func TestAutoscalerToZero(t *testing.T) {
	keda := workloadtest.HPAFor("web", 1)
	keda.Labels = map[string]string{"scaledobject.keda.sh/name": "web", "app": "web"}
	for _, tc := range []struct {
		hpa  *autoscalingv2.HorizontalPodAutoscaler
		want bool
	}{{workloadtest.HPAFor("web", 1), false}, {workloadtest.HPAFor("web", 0), true}, {keda, true}} {
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		informer := factory.Autoscaling().V2().HorizontalPodAutoscalers()
		a, err := workload.NewAutoscalers(informer)
		if err != nil {
			t.Fatal(err)
		}
		trimmed, err := workload.Self{}.Transform(tc.hpa)
		if err != nil {
			t.Fatal(err)
		}
		if err := informer.Informer().GetIndexer().Add(trimmed); err != nil {
			t.Fatal(err)
		}
		if got := a.Of("default/web"); got == nil || got.ToZero != tc.want {
			t.Errorf("minimum %d, labels %v: got %+v, want %v", *tc.hpa.Spec.MinReplicas, tc.hpa.Labels, got, tc.want)
		}
	}
}
