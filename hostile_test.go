package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
	"schedule-night/internal/queue"
	"schedule-night/internal/workload/workloadtest"
)

// remembered are the sizes of all that the controller remembers by key.
func (w *world) remembered() map[string]int {
	sizes := map[string]int{}
	for name, contests := range map[string]*queue.Contests{"contests": w.contests, "records": w.records} {
		sizes[name] = reflect.ValueOf(contests).Elem().FieldByName("byKey").Len()
	}
	memory := reflect.ValueOf(w.Controller).Elem()
	for i := range memory.NumField() {
		if field := memory.Field(i); field.Type() == reflect.TypeFor[sync.Map]() {
			(*sync.Map)(field.Addr().UnsafePointer()).Range(func(any, any) bool { sizes[memory.Type().Field(i).Name]++; return true })
		}
	}
	return sizes
}

// TestNothingIsRemembered of who has opted out or is gone: a tenant who makes Deployments,
// opts them in, out, and deletes them, again and again, costs no memory for ever.
func TestNothingIsRemembered(t *testing.T) {
	for name, end := range map[string]func(*world){
		"opted out asleep": func(w *world) { w.edit(func(d *appsv1.Deployment) { d.Annotations = nil }) },
		"opted out awake": func(w *world) {
			w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationAwakeUntil] = "2000-01-01T06:00:00Z" })
			w.settle()
			w.edit(func(d *appsv1.Deployment) { d.Annotations = nil })
		},
		"opted out, another template and expected": func(w *world) {
			w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationAwakeUntil] = "2000-01-01T06:00:00Z" })
			w.settle()
			w.edit(func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostNetwork, d.Annotations = true, nil })
		},
		"deleted": func(w *world) {
			if err := w.tracker.Delete(deploymentResource, "default", "web"); err != nil {
				t.Error(err)
			}
		},
		"opted out without its record": func(w *world) {
			w.edit(func(d *appsv1.Deployment) { d.Annotations, d.Status.Conditions = nil, nil })
		},
		"opted out without its record, being deleted": func(w *world) {
			w.edit(func(d *appsv1.Deployment) {
				d.Annotations, d.Status.Conditions, d.DeletionTimestamp = nil, nil, ptr.To(metav1.Now())
			})
			w.settle()
			if err := w.tracker.Delete(deploymentResource, "default", "web"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "timeZone=UTC"))
				w.run()
				w.settle()
				end(w)
				w.settle()
				for what, n := range w.remembered() {
					if n > 0 {
						t.Errorf("%d %s", n, what)
					}
				}
			})
		})
	}
}

// TestBeingDeleted: nothing is written to what is being deleted, whatever it has lost.
func TestBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		w.run()
		w.settle()
		w.taken()
		w.edit(func(d *appsv1.Deployment) {
			d.Status.Conditions, d.DeletionTimestamp = nil, ptr.To(metav1.Now())
		})
		w.until("2000-01-01T12:00:00Z")
		w.expect()
	})
}

// TestSettleEndsAtTheBoundary: who is not cut in the day, as the controller has just
// started, goes to sleep when it should.
func TestSettleEndsAtTheBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(8, "window=12:00-13:00"))
		w.watchAutoscalers()
		w.Settle = time.Hour
		w.until("2000-01-01T11:59:59.500Z")
		w.run()
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
	})
}

// TestWritesWithoutEffect: somebody, as a webhook, accepts our writes and makes nothing of
// them, so that no event comes. Once that has ended, the resync does what is due.
func TestWritesWithoutEffect(t *testing.T) {
	for _, what := range []string{"update", "patch"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-01:00"))
				var swallow atomic.Bool
				w.client.PrependReactor(what, "deployments", func(a k8stesting.Action) (bool, runtime.Object, error) {
					if !swallow.Load() {
						return false, nil, nil
					}
					if update, ok := a.(k8stesting.UpdateAction); ok {
						return true, update.GetObject().(*autoscalingv1.Scale), nil
					}
					return true, w.live("default", "web"), nil
				})
				w.run()
				w.settle()
				w.taken()
				swallow.Store(true)
				w.until("2000-01-01T02:00:00Z")
				swallow.Store(false)
				w.taken()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				want := []string{"scale web=3", "status web=False/DayWindow"}
				if got := w.taken(); !slices.Equal(got, want[len(want)-len(got):]) || len(got) == 0 {
					t.Errorf("writes %q, want %q", got, want)
				}
				if n := *w.live("default", "web").Spec.Replicas; n != 3 {
					t.Errorf("%d replicas", n)
				}
			})
		})
	}
}

