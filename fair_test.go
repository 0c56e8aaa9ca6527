package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/workload/workloadtest"
)

// hangsFor is the request timeout of the program's client, and of a webhook by default.
const hangsFor = 10 * time.Second

// slowly has each write of counts and records go through before first, which may take its
// time and refuse it. The fake clientset's own reactors cannot, as they hold its lock.
func (w *world) slowly(before func(ctx context.Context, namespace string) error) {
	w.Client.Client = slowClientset{w.client, before}
}

type slowClientset struct {
	kubernetes.Interface
	before func(ctx context.Context, namespace string) error
}

func (c slowClientset) AppsV1() appsv1client.AppsV1Interface {
	return slowApps{c.Interface.AppsV1(), c.before}
}

type slowApps struct {
	appsv1client.AppsV1Interface
	before func(ctx context.Context, namespace string) error
}

func (a slowApps) Deployments(namespace string) appsv1client.DeploymentInterface {
	return slowDeployments{a.AppsV1Interface.Deployments(namespace), namespace, a.before}
}

type slowDeployments struct {
	appsv1client.DeploymentInterface
	namespace string
	before    func(ctx context.Context, namespace string) error
}

func (d slowDeployments) UpdateScale(ctx context.Context, name string, scale *autoscalingv1.Scale, opts metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if err := d.before(ctx, d.namespace); err != nil {
		return nil, err
	}
	return d.DeploymentInterface.UpdateScale(ctx, name, scale, opts)
}

func (d slowDeployments) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*appsv1.Deployment, error) {
	if err := d.before(ctx, d.namespace); err != nil {
		return nil, err
	}
	return d.DeploymentInterface.Patch(ctx, name, pt, data, opts, subresources...)
}

// takes is a request that takes so long, unless its context ends first.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// hang is a request that nobody answers.
func hang(ctx context.Context) error {
	if err := takes(ctx, hangsFor); err != nil {
		return err
	}
	return errors.New("Internal error occurred: failed calling webhook: context deadline exceeded")
}

// crowd is n Deployments of a namespace with the same schedule.
func crowd(namespace string, n int, annotations ...string) []*appsv1.Deployment {
	var list []*appsv1.Deployment
	for i := range n {
		d := workloadtest.Deployment(3, annotations...)
		d.Namespace, d.Name, d.UID = namespace, fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%s-%d", namespace, i))
		list = append(list, d)
	}
	return list
}

// awake is how many Deployments of the namespace have replicas.
func (w *world) awake(namespace string) (n int) {
	w.t.Helper()
	list, err := w.client.AppsV1().Deployments(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if *list.Items[i].Spec.Replicas > 0 {
			n++
		}
	}
	return n
}

// scales is the number of counts written since it or taken was last called.
func (w *world) scales() (n int) {
	for _, write := range w.taken() {
		if strings.HasPrefix(write, "scale") {
			n++
		}
	}
	return n
}

// TestTroubleStaysInItsNamespace: hundreds of writes that hang in other namespaces, which
// began at once or one namespace after the other, do not delay a boundary.
func TestTroubleStaysInItsNamespace(t *testing.T) {
	for _, tc := range []struct {
		name             string
		namespaces, each int
		apart            time.Duration // from one namespace's boundary to the next's
		well             int           // one write of so many is answered; 0: none
		workers, most    int           // writes that hang at once
	}{
		{"at once", 3, 500, 0, 0, 16, 80},
		{"one after the other", 3, 500, time.Second, 0, 16, 80},
		{"one", 1, 200, 0, 0, 16, 80},
		{"half of the writes", 3, 200, time.Second, 2, 16, 80},
		{"one worker", 3, 100, time.Second, 0, 1, 65},
		{"many workers", 3, 300, time.Second, 0, 100, 300},
		{"many namespaces", 15, 40, 200 * time.Millisecond, 0, 16, 80},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := nighttest.Time(t, "2000-01-01T00:00:20Z")
				at := first.Add(3 * time.Second)
				sleepsAt := func(at time.Time) []string {
					return []string{"window=00:00-20:00", "awake-until=" + at.Format(time.RFC3339Nano)}
				}
				objects := crowd("good", 1, sleepsAt(at)...)
				for i := range tc.namespaces {
					objects = append(objects, crowd(fmt.Sprintf("bad-%d", i), tc.each, sleepsAt(first.Add(time.Duration(i)*tc.apart))...)...)
				}
				w := newWorld(t, clock.RealClock{}, objects...)
				w.Workers = tc.workers
				var writes, hanging, most atomic.Int64
				w.slowly(func(ctx context.Context, namespace string) error {
					if namespace == "good" || time.Now().Before(first) || tc.well > 0 && writes.Add(1)%int64(tc.well) == 0 {
						return takes(ctx, 5*time.Millisecond)
					}
					for n, max := hanging.Add(1), most.Load(); n > max && !most.CompareAndSwap(max, n); max = most.Load() {
					}
					defer hanging.Add(-1)
					return hang(ctx)
				})
				w.run()
				time.Sleep(time.Until(at))
				for *w.live("good", "web-0").Spec.Replicas > 0 && time.Since(at) < time.Minute {
					time.Sleep(50 * time.Millisecond)
				}
				if late := time.Since(at); late > 2*time.Second {
					t.Errorf("%v late", late)
				}
				if n := most.Load(); n < int64(min(tc.workers, 12)) || n > int64(tc.most) {
					t.Errorf("%d writes hung at once, want %d at the most", n, tc.most)
				}
				time.Sleep(time.Minute)
				if err := w.Healthy(); err != nil {
					t.Errorf("called ill: %v", err)
				}
				if n, want := hanging.Load(), int64(max(32, tc.workers)); n > want {
					t.Errorf("%d writes hang at once in the long run, want %d at the most", n, want)
				}
			})
		})
	}
}

