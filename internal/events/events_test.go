package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
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
	return corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "uid-1", ResourceVersion: "1"}
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

// TestEventsAtTheEnd: a shutdown does not wait for scale writes to go first.
func TestEventsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		events, e := deliver(t, fake.NewClientset(), func() bool { return true }, func(e *Deliverer) {
			e.Eventf(object(), corev1.EventTypeNormal, "ScaledDown", "the last")
			time.Sleep(eventHold / 2)
		})
		if len(events) != 1 || e.Lost() != 0 {
			t.Fatalf("%d events arrived, %d lost", len(events), e.Lost())
		}
		if got := events[0]; !got.FirstTimestamp.Equal(&metav1.Time{Time: begun}) || got.Namespace != "shop" || got.InvolvedObject.Namespace != "shop" {
			t.Errorf("event %+v, want that of %v in its object's namespace", got, begun)
		}
	})
}

// TestEventsOverflow: what finds no room is counted as lost.
func TestEventsOverflow(t *testing.T) {
	e := New(fake.NewClientset().CoreV1(), component, clock.RealClock{}, never)
	for i := range 1<<16 + 3 {
		one := object()
		one.Name = strconv.Itoa(i) // one alone has too many soon
		e.Eventf(one, corev1.EventTypeNormal, "ScaledDown", "nobody sends")
	}
	if n := e.Lost(); n != 3 {
		t.Errorf("%d are lost, want 3", n)
	}
}

// TestEventsExpire: one that has expired since is written anew, with its count.
func TestEventsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events, e := deliver(t, client, never, func(e *Deliverer) {
			for range 3 {
				e.Eventf(object(), corev1.EventTypeWarning, "InvalidSchedule", "the same")
				time.Sleep(time.Minute)
				if err := client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("events"), "shop", eventName(t, client)); err != nil {
					t.Fatal(err)
				}
			}
			e.Eventf(object(), corev1.EventTypeWarning, "InvalidSchedule", "the same")
			time.Sleep(time.Minute)
		})
		if len(events) != 1 || events[0].Count != 4 || e.Lost() != 0 {
			t.Errorf("events %+v, %d lost", events, e.Lost())
		}
	})
}

func eventName(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d events, error %v", len(list.Items), err)
	}
	return list.Items[0].Name
}

// hanging answers no request that creates an event, as long as it says so.
type hanging struct {
	corev1client.EventInterface
	hangs *atomic.Bool
}

func (h hanging) Events(string) corev1client.EventInterface { return h }

func (h hanging) Create(ctx context.Context, event *corev1.Event, o metav1.CreateOptions) (*corev1.Event, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.EventInterface.Create(ctx, event, o)
}

// TestEventsHang: a request that is not answered is given up after 10 seconds, and tried
// again.
func TestEventsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var hangs atomic.Bool
		hangs.Store(true)
		e := New(hanging{client.CoreV1().Events("shop"), &hangs}, component, clock.RealClock{}, never)
		e.Start(t.Context())
		e.Eventf(object(), corev1.EventTypeNormal, "ScaledUp", "not answered at first")
		time.Sleep(9 * time.Second)
		hangs.Store(false)
		synctest.Wait()
		if n := len(client.Actions()); n != 0 {
			t.Errorf("%d requests, and the first has not been given up", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(client.Actions()); n != 1 || e.Lost() != 0 {
			t.Errorf("%d requests after that, %d events lost", n, e.Lost())
		}
		e.Shutdown(t.Context())
	})
}

// TestRetriable: what passes, and what an API server means to stay.
func TestRetriable(t *testing.T) {
	resource := corev1.Resource("events")
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{errors.New("connection refused"), true},
		{context.DeadlineExceeded, true},
		{apierrors.NewTooManyRequests("wait", 1), true},
		{apierrors.NewServerTimeout(resource, "create", 1), true},
		{apierrors.NewTimeoutError("wait", 1), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{apierrors.NewServiceUnavailable("starting"), true},
		{apierrors.NewForbidden(resource, "x", errors.New("no")), false},
		{apierrors.NewNotFound(resource, "x"), false},
		{apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Event").GroupKind(), "x", nil), false},
		{apierrors.NewUnauthorized("no"), false},
	} {
		if got := retriable(fmt.Errorf("creating an event: %w", tc.err)); got != tc.want {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
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
