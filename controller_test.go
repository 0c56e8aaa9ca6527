package main

import (
	"context"
	"encoding/json"
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

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"schedule-night/internal/events"
	"schedule-night/internal/leader"
	"schedule-night/internal/metrics"
	"schedule-night/internal/night"
	"schedule-night/internal/night/nighttest"
	"schedule-night/internal/queue"
	"schedule-night/internal/workload"
	"schedule-night/internal/workload/workloadtest"
)

func TestMain(m *testing.M) {
	// Drop the handler that pauses after an error: it measures from an instant
	// outside of a bubble, and so would pause for decades of its time.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	watch.DefaultChanSize = 10_000 // a fake watch that is full panics
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// eventLog is an events.Recorder for tests.
type eventLog struct {
	mu    sync.Mutex
	list  []string
	delay time.Duration // of the caller
}

func (l *eventLog) Eventf(d corev1.ObjectReference, eventtype, reason, format string, args ...any) {
	time.Sleep(l.delay)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf("%s %s %s: ", d.Name, eventtype, reason)+fmt.Sprintf(format, args...))
}

func (l *eventLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *eventLog) reasons() []string {
	var list []string
	for _, e := range l.all() {
		list = append(list, strings.TrimSuffix(strings.Fields(e)[2], ":"))
	}
	return list
}

// world is a controller with a fake API server that, unlike the fake clientset
// alone, assigns resourceVersions, and whose scale subresource scales.
type world struct {
	*Controller
	t       testing.TB
	client  *fake.Clientset
	tracker k8stesting.ObjectTracker // what it has
	factory informers.SharedInformerFactory
	events  *eventLog
	writes  []string // "status web=True/NightWindow", "scale web=0", as they were accepted
	version int
	mu      sync.Mutex
}

var deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")

func newWorld(t testing.TB, clk clock.WithTicker, objects ...*appsv1.Deployment) *world {
	w := &world{t: t, client: fake.NewClientset(), events: &eventLog{}, version: 100}
	// The fake's own tracker keeps managedFields, which takes nine tenths of a test's time.
	w.tracker = k8stesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	w.client.PrependReactor("*", "*", k8stesting.ObjectReaction(w.tracker))
	w.client.PrependWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
		watcher, err := w.tracker.Watch(action.GetResource(), action.GetNamespace(), action.(k8stesting.WatchActionImpl).ListOptions)
		return true, watcher, err
	})
	for _, d := range objects {
		if err := w.tracker.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	w.client.PrependReactor("update", "deployments", w.updateScale)
	w.client.PrependReactor("patch", "deployments", w.patchStatus)
	w.factory = informers.NewSharedInformerFactoryWithOptions(w.client, 30*time.Second, informers.WithTransform(workload.Self{}.Transform))
	w.Controller = NewController(ControllerConfig{
		Client:   workload.Client{Client: w.client},
		Informer: w.factory.Apps().V1().Deployments().Informer(),
		Events:   w.events,
		Queue:    queue.New(clk),
		Metrics:  metrics.New(),
		Clock:    clk,
		Defaults: nighttest.Defaults(t),
		Workers:  4,
	})
	return w
}

// watchAutoscalers has the controller look at autoscalers.
func (w *world) watchAutoscalers() {
	w.Autoscalers = workload.NewAutoscalers(w.Clock, 30*time.Second)
	if err := w.Autoscalers.Attach(w.factory.Autoscaling().V2().HorizontalPodAutoscalers()); err != nil {
		w.t.Fatal(err)
	}
}

// cache puts a Deployment into the informer's cache, without an API server.
func (w *world) cache(d *appsv1.Deployment) *workload.Workload {
	w.t.Helper()
	cached := workloadtest.Of(d)
	if err := w.Informer.GetIndexer().Add(cached); err != nil {
		w.t.Fatal(err)
	}
	return cached
}

// collectors are the controller's metrics.
func (w *world) collectors() []prometheus.Collector {
	return w.Metrics.Collectors(w.Totals, func() int64 { return 0 })
}

// record is that of the object as the API server has it.
func (w *world) record(namespace, name string) *workload.Record {
	return workloadtest.Of(w.live(namespace, name)).Record
}

// live is the object as the API server has it.
func (w *world) live(namespace, name string) *appsv1.Deployment {
	obj, err := w.tracker.Get(deploymentResource, namespace, name)
	if err != nil {
		w.t.Error(err)
		return &appsv1.Deployment{}
	}
	return obj.(*appsv1.Deployment).DeepCopy()
}

// store writes the object with a new resourceVersion, as any client may.
func (w *world) store(d *appsv1.Deployment) {
	w.version++
	d.ResourceVersion = strconv.Itoa(w.version)
	if err := w.tracker.Update(deploymentResource, d, d.Namespace); err != nil {
		w.t.Error(err)
	}
}

func (w *world) edit(change func(*appsv1.Deployment)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.live("default", "web")
	change(d)
	w.store(d)
}