// TestTroubleEnds: what hung is done soon after its webhook answers again.
func TestTroubleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		w := newWorld(t, clock.RealClock{}, crowd("bad", n, "window=00:01-20:00")...)
		w.Workers = 16
		var hangs atomic.Bool
		w.slowly(func(ctx context.Context, _ string) error {
			if hangs.Load() {
				return hang(ctx)
			}
			return takes(ctx, 5*time.Millisecond)
		})
		w.run()
		w.until("2000-01-01T00:00:50Z")
		hangs.Store(true)
		w.until("2000-01-01T00:02:00Z")
		hangs.Store(false)
		if left := w.awake("bad"); left != n {
			t.Fatalf("%d are awake: nothing hung", left)
		}
		w.until("2000-01-01T00:02:11Z")
		if left := w.awake("bad"); left > n/10 { // what has failed pauses for longer and longer
			t.Errorf("%d are awake", left)
		}
		w.until("2000-01-01T00:04:00Z")
		if left := w.awake("bad"); left > 0 {
			t.Errorf("%d are awake", left)
		}
	})
}

// TestOneNamespaceIsNotSlower: all workers work for one namespace, were its writes as slow
// as those that hang are told by.
func TestOneNamespaceIsNotSlower(t *testing.T) {
	for _, tc := range []struct {
		n    int
		each time.Duration
	}{{1000, 5 * time.Millisecond}, {320, 150 * time.Millisecond}, {160, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, clock.RealClock{}, crowd("big", tc.n, "window=00:01-20:00")...)
			w.Workers = 16
			w.slowly(func(ctx context.Context, _ string) error { return takes(ctx, tc.each) })
			w.run()
			w.until("2000-01-01T00:00:59Z")
			w.taken()
			w.until("2000-01-01T00:01:00Z")
			for done := w.scales(); done < tc.n; done += w.scales() {
				time.Sleep(tc.each)
			}
			// The record and the count of 16 at a time, and a moment to see that it is well.
			want := 2 * tc.each * time.Duration(tc.n/16+5)
			if took := time.Since(nighttest.Time(t, "2000-01-01T00:01:00Z")); took > want {
				t.Errorf("%d writes of %v each took %v, want %v at the most", 2*tc.n, tc.each, took, want)
			}
		})
	}
}

// TestShutdownWhileWritesHang: what waits for a place is not begun any more, and what
// hangs ends with its context.
func TestShutdownWhileWritesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, crowd("bad", 100)...)
		var begun atomic.Int64
		w.slowly(func(ctx context.Context, _ string) error {
			begun.Add(1)
			return hang(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		w.factory.StartWithContext(ctx)
		w.factory.WaitForCacheSyncWithContext(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Second)
		w.Shutdown()
		time.Sleep(4 * time.Second)
		before := begun.Load()
		cancel()
		told := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(told); took > 0 {
			t.Errorf("stopped after %v", took)
		}
		if n := begun.Load(); before == 0 || n != before {
			t.Errorf("%d writes begun, %d after the end", before, n)
		}
		w.factory.Shutdown()
	})
}

// TestBoundaryWhilePassesFail: however long the pause after a failure has become, the next
// boundary is met.
func TestBoundaryWhilePassesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		w.client.PrependReactor("patch", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
			return bytes.Contains(action.(k8stesting.PatchAction).GetPatch(), []byte(`"status":"False"`)), nil, errors.New("status: denied")
		})
		w.run()
		w.settle()
		for day := 1; day <= 5; day++ { // each day the record of the morning is tried in vain
			for _, boundary := range []struct {
				clock string
				want  int32
			}{{"07:00:00", 3}, {"21:00:00", 0}} {
				w.until(fmt.Sprintf("2000-01-%02dT%sZ", day, boundary.clock))
				w.settle()
				if n := *w.live("default", "web").Spec.Replicas; n != boundary.want {
					t.Errorf("day %d: %d replicas at %s, want %d", day, n, boundary.clock, boundary.want)
				}
			}
		}
	})
}

// TestBoundaryWhileAWriteHangs: a write that hangs from before a boundary until after it
// says nothing about the next, which is not put off by what failed before.
func TestBoundaryWhileAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=11:00-12:00", "daytime=enforce"))
		noon := nighttest.Time(t, "2000-01-01T12:00:00Z")
		w.slowly(func(ctx context.Context, _ string) error {
			switch now := time.Now(); {
			case now.Before(noon.Add(-10 * time.Minute)), now.After(noon):
				return nil
			case now.Before(noon.Add(-6 * time.Second)):
				return errors.New("connection refused")
			default:
				return hang(ctx)
			}
		})
		w.run()
		w.until("2000-01-01T11:50:00Z")
		for edits := int32(0); time.Now().Before(noon.Add(-time.Second)); edits++ { // each is put back, in vain
			w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(10 + edits%2) })
			time.Sleep(5 * time.Second)
		}
		if n := w.Queue.NumRequeues("default/web"); n < 5 {
			t.Fatalf("%d failures, so this proves nothing", n)
		}
		time.Sleep(time.Until(noon.Add(hangsFor)))
		w.settle()
		if n := *w.live("default", "web").Spec.Replicas; n != 3 {
			t.Errorf("%d replicas, want 3", n)
		}
	})
}