// TestOptOutAmidContestedRecord: whoever takes the record away does not keep one that opts
// out from being woken at once.
func TestOptOutAmidContestedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-20:00"))
		w.run()
		w.settle()
		w.takeAway(15*time.Second, time.Hour)
		w.edit(func(d *appsv1.Deployment) { d.Status.Conditions = nil })
		w.settle()
		w.taken()
		w.edit(func(d *appsv1.Deployment) { d.Annotations = nil })
		w.settle()
		if n := *w.live("default", "web").Spec.Replicas; n != 3 {
			t.Errorf("%d replicas at once, want 3", n)
		}
	})
}

// storm edits a tenant's Deployments by turns, faster than the controller may write, until
// stop is closed.
func (w *world) storm(namespace string, n int, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		w.mu.Lock()
		d := w.live(namespace, fmt.Sprintf("web-%d", i%n))
		d.Annotations[night.AnnotationNightReplicas] = strconv.Itoa(i)
		w.store(d)
		w.mu.Unlock()
	}
}

// TestStorm: a tenant who edits Deployments faster than the controller may write does not
// keep others' records from being written, and others from being woken.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hot = 50
		w := newWorld(t, clock.RealClock{}, append(crowd("hot", hot, "window=00:00-20:00"), workloadtest.Deployment(3, "window=00:00-01:00"))...)
		w.Workers = 4
		turn := make(chan struct{}, 1)
		w.slowly(func(ctx context.Context, _ string) error { // 200 a second
			turn <- struct{}{}
			defer func() { <-turn }()
			return takes(ctx, 5*time.Millisecond)
		})
		w.run()
		w.until("2000-01-01T00:01:00Z")
		stop := make(chan struct{})
		over := make(chan struct{})
		go func() { defer close(over); w.storm("hot", hot, stop) }()
		defer func() { close(stop); <-over }()
		time.Sleep(10 * time.Second)
		w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationWindow] = "00:00-00:02" })
		time.Sleep(5 * time.Second)
		if got, want := w.record("default", "web").Message, "replicas=0 expected=3 until=2000-01-01T00:02:00Z"; got != want {
			t.Errorf("five seconds after an edit, the record says %q, want %q", got, want)
		}
		w.until("2000-01-01T00:02:02Z")
		if n := *w.live("default", "web").Spec.Replicas; n != 3 {
			t.Errorf("%d replicas two seconds after the night", n)
		}
	})
}

// TestShortEvents: an owner's words are cut in what is told of each change of a count, of
// which thousands wait at a boundary.
func TestShortEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var items []string
		for i := range 300 {
			items = append(items, fmt.Sprintf("%02d:%02d-%02d:%02d", i/60, i%60, i/60+6, i%60))
		}
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window="+strings.Join(items, ",")))
		w.run()
		w.settle()
		got := w.events.all()
		if len(got) != 1 || len(got[0]) > 300 || !strings.Contains(got[0], "00:00-06:00, 00:01-06:01") {
			t.Errorf("events %q", got)
		}
	})
}

// TestWokenEachMorning: whoever was woken, which could not be recorded, and was taken to 0 by
// hand in the day, is woken again after the next night.
func TestWokenEachMorning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=00:00-01:00", "daytime=wake-only"))
		var refused atomic.Bool
		w.client.PrependReactor("patch", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			return refused.Load(), nil, errors.New("forbidden")
		})
		w.run()
		w.settle()
		refused.Store(true)
		w.until("2000-01-01T12:00:00Z")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
		w.until("2000-01-01T23:00:00Z")
		if n := *w.live("default", "web").Spec.Replicas; n != 0 {
			t.Errorf("%d replicas in the day, want what its owner has chosen", n)
		}
		w.until("2000-01-02T01:00:01Z")
		if n := *w.live("default", "web").Spec.Replicas; n != 3 {
			t.Errorf("%d replicas after the next night, want 3", n)
		}
	})
}