func (w *world) updateScale(action k8stesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(k8stesting.UpdateAction)
	if !ok || action.GetSubresource() != "scale" {
		w.t.Errorf("a write to something else than scale: %v", action)
		return false, nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	scale := update.GetObject().(*autoscalingv1.Scale)
	obj, err := w.tracker.Get(deploymentResource, scale.Namespace, scale.Name)
	if err != nil {
		return true, nil, err
	}
	d := obj.(*appsv1.Deployment).DeepCopy()
	if scale.UID == "" || scale.ResourceVersion == "" {
		w.t.Errorf("an unconditional write: %+v", scale)
	}
	if scale.UID != d.UID || scale.ResourceVersion != d.ResourceVersion {
		return true, nil, apierrors.NewConflict(appsv1.Resource("deployments/scale"), d.Name, errors.New("the object has been modified"))
	}
	d.Spec.Replicas = &scale.Spec.Replicas
	w.store(d)
	w.writes = append(w.writes, fmt.Sprintf("scale %s=%d", d.Name, scale.Spec.Replicas))
	return true, scale, nil
}

func (w *world) patchStatus(action k8stesting.Action) (bool, runtime.Object, error) {
	patch := action.(k8stesting.PatchAction)
	if action.GetSubresource() != "status" || patch.GetPatchType() != types.StrategicMergePatchType {
		w.t.Errorf("a patch of something else than the status: %v", action)
	}
	var body struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
		}
		Status struct{ Conditions []appsv1.DeploymentCondition }
	}
	if err := json.Unmarshal(patch.GetPatch(), &body); err != nil || len(body.Status.Conditions) != 1 {
		w.t.Errorf("patch %s: %v", patch.GetPatch(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	obj, err := w.tracker.Get(deploymentResource, patch.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	d := obj.(*appsv1.Deployment).DeepCopy()
	if body.Metadata.UID != d.UID {
		return true, nil, apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), d.Name, nil)
	}
	if version := body.Metadata.ResourceVersion; version != "" && version != d.ResourceVersion {
		return true, nil, apierrors.NewConflict(appsv1.Resource("deployments/status"), d.Name, errors.New("the object has been modified"))
	}
	want := body.Status.Conditions[0]
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == want.Type })
	d.Status.Conditions = append(d.Status.Conditions, want)
	w.store(d)
	w.writes = append(w.writes, fmt.Sprintf("status %s=%s/%s", d.Name, want.Status, want.Reason))
	return true, d, nil
}

// run runs the controller in a synctest bubble until the test is over.
func (w *world) run() {
	logger := ktesting.NewLogger(w.t, ktesting.NewConfig(ktesting.Verbosity(2))) // shown if the test fails
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	w.factory.StartWithContext(ctx)
	w.factory.WaitForCacheSyncWithContext(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
		w.factory.Shutdown()
	})
	synctest.Wait()
}

// until lets the bubble's time pass up to the given instant, and all that it sets
// off. The informer's resync is the only thing that goes on.
func (w *world) until(at string) {
	w.t.Helper()
	time.Sleep(time.Until(nighttest.Time(w.t, at)))
	synctest.Wait()
}

// settle lets all that is due now, and retries of milliseconds, happen.
func (w *world) settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// taken are the writes since it was last called.
func (w *world) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.writes
	w.writes = nil
	return writes
}

// writesSoFar is how many there are since taken was called.
func (w *world) writesSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes)
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if writes := w.taken(); !slices.Equal(writes, want) {
		w.t.Errorf("at %s: writes %q, want %q", time.Now().UTC().Format(time.DateTime), writes, want)
	}
}

// TestTwoDays goes through two whole days: a write at each boundary, at the very
// instant, and none between.
func TestTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01T00:00:00Z
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		for _, day := range []string{"01", "02"} {
			w.until("2000-01-" + day + "T06:59:59Z")
			w.expect()
			w.until("2000-01-" + day + "T07:00:00Z")
			w.settle()
			w.expect("scale web=3", "status web=False/DayWindow")
			c := w.record("default", "web")
			if want := "replicas=3 expected=3 until=2000-01-" + day + "T21:00:00Z"; c.Message != want {
				t.Errorf("message %q, want %q", c.Message, want)
			}
			if at := nighttest.Time(t, "2000-01-"+day+"T07:00:00Z"); c.Since.Sub(at) > time.Second {
				t.Errorf("transition at %v, want %v", c.Since, at)
			}
			w.until("2000-01-" + day + "T20:59:59Z")
			w.expect()
			w.until("2000-01-" + day + "T21:00:00Z")
			w.settle()
			w.expect("status web=True/NightWindow", "scale web=0")
		}
		if got, want := w.events.reasons(), []string{"ScaledDown", "ScaledUp", "ScaledDown", "ScaledUp", "ScaledDown"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if want := `web Normal ScaledDown: Scaled from 3 to 0: asleep in window "21:00-07:00" UTC, next change 2000-01-01T07:00:00Z`; w.events.all()[0] != want {
			t.Errorf("event %q, want %q", w.events.all()[0], want)
		}
	})
}

// TestEdits: an edit takes effect at once, in both directions, day and night.
func TestEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "night-replicas=1"))
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=1")
		set := func(name, value string) {
			w.edit(func(d *appsv1.Deployment) { d.Annotations[night.Prefix+name] = value })
			w.settle()
		}
		set("night-replicas", "0") // less: done before it is recorded
		w.expect("scale web=0", "status web=True/NightWindow")
		set("awake-until", "2000-01-01T01:00:00Z")
		w.expect("scale web=3", "status web=False/AwakeUntil")
		w.until("2000-01-01T01:00:00Z")
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		set("window", "bad")
		w.expect("status web=Unknown/InvalidSchedule")
		set("window", "02:00-03:00")
		w.expect("scale web=3", "status web=False/DayWindow")
		set("expected", "5")
		w.expect("scale web=5", "status web=False/DayWindow")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) })
		w.settle()
		w.expect("scale web=5") // the condition says that already
		set("on", "false")
		w.expect()
		w.until("2000-01-01T02:30:00Z")
		w.expect()
		set("on", "true")
		w.expect("status web=True/NightWindow", "scale web=0")
		w.edit(func(d *appsv1.Deployment) { d.Annotations = nil })
		w.settle()
		w.expect("scale web=5", "status web=False/Released")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) })
		w.settle()
		w.expect()
		want := []string{"ScaledDown", "ScaledDown", "ScaledUp", "ScaledDown", "InvalidSchedule", "ScaledUp", "ScaledUp", "ScaledDown", "ScaledDown", "ScaledUp", "Released"}
		if got := w.events.reasons(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// TestInvalidIsQuiet: a lasting error is one event and one condition, no retries.
func TestInvalidIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "timezone=CEST"))
		w.run()
		w.until("2000-01-02T00:00:00Z")
		w.expect("status web=Unknown/InvalidSchedule")
		if got := w.events.all(); len(got) != 1 || !strings.Contains(got[0], `schedule-night.svc/timezone "CEST": want the name of an IANA time zone`) {
			t.Errorf("events %q", got)
		}
		if n := w.Queue.NumRequeues("default/web"); n != 0 {
			t.Errorf("%d retries", n)
		}
	})
}

