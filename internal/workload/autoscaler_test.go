package workload_test

import (
	"errors"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
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
// can be its own choice, and whose it is.
func TestAutoscalerToZero(t *testing.T) {
	keda := workloadtest.HPAFor("web", 1)
	keda.Labels = map[string]string{"scaledobject.keda.sh/name": "web", "app": "web"}
	for _, tc := range []struct {
		hpa  *autoscalingv2.HorizontalPodAutoscaler
		want bool
		keda string
	}{{workloadtest.HPAFor("web", 1), false, ""}, {workloadtest.HPAFor("web", 0), true, ""}, {keda, true, "web"}} {
		a := attached(t, tc.hpa)
		if got := a.Of("default/web"); got == nil || got.ToZero != tc.want || got.ScaledObject != tc.keda {
			t.Errorf("minimum %d, labels %v: got %+v, want %v", *tc.hpa.Spec.MinReplicas, tc.hpa.Labels, got, tc.want)
		}
	}
}

// attached finds the autoscalers that an API server has.
func attached(t *testing.T, hpas ...runtime.Object) *workload.Autoscalers {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(fake.NewClientset(hpas...), 0, informers.WithTransform(workload.Self{}.Transform))
	a := workload.NewAutoscalers(clock.RealClock{}, time.Second)
	if err := a.Attach(factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return a
}

// TestSeveralAutoscalers: the same one counts on each pass.
func TestSeveralAutoscalers(t *testing.T) {
	named := func(name string, minReplicas int32) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := workloadtest.HPAFor("web", minReplicas)
		hpa.Name = name
		return hpa
	}
	keda := named("d", 2)
	keda.Labels = map[string]string{"scaledobject.keda.sh/name": "web"}
	a := attached(t, named("c", 4), named("b", 4), named("a", 0), keda)
	for range 20 {
		if got := a.Of("default/web"); *got != (workload.Autoscaler{Name: "b", Min: 4, ToZero: true, ScaledObject: "web"}) {
			t.Fatalf("got %+v", got)
		}
	}
	if got := a.Of("default/other"); got != nil {
		t.Errorf("another Deployment has %+v", got)
	}
}

// TestUnreadableAutoscalers: as long as nobody knows, each workload may have one.
func TestUnreadableAutoscalers(t *testing.T) {
	a := workload.NewAutoscalers(clock.RealClock{}, time.Second)
	if got := a.Of("default/web"); got == nil || !got.ToZero || got.Name != "" || !a.HasSynced() {
		t.Errorf("got %+v, synced %v", got, a.HasSynced())
	}
	if got := (*workload.Autoscalers)(nil).Of("default/web"); got != nil {
		t.Errorf("where there are none: %+v", got)
	}
}
