package events

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// deliver emits events, shuts down, and returns what the API server then has.
func deliver(t *testing.T, client *fake.Clientset, hold func() bool, emit func(*Deliverer)) ([]corev1.Event, *Deliverer) {
	t.Helper()
	e := New(client.CoreV1(), component, clock.RealClock{}, hold)
	e.Start(context.Background())
	emit(e)
	deadline, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	e.Shutdown(deadline)
	list, err := client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items, e
}

// component is who the events come from.
const component = "schedule-night"

func object() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web", UID: "uid-1", ResourceVersion: "1"}
}

func never() bool { return false }

// TestEventsOfOneBoundary: none of 2,000 is lost, and none is written while scale
// writes wait.
func TestEventsOfOneBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var busy atomic.Bool
		busy.Store(true)
		events, e := deliver(t, client, busy.Load, func(e *Deliverer) {
			for i := range 2000 {
				d := object()
				d.Name, d.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
				e.Eventf(d, corev1.EventTypeNormal, "ScaledDown", "Scaled from %d to %d", 3, 0)
			}
			time.Sleep(time.Second)
			if n := len(client.Actions()); n != 0 {
				t.Errorf("%d events went before the scale writes", n)
			}
			busy.Store(false)
		})
		if len(events) != 2000 || e.lost.Load() != 0 {
			t.Errorf("%d events arrived, %d lost", len(events), e.lost.Load())
		}
		if got := events[0]; got.InvolvedObject.Kind != "Deployment" || got.InvolvedObject.APIVersion != "apps/v1" || got.Message != "Scaled from 3 to 0" || got.Source.Component != "schedule-night" {
			t.Errorf("event %+v", got)
		}
	})
}

// TestEventsAggregate: the same event again counts up, and too many are dropped.
func TestEventsAggregate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, _ := deliver(t, fake.NewClientset(), never, func(e *Deliverer) {
			for range 5 {
				e.Eventf(object(), corev1.EventTypeWarning, "InvalidSchedule", "the same")
				time.Sleep(time.Minute)
			}
		})
		if len(events) != 1 || events[0].Count != 5 {
			t.Errorf("events %+v", events)
		}
	})
}

// TestEventsRetry: an API server that is away for a while costs no event; one that
// refuses costs that event, and it is counted.
func TestEventsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var answer atomic.Pointer[error]
		client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			if fail := answer.Load(); fail != nil {
				return true, nil, *fail
			}
			return false, nil, nil
		})
		events, e := deliver(t, client, never, func(e *Deliverer) {
			refused := errors.New("connection refused")
			answer.Store(&refused)
			e.Eventf(object(), corev1.EventTypeNormal, "ScaledUp", "while away")
			time.Sleep(time.Minute)
			answer.Store(nil)
			time.Sleep(2 * time.Minute)
			var forbidden error = apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("the namespace is being terminated"))
			answer.Store(&forbidden)
			e.Eventf(object(), corev1.EventTypeNormal, "ScaledDown", "refused")
			time.Sleep(time.Minute)
		})
		if len(events) != 1 || events[0].Reason != "ScaledUp" || e.lost.Load() != 1 {
			t.Errorf("events %+v, %d lost", events, e.lost.Load())
		}
	})
}