// TestClockStep: the timers of the queue do not see a wall clock that was set; the
// resync does. The controller's clock is a fake one beside the bubble's.
func TestClockStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stepped := &steppedClock{}
		w := newWorld(t, stepped, workloadtest.Deployment(3, "window=05:00-06:00"))
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		stepped.set(5 * time.Hour) // forwards: it is 05:00 now
		time.Sleep(30 * time.Second)
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		stepped.set(0) // and back again
		time.Sleep(30 * time.Second)
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")
	})
}

// steppedClock is the bubble's clock with an offset.
type steppedClock struct {
	clock.RealClock
	mu     sync.Mutex
	offset time.Duration
}

func (c *steppedClock) set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = offset
}

func (c *steppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

// TestStaleCache: a conflict is settled by the live object.
func TestStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		// The cache never sees this edit's version before the write is tried.
		w.client.PrependReactor("update", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			w.client.ReactionChain = w.client.ReactionChain[1:]
			w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationNightReplicas] = "2" })
			return false, nil, nil
		})
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "status web=True/NightWindow", "scale web=2")
	})
}

// TestRecreated: an object that was made anew under the same name is looked at
// again before it is written to.
func TestRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.AsleepSince(workloadtest.Deployment(3)))
		w.client.PrependReactor("update", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			w.client.ReactionChain = w.client.ReactionChain[1:]
			w.edit(func(d *appsv1.Deployment) {
				d.UID, d.Annotations, d.Status = "uid-2", map[string]string{}, appsv1.DeploymentStatus{}
			})
			return false, nil, nil
		})
		w.run()
		w.settle()
		w.expect()
	})
}

// TestDeletedWhileQueued: a key without an object, or with one that is being
// deleted, is no error.
func TestDeletedWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "finalizer=x"))
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		w.edit(func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		w.until("2000-01-01T08:00:00Z")
		w.expect()
		if err := w.tracker.Delete(deploymentResource, "default", "web"); err != nil {
			t.Fatal(err)
		}
		w.Queue.Add("default/web")
		w.settle()
		w.expect()
		if n := w.Queue.NumRequeues("default/web"); n != 0 || w.Queue.Deferred("default/web") {
			t.Errorf("%d retries, marked: %v", n, w.Queue.Deferred("default/web"))
		}
	})
}

// TestForbidden: a write that is refused is tried again with growing pauses, told
// once, and holds up nobody else.
func TestForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := workloadtest.Deployment(3)
		other.Name, other.UID = "other", "uid-2"
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3), other)
		var tries atomic.Int64
		var allowed atomic.Bool
		w.client.PrependReactor("update", "deployments", func(action k8stesting.Action) (bool, runtime.Object, error) {
			if action.(k8stesting.UpdateAction).GetObject().(*autoscalingv1.Scale).Name != "web" || allowed.Load() {
				return false, nil, nil
			}
			tries.Add(1)
			return true, nil, apierrors.NewForbidden(appsv1.Resource("deployments/scale"), "web", errors.New("quota"))
		})
		w.run()
		w.settle()
		writes := w.taken()
		slices.Sort(writes)
		if want := []string{"scale other=0", "status other=True/NightWindow", "status web=True/NightWindow"}; !slices.Equal(writes, want) {
			t.Errorf("writes %q, want %q", writes, want)
		}
		w.until("2000-01-01T01:00:00Z")
		w.expect()
		if tries := tries.Load(); tries < 20 || tries > 30 { // 5 ms, 10 ms, … 300 s; resyncs do not add to it
			t.Errorf("%d tries in an hour", tries)
		}
		if got := w.events.reasons(); !slices.Equal(got, []string{"ScaledDown", "ReconcileFailed"}) {
			t.Errorf("events %q", w.events.all())
		}
		allowed.Store(true)
		w.until("2000-01-01T01:05:01Z")
		w.settle()
		w.expect("scale web=0") // as it was recorded
		if n := w.Queue.NumRequeues("default/web"); n != 0 {
			t.Errorf("still counts %d failures", n)
		}
	})
}

// TestStatusWaits: on waking, no condition is written while a scale write waits.
func TestStatusWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []*appsv1.Deployment
		for i := range 200 {
			d := workloadtest.AsleepSince(workloadtest.Deployment(0, "window=12:00-13:00"))
			d.Name, d.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
			objects = append(objects, d)
		}
		w := newWorld(t, clock.RealClock{}, objects...)
		w.run()
		w.settle()
		writes := w.taken()
		if len(writes) != 400 {
			t.Fatalf("%d writes, want 400", len(writes))
		}
		for i, write := range writes {
			// A worker that had its key in hand already may be overtaken.
			if strings.HasPrefix(write, "status") && i < 200-w.Workers {
				t.Errorf("write %d is %s", i, write)
			}
		}
	})
}

// TestBandOfRecords: what was woken waits for its record in the second band from the start,
// and what is gone waits there no more.
func TestBandOfRecords(t *testing.T) {
	const key = "default/web"
	clk := clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-29T07:00:00Z"))
	w := newWorld(t, clk, workloadtest.AsleepSince(workloadtest.Deployment(0)))
	defer w.Queue.ShutDown()
	cached := w.cache(w.live("default", "web"))
	pass := func(want bool) {
		t.Helper()
		if _, err := w.reconcile(context.Background(), key); err != nil {
			t.Error(err)
		}
		if got := w.Queue.Deferred(key); got != want {
			t.Errorf("in the second band: %v", got)
		}
	}
	pass(true)
	w.expect("scale web=3")
	if err := w.Informer.GetIndexer().Delete(cached); err != nil {
		t.Fatal(err)
	}
	pass(false)
}

// TestWokenIsForgotten: once it is recorded that something was woken, nothing else has to
// remember it through the day.
func TestWokenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		w.run()
		w.until("2000-01-01T12:00:00Z")
		w.woken.Range(func(key, _ any) bool {
			t.Errorf("%v is remembered", key)
			return true
		})
	})
}

// TestRecordOutOfDate: when the clock makes another record due while the one that comes
// before the count is written, nothing is scaled by the old one.
func TestRecordOutOfDate(t *testing.T) {
	clk := clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T22:59:59Z"))
	w := newWorld(t, clk, workloadtest.Deployment(3, "asleep-until=2026-11-28T23:00:00Z"))
	defer w.Queue.ShutDown()
	w.cache(w.live("default", "web"))
	w.client.PrependReactor("patch", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
		clk.Step(time.Second)
		return false, nil, nil
	})
	for _, want := range [][]string{
		{"status web=True/AsleepUntil"},
		{"scale web=0"}, // it is recorded that it sleeps
	} {
		if _, err := w.reconcile(context.Background(), "default/web"); err != nil {
			t.Error(err)
		}
		w.expect(want...)
		w.cache(w.live("default", "web"))
	}
}

// TestLateCache: what a cache shows that lags behind our own write is nobody's doing, at a
// resync either, so the event comes when there is somebody to be named.
func TestLateCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		defer w.Queue.ShutDown()
		pass := func() {
			t.Helper()
			if _, err := w.reconcile(context.Background(), "default/web"); err != nil {
				t.Error(err)
			}
		}
		w.cache(w.live("default", "web"))
		pass()
		for range 3 {
			w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })
			seen := w.cache(w.live("default", "web"))
			w.edit(func(d *appsv1.Deployment) { d.Status.ObservedGeneration++ }) // which is not seen
			before := len(w.events.all())
			pass()
			lagging := len(w.events.all())
			w.updated(seen, seen)
			pass()
			if now := w.events.all(); len(now) != lagging {
				t.Errorf("after %q: %q", now[before:lagging], now[lagging:])
			}
		}
		if got := w.events.reasons(); got[len(got)-1] != "Contested" {
			t.Errorf("events %q", got)
		}
	})
}

// TestCacheIsNotMutated: with KUBE_CACHE_MUTATION_DETECTOR=true, as the Makefile
// sets it, client-go panics too; this holds without.
func TestCacheIsNotMutated(t *testing.T) {
	clk := clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T23:00:00Z"))
	for _, d := range []*appsv1.Deployment{workloadtest.Deployment(3), workloadtest.Deployment(0), workloadtest.Without(workloadtest.AsleepSince(workloadtest.Deployment(0)), "on"), workloadtest.Deployment(3, "window=x")} {
		w := newWorld(t, clk, d)
		cached := w.cache(d)
		before := cached.DeepCopy()
		for range 3 {
			if _, err := w.reconcile(context.Background(), "default/web"); err != nil {
				t.Error(err)
			}
		}
		if !reflect.DeepEqual(before, cached) {
			t.Errorf("the cached object changed from %+v to %+v", before, cached)
		}
		w.Queue.ShutDown()
	}
}

// TestHandlers: what reaches the queue.
func TestHandlers(t *testing.T) {
	version := func(d *appsv1.Deployment, v string) *appsv1.Deployment {
		d.ResourceVersion = v
		return d
	}
	unmanaged := func() *appsv1.Deployment { return workloadtest.Without(workloadtest.Deployment(3), "on") }
	churn := workloadtest.Deployment(3)
	churn.Status.ReadyReplicas = 2
	of := workloadtest.Of
	update := func(w *world, old, cur *appsv1.Deployment) { w.updated(of(old), of(cur)) }
	for _, tc := range []struct {
		name string
		call func(*world)
		want int
	}{
		{"added", func(w *world) { w.added(of(workloadtest.Deployment(3))) }, 1},
		{"added, never opted in", func(w *world) { w.added(of(unmanaged())) }, 0},
		{"added, opted out while asleep", func(w *world) { w.added(of(workloadtest.AsleepSince(unmanaged()))) }, 1},
		{"updated, never opted in", func(w *world) { update(w, unmanaged(), version(unmanaged(), "2")) }, 0},
		{"updated, opted in", func(w *world) { update(w, unmanaged(), version(workloadtest.Deployment(3), "2")) }, 1},
		{"updated, opted out", func(w *world) { update(w, workloadtest.Deployment(3), version(unmanaged(), "2")) }, 1},
		{"status churn", func(w *world) { update(w, workloadtest.Deployment(3), version(churn, "2")) }, 0},
		{"replicas", func(w *world) { update(w, workloadtest.Deployment(3), version(workloadtest.Deployment(2), "2")) }, 1},
		{"an annotation", func(w *world) {
			update(w, workloadtest.Deployment(3), version(workloadtest.Deployment(3, "expected=4"), "2"))
		}, 1},
		{"our condition", func(w *world) {
			update(w, workloadtest.Deployment(3), version(workloadtest.AsleepSince(workloadtest.Deployment(3)), "2"))
		}, 1},
		{"made anew", func(w *world) {
			d := version(workloadtest.Deployment(3), "2")
			d.UID = "uid-2"
			update(w, workloadtest.Deployment(3), d)
		}, 1},
		{"resync", func(w *world) { update(w, workloadtest.Deployment(3), workloadtest.Deployment(3)) }, 1},
		{"deleted", func(w *world) {
			w.deleted(of(workloadtest.Deployment(3)))
		}, 1},
		{"deleted, never opted in", func(w *world) {
			w.deleted(of(unmanaged()))
		}, 0},
		{"a tombstone without an object", func(w *world) {
			w.deleted(cache.DeletedFinalStateUnknown{Key: "default/web"})
		}, 1},
	} {
		w := newWorld(t, clock.RealClock{})
		tc.call(w)
		if got := w.Queue.Len(); got != tc.want {
			t.Errorf("%s: %d keys queued, want %d", tc.name, got, tc.want)
		}
		w.Queue.ShutDown()
	}
}

// TestEventSaysWhatWasDecided: a write may wait for the client's rate limit until the next
// boundary. Its event explains what was written, not what would be by then.
func TestEventSaysWhatWasDecided(t *testing.T) {
	clk := clocktesting.NewFakeClock(nighttest.Time(t, "2026-11-28T06:59:50Z"))
	w := newWorld(t, clk, workloadtest.Deployment(3))
	defer w.Queue.ShutDown()
	w.client.PrependReactor("update", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
		clk.Step(20 * time.Second)
		return false, nil, nil
	})
	w.cache(w.live("default", "web"))
	if _, err := w.reconcile(t.Context(), "default/web"); err != nil {
		t.Fatal(err)
	}
	want := []string{`web Normal ScaledDown: Scaled from 3 to 0: asleep in window "21:00-07:00" UTC, next change 2026-11-28T07:00:00Z`}
	if got := w.events.all(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestShutdown: the pass in flight is finished, the backlog is not begun.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []*appsv1.Deployment
		for i := range 20 {
			d := workloadtest.Deployment(3)
			d.Name = fmt.Sprintf("web-%d", i)
			objects = append(objects, d)
		}
		w := newWorld(t, clock.RealClock{}, objects...)
		w.events.delay = time.Second // in the middle of a pass; the fake clientset holds a lock in its reactors
		ctx := t.Context()
		w.factory.StartWithContext(ctx)
		w.factory.WaitForCacheSyncWithContext(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(500 * time.Millisecond)
		w.Shutdown()
		begun := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 500*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
		if n := len(w.taken()); n == 0 || n > 2*w.Workers {
			t.Errorf("%d writes, want the two of each of the %d passes in flight at the most", n, w.Workers)
		}
	})
}

// TestRecordFirst: where in the morning only the record will tell that a count is the
// night's, no count is written without it: or a controller that is away until then would
// leave the Deployment at the night's count all day.
func TestRecordFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=12:00-13:00", "daytime=wake-only", "night-replicas=1"))
		var away atomic.Bool
		w.client.PrependReactor("patch", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("connection refused")
		})
		w.run()
		w.settle()
		w.expect("status web=False/DayWindow")
		w.until("2000-01-01T12:00:00Z")
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=1")
		w.until("2000-01-01T13:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=False/DayWindow")

		away.Store(true)
		w.until("2000-01-02T12:30:00Z")
		away.Store(false)
		w.until("2000-01-02T12:40:00Z")
		w.expect("status web=True/NightWindow", "scale web=1")
		w.until("2000-01-02T14:00:00Z")
		w.expect("scale web=3", "status web=False/DayWindow")

		away.Store(true)
		w.until("2000-01-03T14:00:00Z")
		away.Store(false)
		w.until("2000-01-03T15:00:00Z")
		w.expect("status web=False/DayWindow") // until tomorrow; it has not slept, and is at 3
	})
}

// TestLastEvents: a leader that is told to stop delivers its events before it releases
// the Lease: after that it may not write.
func TestLastEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		w := newWorld(t, clock.RealClock{})
		leadership := leader.New(leader.Options{LeaderElect: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Namespace: "default", Name: "schedule-night"})
		var late, delivered atomic.Int64
		w.client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			if !leadership.Leading() {
				late.Add(1)
			}
			delivered.Add(1)
			return false, nil, nil
		})
		var hold atomic.Bool
		hold.Store(true) // as during the scale writes of a boundary
		events := events.New(w.client.CoreV1(), workload.FieldManager, clock.RealClock{}, hold.Load)
		events.Start(t.Context())
		w.factory.StartWithContext(t.Context())
		stop, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- leadership.Run(t.Context(), stop, w.client.CoordinationV1(), leading{w.Controller, events}, shutdownPatience)
		}()
		for !leadership.Leading() { // where there has been no Lease, it takes a moment
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for i := range n {
			d := workloadtest.Deployment(3)
			d.Name, d.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
			events.Eventf(workloadtest.Of(d).Ref(), corev1.EventTypeNormal, reasonScaledDown, "Scaled from 3 to 0")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if delivered.Load() != n || late.Load() != 0 || events.Lost() != 0 {
			t.Errorf("%d of %d events delivered, %d after the release, %d lost", delivered.Load(), n, late.Load(), events.Lost())
		}
	})
}

// TestHealthy: ill only when passes that never end keep all others from running.
func TestHealthy(t *testing.T) {
	for _, tc := range []struct {
		name         string
		stuck, each  int // namespaces whose writes never end, and what is to be written there
		well         bool
		ill          bool
		stillHealthy time.Duration
	}{
		{"nothing", 0, 0, true, false, 0},
		{"a namespace", 1, 100, true, false, 0},
		{"all of a namespace that can run", 1, 4, false, false, 0},
		{"the only namespace, and more waits there", 1, 5, false, true, 2 * time.Minute},
		{"many namespaces", 30, 10, true, false, 0},
		{"all there are", 5, 100, false, true, 2 * time.Minute},
		{"so many that they have all places", 80, 2, true, true, 2 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []*appsv1.Deployment
				if tc.well {
					objects = crowd("well", 1, "window=12:00-13:00")
				}
				for i := range tc.stuck {
					objects = append(objects, crowd(fmt.Sprintf("stuck-%d", i), tc.each)...)
				}
				w := newWorld(t, clock.RealClock{}, objects...)
				never := make(chan struct{})
				w.slowly(func(_ context.Context, namespace string) error {
					if namespace != "well" {
						<-never
					}
					return nil
				})
				w.run()
				defer close(never)
				begun := time.Now()
				time.Sleep(tc.stillHealthy)
				if err := w.Healthy(); err != nil {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
				for _, after := range []time.Duration{2*time.Minute + 10*time.Second, 12 * time.Minute} {
					time.Sleep(time.Until(begun.Add(after)))
					if err := w.Healthy(); (err != nil) != tc.ill {
						t.Errorf("after %v: %v", time.Since(begun), err)
					}
				}
			})
		})
	}
}

// asleepTo records that a Deployment sleeps at a count until 07:00 of the bubble's first day.
func asleepTo(d *appsv1.Deployment, replicas int32, reason string) *appsv1.Deployment {
	return workloadtest.WithCondition(d, corev1.ConditionTrue, reason,
		workload.Applied{Replicas: replicas, Expected: 3, Until: time.Date(2000, 1, 1, 7, 0, 0, 0, time.UTC)}.String())
}

// TestOrderOfWrites goes through the table of what a crash, or an edit, between two writes
// leaves: what is found then, and what is made of it. Nothing is ever at its night count
// by our hand without a record that says so.
func TestOrderOfWrites(t *testing.T) {
	const day = "window=12:00-13:00" // the bubble begins at midnight
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		want []string
	}{
		{"going to sleep: recorded, still awake", asleepTo(workloadtest.Deployment(3), 0, workload.ReasonNightWindow),
			[]string{"scale web=0"}},
		{"going to sleep: recorded, still awake, opted out", workloadtest.Without(asleepTo(workloadtest.Deployment(3), 0, workload.ReasonNightWindow), "on"),
			[]string{"status web=False/Released"}},
		{"going to sleep: recorded, edited since", asleepTo(workloadtest.Deployment(3, "night-replicas=1"), 0, workload.ReasonNightWindow),
			[]string{"status web=True/NightWindow", "scale web=1"}},
		{"waking: awake, not recorded", asleepTo(workloadtest.Deployment(3, day), 0, workload.ReasonNightWindow),
			[]string{"status web=False/DayWindow"}},
		{"waking: awake, not recorded, opted out", workloadtest.Without(asleepTo(workloadtest.Deployment(3, day), 0, workload.ReasonNightWindow), "on"),
			[]string{"status web=False/Released"}},
		{"waking: not done", asleepTo(workloadtest.Deployment(0, day), 0, workload.ReasonNightWindow),
			[]string{"scale web=3", "status web=False/DayWindow"}},
		{"night count raised: recorded, not done", asleepTo(workloadtest.Deployment(0, "night-replicas=2"), 2, workload.ReasonNightWindow),
			[]string{"scale web=2"}},
		{"night count raised: recorded, not done, opted out", workloadtest.Without(asleepTo(workloadtest.Deployment(0), 2, workload.ReasonNightWindow), "on"),
			[]string{"scale web=3", "status web=False/Released"}},
		{"night count lowered: done, not recorded", asleepTo(workloadtest.Deployment(0), 2, workload.ReasonNightWindow),
			[]string{"status web=True/NightWindow"}},
		{"night count lowered: done, not recorded, opted out", workloadtest.Without(asleepTo(workloadtest.Deployment(0), 2, workload.ReasonNightWindow), "on"),
			[]string{"scale web=3", "status web=False/Released"}},
		{"release: woken, not recorded", workloadtest.Without(asleepTo(workloadtest.Deployment(3), 0, workload.ReasonNightWindow), "on"),
			[]string{"status web=False/Released"}},
		{"asleep and recorded", asleepTo(workloadtest.Deployment(0), 0, workload.ReasonNightWindow), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, tc.d)
				w.run()
				w.settle()
				w.expect(tc.want...)
			})
		})
	}
}

// TestEditBetweenWrites: what somebody changes between the two writes of going to sleep is
// looked at before the second.
func TestEditBetweenWrites(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*appsv1.Deployment)
		want []string
	}{
		{"opted out", func(d *appsv1.Deployment) { delete(d.Annotations, night.AnnotationOn) },
			[]string{"status web=True/NightWindow", "status web=False/Released"}},
		{"kept up", func(d *appsv1.Deployment) { d.Annotations[night.AnnotationAwakeUntil] = "2000-01-01T02:00:00Z" },
			[]string{"status web=True/NightWindow", "status web=False/AwakeUntil"}},
		{"scaled", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) },
			[]string{"status web=True/NightWindow", "scale web=0"}},
	} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before the first write: %v", tc.name, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
					verb, want := "update", tc.want
					if before {
						verb, want = "patch", tc.want[1:]
						if tc.name == "scaled" {
							want = tc.want
						}
						if tc.name == "opted out" {
							want = nil
						}
					}
					w.client.PrependReactor(verb, "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
						w.client.ReactionChain = w.client.ReactionChain[1:]
						w.edit(tc.edit)
						return false, nil, nil
					})
					w.run()
					w.settle()
					w.expect(want...)
				})
			})
		}
	}
}

// TestMorningOfTheInvalid: whose schedule is broken while it sleeps is woken when the
// night ends that it went to sleep for, by the record; never lowered, and once alone.
func TestMorningOfTheInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3))
		w.run()
		w.settle()
		w.expect("status web=True/NightWindow", "scale web=0")
		w.edit(func(d *appsv1.Deployment) { d.Annotations[night.AnnotationWindow] = "9pm-7am" })
		w.until("2000-01-01T06:59:59Z")
		w.expect("status web=Unknown/InvalidSchedule")
		w.until("2000-01-01T07:00:00Z")
		w.settle()
		w.expect("scale web=3", "status web=Unknown/InvalidSchedule")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }) // somebody's choice now
		w.until("2000-01-02T12:00:00Z")
		w.expect()
	})
}

// TestWokenOnce: who is only woken, and is scaled down before that was recorded, is not
// raised again.
func TestWokenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, asleepTo(workloadtest.Deployment(0, "window=12:00-13:00", "daytime=wake-only"), 0, workload.ReasonNightWindow))
		var away atomic.Bool
		away.Store(true)
		w.client.PrependReactor("patch", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("connection refused")
		})
		w.run()
		w.settle()
		w.expect("scale web=3")
		w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
		w.settle()
		w.expect()
		away.Store(false)
		w.until("2000-01-01T01:00:00Z")
		w.expect("status web=False/DayWindow")
	})
}

// TestOwnWritesAreNotUndone: a pass that comes before the cache has seen our own write does
// not repeat it. The API server would refuse it, at the cost of three requests.
func TestOwnWritesAreNotUndone(t *testing.T) {
	for _, tc := range []struct {
		d          *appsv1.Deployment
		want, then []string
	}{
		{workloadtest.Deployment(3), []string{"status web=True/NightWindow", "scale web=0"}, nil},
		{workloadtest.Deployment(0, "window=12:00-13:00"), []string{"scale web=3"}, []string{"status web=False/DayWindow"}},
	} {
		w := newWorld(t, clocktesting.NewFakeClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), tc.d)
		w.cache(tc.d) // which sees nothing more
		for range 3 {
			if after, err := w.reconcile(t.Context(), "default/web"); err != nil {
				t.Error(after, err)
			}
		}
		w.expect(tc.want...)
		if n := len(w.client.Actions()); n != len(tc.want) {
			t.Errorf("%d requests: %v", n, w.client.Actions())
		}
		for _, want := range [][]string{tc.then, nil} {
			w.cache(w.live("default", "web"))
			for range 3 {
				if _, err := w.reconcile(t.Context(), "default/web"); err != nil {
					t.Error(err)
				}
			}
			w.expect(want...)
		}
		left := 0
		for _, m := range []*sync.Map{&w.superseded, &w.recorded} {
			m.Range(func(any, any) bool { left++; return true })
		}
		if left != 0 {
			t.Error("what the cache has seen is remembered")
		}
		w.Queue.ShutDown()
	}
}

// gone makes a controller whose cache still has a Deployment that the API server has not.
func gone(t *testing.T, clk clock.WithTicker, d *appsv1.Deployment) *world {
	w := newWorld(t, clk)
	t.Cleanup(w.Queue.ShutDown)
	w.cache(d)
	return w
}

// TestGoneMeanwhile: what is deleted between a decision and its write is no failure, whichever
// write it is.
func TestGoneMeanwhile(t *testing.T) {
	day := []string{"window=12:00-13:00"}
	for _, tc := range []struct {
		name     string
		d        *appsv1.Deployment
		conflict bool // the write is told so, and that it is gone by the read after that
		requests int
	}{
		{"a count", workloadtest.Deployment(0, day...), false, 1},
		{"a count, after a conflict", workloadtest.Deployment(0, day...), true, 2},
		{"the record of going to sleep", workloadtest.Deployment(3), false, 1},
		{"a record", workloadtest.Deployment(3, day...), false, 1},
	} {
		w := gone(t, clocktesting.NewFakeClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), tc.d)
		if tc.conflict {
			w.client.PrependReactor("update", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewConflict(appsv1.Resource("deployments/scale"), "web", errors.New("the object has been modified"))
			})
		}
		w.Queue.Defer("default/web") // so that a record has its turn
		w.process(t.Context(), "default/web")
		if n := len(w.client.Actions()); n != tc.requests {
			t.Errorf("%s: %d requests: %v", tc.name, n, w.client.Actions())
		}
		if n := w.Queue.NumRequeues("default/web"); n != 0 || len(w.events.all()) != 0 {
			t.Errorf("%s: %d failures, events %q", tc.name, n, w.events.all())
		}
	}
}

// TestFailures: the owner hears of the fifth failure in a row, and of no other; what fails
// because we are stopping is none.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(0, "window=12:00-13:00"))
		defer w.Queue.ShutDown()
		w.cache(w.live("default", "web"))
		w.client.PrependReactor("update", "deployments", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no room")
		})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 12 {
			w.process(ctx, "default/web")
			want := 0
			if i+1 >= 5 {
				want = 1
			}
			if got := w.events.reasons(); len(got) != want || w.Queue.NumRequeues("default/web") != i+1 {
				t.Errorf("after %d failures: %d counted, events %q", i+1, w.Queue.NumRequeues("default/web"), got)
			}
		}
		cancel()
		w.process(ctx, "default/web")
		if n := w.Queue.NumRequeues("default/web"); n != 12 {
			t.Errorf("%d failures are counted, one of them of our own stop", n)
		}
	})
}

// TestEarlyTimer: one that fires a hair early does not make passes spin until the boundary.
func TestEarlyTimer(t *testing.T) {
	boundary := time.Date(2000, 1, 1, 7, 0, 0, 0, time.UTC)
	for early, want := range map[time.Duration]time.Duration{
		time.Nanosecond: 50 * time.Millisecond, 49 * time.Millisecond: 50 * time.Millisecond, 51 * time.Millisecond: 51 * time.Millisecond,
	} {
		w := newWorld(t, clocktesting.NewFakeClock(boundary.Add(-early)))
		w.cache(asleepTo(workloadtest.Deployment(0), 0, workload.ReasonNightWindow))
		if got, err := w.reconcile(t.Context(), "default/web"); got != want || err != nil {
			t.Errorf("%v early: back after %v, error %v; want %v", early, got, err, want)
		}
		w.Queue.ShutDown()
	}
}

// TestSettle: for a while after the start no count is lowered in the day, where there may be
// autoscalers that are not seen yet; all else is done at once.
func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		name        string
		d           *appsv1.Deployment
		autoscalers bool
		want        string // the first write
		after       time.Duration
	}{
		{"too many", workloadtest.Deployment(5, "window=12:00-13:00"), true, "scale web=3", 30 * time.Second},
		{"too many, and no autoscalers to look at", workloadtest.Deployment(5, "window=12:00-13:00"), false, "scale web=3", 0},
		{"too few", workloadtest.Deployment(1, "window=12:00-13:00"), true, "scale web=3", 0},
		{"its night", workloadtest.Deployment(5), true, "status web=True/NightWindow", 0},
		{"opted out", workloadtest.Without(asleepTo(workloadtest.Deployment(0), 0, workload.ReasonNightWindow), "on"), true, "scale web=3", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, tc.d)
				w.Settle = 30 * time.Second
				if tc.autoscalers {
					w.watchAutoscalers()
				}
				begun := time.Now()
				w.run()
				for w.writesSoFar() == 0 && time.Since(begun) < time.Minute {
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if got := w.taken(); len(got) == 0 || got[0] != tc.want || time.Since(begun) < tc.after || time.Since(begun) > tc.after+2*time.Second {
					t.Errorf("after %v: %q, want %s first, after %v", time.Since(begun), got, tc.want, tc.after)
				}
			})
		})
	}
}

// TestAnew: what is remembered of a Deployment that is gone does not hold for one that is
// made anew under its name.
func TestAnew(t *testing.T) {
	remake := func(w *world, d *appsv1.Deployment) {
		if err := w.tracker.Delete(deploymentResource, "default", "web"); err != nil {
			w.t.Fatal(err)
		}
		w.settle()
		w.mu.Lock()
		w.version++
		d.UID, d.ResourceVersion = "uid-2", strconv.Itoa(w.version)
		w.mu.Unlock()
		if err := w.tracker.Add(d); err != nil {
			w.t.Fatal(err)
		}
		w.settle()
	}
	for _, tc := range []struct {
		name   string
		d      *appsv1.Deployment
		before func(*world)
		want   []string
	}{
		{"a contest over its count", workloadtest.Deployment(3), func(w *world) { w.putBack(5*time.Second, time.Minute) },
			[]string{"status web=True/NightWindow", "scale web=0"}},
		{"a contest over its record", workloadtest.Deployment(3, "window=12:00-13:00"), func(w *world) { w.takeAway(5*time.Second, time.Minute) },
			[]string{"status web=False/DayWindow"}},
		{"a key of the second band", workloadtest.Deployment(3), func(w *world) { w.Queue.Defer("default/web") },
			[]string{"status web=True/NightWindow", "scale web=0"}},
		{"one that was woken", asleepTo(workloadtest.Deployment(0, "window=12:00-13:00", "daytime=wake-only"), 0, workload.ReasonNightWindow),
			func(w *world) { w.woken.Store("default/web", types.UID("uid-1")) },
			[]string{"scale web=3", "status web=False/DayWindow"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, clock.RealClock{}, tc.d.DeepCopy())
				w.run()
				w.settle()
				tc.before(w)
				w.settle()
				w.taken()
				remake(w, tc.d.DeepCopy())
				w.expect(tc.want...)
			})
		})
	}
	// A cache may never show that one is gone, but another at once.
	w := newWorld(t, clocktesting.NewFakeClock(time.Date(2000, 1, 1, 14, 0, 0, 0, time.UTC)))
	defer w.Queue.ShutDown()
	d := asleepTo(workloadtest.Deployment(0, "daytime=wake-only"), 0, workload.ReasonNightWindow)
	if err := w.tracker.Add(d); err != nil {
		t.Fatal(err)
	}
	w.cache(d)
	w.woken.Store("default/web", types.UID("another"))
	if _, err := w.reconcile(t.Context(), "default/web"); err != nil {
		t.Fatal(err)
	}
	w.expect("scale web=3")
}

// TestConflictIsToldOnce: an event about an autoscaler comes once for each thing that does
// not go with it, and again after that had been right.
func TestConflictIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.RealClock{}, workloadtest.Deployment(3, "window=12:00-13:00", "daytime=enforce"))
		w.watchAutoscalers()
		if err := w.tracker.Add(workloadtest.HPAFor("web", 2)); err != nil {
			t.Fatal(err)
		}
		set := func(name, value string) {
			w.edit(func(d *appsv1.Deployment) { d.Annotations[night.Prefix+name] = value })
			w.settle()
		}
		w.run()
		w.settle()
		for _, step := range []struct {
			name, value string
			told        int
		}{
			{"expected", "3", 1}, {"expected", "4", 1}, // nothing new
			{"daytime", "wake-only", 1}, {"night-replicas", "1", 2}, // another thing
			{"night-replicas", "2", 2}, {"night-replicas", "1", 3}, // the same again
		} {
			set(step.name, step.value)
			told := 0
			for _, reason := range w.events.reasons() {
				if reason == reasonAutoscalerConflict {
					told++
				}
			}
			if told != step.told {
				t.Errorf("after %s=%s: told %d times, want %d: %q", step.name, step.value, told, step.told, w.events.all())
			}
		}
	})
}
