package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
	"schedule-night/internal/queue"
)

const (
	// stuckTimeout is how long all workers may be busy without one of them
	// finishing a pass before the controller calls itself ill.
	stuckTimeout = 2 * time.Minute
	// minRequeue keeps a timer that fires a hair early from spinning.
	minRequeue = 50 * time.Millisecond
	// failuresBeforeEvent is how many tries of a key fail in a row before its
	// owner hears of it.
	failuresBeforeEvent = 5
)

// Controller scales annotated Deployments by the clock. It holds no state of its
// own that matters: each pass computes the answer anew from the clock and the object.
type Controller struct {
	client   kubernetes.Interface
	informer appsinformers.DeploymentIndexInformer
	events   Recorder
	clock    clock.WithTicker
	defaults night.Schedule
	queue    *queue.Queue
	metrics  *metrics
	contests *queue.Contests
	// autoscalers is nil where the cluster's are not looked at.
	autoscalers *autoscalers
	conflicts   sync.Map // key → text of the last event AutoscalerConflict

	workers  int
	busy     atomic.Int64 // workers in a pass
	finished atomic.Int64 // when a worker last finished one, in Unix nanoseconds
}

// NewController wires a controller to its informer. Nothing runs until Run.
func NewController(client kubernetes.Interface, deployments appsinformers.TypedDeploymentInformer, clk clock.WithTicker, defaults night.Schedule, workers int) *Controller {
	return &Controller{
		client:   client,
		informer: deployments.TypedInformer(),
		clock:    clk,
		defaults: defaults,
		queue:    queue.New(clk),
		metrics:  newMetrics(),
		contests: queue.NewContests(),
		workers:  workers,
	}
}

// Run works until ctx is done, which cuts short the passes in flight, or until
// Shutdown, which does not. It returns when all workers have. The informer must
// have been started.
//
// The handlers are registered here, not before: so a standby has a warm cache and
// an empty queue, and the registration replays the whole cache to the new leader.
func (c *Controller) Run(ctx context.Context) error {
	defer utilruntime.HandleCrashWithContext(ctx)
	logger := klog.FromContext(ctx)
	registration, err := c.informer.AddTypedEventHandler(appsinformers.DeploymentHandlerFuncs{
		AddFunc:    c.added,
		UpdateFunc: c.updated,
		DeleteFunc: c.deleted,
	})
	if err != nil {
		return fmt.Errorf("registering the handlers: %w", err)
	}
	defer func() { utilruntime.Must(c.informer.RemoveEventHandler(registration)) }()
	synced := []cache.DoneChecker{registration.HasSyncedChecker()}
	if c.autoscalers != nil {
		registration, err := c.autoscalers.informer.AddTypedEventHandler(c.autoscalers.handlers(c.autoscalerChanged))
		if err != nil {
			return fmt.Errorf("registering the handlers: %w", err)
		}
		defer func() { utilruntime.Must(c.autoscalers.informer.RemoveEventHandler(registration)) }()
		synced = append(synced, registration.HasSyncedChecker())
	}

	defer c.queue.ShutDown()
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	if !cache.WaitFor(ctx, "", synced...) {
		return nil
	}

	logger.Info("Starting workers", "workers", c.workers, "keys", c.queue.Len())
	c.finished.Store(c.clock.Now().UnixNano())
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() { c.worker(ctx) })
	}
	workers.Wait()
	logger.Info("All workers stopped")
	return nil
}

// HasSynced tells whether the caches have been filled once.
func (c *Controller) HasSynced() bool {
	return c.informer.HasSynced() && (c.autoscalers == nil || c.autoscalers.informer.HasSynced())
}

// Shutdown makes Run take no more keys and return when the passes in flight are done.
func (c *Controller) Shutdown() { c.queue.ShutDown() }

func (c *Controller) added(d *appsv1.Deployment) {
	if concerns(d) {
		c.queue.Add(keyOf(d))
	}
}

func (c *Controller) updated(old, cur *appsv1.Deployment) {
	if !concerns(old) && !concerns(cur) {
		return
	}
	// A resync brings the same object again: it is the backstop for timers that
	// clock steps have made wrong. It does not cut short the pause after a failure.
	resync := old.ResourceVersion == cur.ResourceVersion
	if changed(old, cur) || resync && c.queue.NumRequeues(keyOf(cur)) == 0 {
		c.queue.Add(keyOf(cur))
	}
}

// deleted lets reconcile forget the key.
func (c *Controller) deleted(d cache.DeletedObject[*appsv1.Deployment]) {
	if d.OptionalObj == nil || concerns(d.OptionalObj) {
		c.queue.Add(d.GetKey())
	}
}

// autoscalerChanged looks again at a Deployment that concerns us.
func (c *Controller) autoscalerChanged(key string) {
	if obj, ok, err := c.informer.GetIndexer().GetByKey(key); err == nil && ok && concerns(obj.(*appsv1.Deployment)) {
		c.queue.Add(key)
	}
}

func (c *Controller) worker(ctx context.Context) {
	for c.processNext(ctx) {
	}
}

// processNext takes a key, reconciles it, and decides when it comes back.
func (c *Controller) processNext(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if c.queue.ShuttingDown() { // the workqueue hands out its backlog first; that is for our successor
		return false
	}
	c.busy.Add(1)
	defer func() {
		c.finished.Store(c.clock.Now().UnixNano())
		c.busy.Add(-1)
	}()

	begun := c.clock.Now()
	requeueAfter, err := c.reconcile(ctx, key)
	c.metrics.duration.Observe(c.clock.Since(begun).Seconds())
	result := resultSuccess
	switch {
	case err != nil && ctx.Err() != nil: // we are stopping, nothing is wrong with the key
		result = resultError
	case err != nil:
		result = resultError
		c.queue.AddRateLimited(key)
		c.failed(ctx, key, c.queue.NumRequeues(key), err)
	case requeueAfter > 0:
		result = resultRequeueAfter
		c.queue.Forget(key)
		c.queue.AddAfter(key, requeueAfter)
	default:
		c.queue.Forget(key)
	}
	c.metrics.reconciles.WithLabelValues(result).Inc()
	return true
}

// failed tells the operator of each failure, and the owner when it does not pass.
func (c *Controller) failed(ctx context.Context, key string, failures int, err error) {
	klog.FromContext(ctx).V(2).Info("Reconciling failed, will retry", "deployment", key, "failures", failures, "err", err)
	if failures != failuresBeforeEvent {
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, "Reconciling fails again and again", "deployment", key, "failures", failures)
	if obj, ok, err2 := c.informer.GetIndexer().GetByKey(key); err2 == nil && ok {
		c.events.Eventf(obj.(*appsv1.Deployment), corev1.EventTypeWarning, ReasonReconcileFailed, "%d tries in a row failed, will go on trying: %v", failures, err)
	}
}

// reconcile makes one Deployment what its schedule asks for now, by at most one
// write. It returns how long until time alone changes the answer, 0 for never.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	obj, ok, err := c.informer.GetIndexer().GetByKey(key) // what a lister does, without taking the key apart
	if err != nil {
		return 0, fmt.Errorf("reading the cache: %w", err)
	}
	if !ok {
		c.queue.WaitedForStatus(key)
		c.contests.Forget(key)
		c.conflicts.Delete(key)
		return 0, nil
	}
	d := obj.(*appsv1.Deployment)
	requeueAfter, err := c.apply(ctx, key, d)
	if !apierrors.IsConflict(err) {
		return requeueAfter, err
	}
	// The cache is behind. Decide anew from the live object.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := c.client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			requeueAfter = 0
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the live object: %w", err)
		}
		requeueAfter, err = c.apply(ctx, key, live)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("after a conflict: %w", err)
	}
	return requeueAfter, nil
}

// apply decides about a Deployment and does at most one write: the scale before
// the condition, but where that is needed as a record. Either's watch event brings the
// key back for the other.
func (c *Controller) apply(ctx context.Context, key string, d *appsv1.Deployment) (time.Duration, error) {
	now := c.clock.Now()
	out := decide(d, c.defaults, c.autoscalers.of(key), now)
	c.tellConflict(key, d, out.conflict)
	pause, first := time.Duration(0), false
	if out.scale {
		if pause, first = c.contests.Wait(key, out.replicas, now); first {
			c.tellContest(ctx, d, &out)
		}
	}
	switch {
	case pause > 0:
		if out.next.IsZero() || pause < out.next.Sub(now) {
			return pause, nil
		}
	case out.scale && !out.recordFirst:
		if err := c.scale(ctx, d, &out); err != nil {
			return 0, err
		}
		c.contests.Wrote(key, out.replicas, c.clock.Now())
		c.queue.WaitForStatus(key)
	case !out.writesCondition(d):
		c.queue.WaitedForStatus(key)
		c.contests.Settle(key, now)
		if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
			logger.Info("Nothing to do", "deployment", key, "next", formatBoundary(out.next))
		}
	case !c.queue.WaitedForStatus(key):
		c.queue.WaitForStatus(key)
		return time.Nanosecond, nil // by way of the second band
	default:
		if err := writeCondition(ctx, c.client, d, out.condition, c.clock.Now()); err != nil {
			c.queue.WaitForStatus(key)
			return 0, err
		}
		klog.FromContext(ctx).Info("Wrote the condition", "deployment", klog.KObj(d), "status", out.condition.Status, "reason", out.condition.Reason, "message", out.condition.Message)
		c.announce(d, &out)
	}
	if out.next.IsZero() {
		return 0, nil
	}
	return max(out.next.Sub(c.clock.Now()), minRequeue), nil
}

// scale writes the decided count by the scale subresource, on condition that the
// object is still the one that was decided on.
func (c *Controller) scale(ctx context.Context, d *appsv1.Deployment, out *decision) error {
	_, err := c.client.AppsV1().Deployments(d.Namespace).UpdateScale(ctx, d.Name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: out.replicas},
	}, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil // deleted since: its event brings the key back
	}
	if err != nil {
		return fmt.Errorf("scaling: %w", err)
	}
	old := ptr.Deref(d.Spec.Replicas, 1)
	c.metrics.observeScale(old, out.replicas, asleepCondition(d), &out.condition, c.clock.Now())
	klog.FromContext(ctx).Info("Scaled", "deployment", klog.KObj(d), "from", old, "to", out.replicas, "reason", out.condition.Reason, "next", formatBoundary(out.next))
	reason := ReasonScaledUp
	if out.replicas < old {
		reason = ReasonScaledDown
	}
	c.events.Eventf(d, corev1.EventTypeNormal, reason, "Scaled from %d to %d: %s", old, out.replicas, explain(d, c.defaults, c.clock.Now()))
	return nil
}

// announce emits the events that go with a change of the condition. The condition
// is what keeps them from being repeated.
func (c *Controller) announce(d *appsv1.Deployment, out *decision) {
	switch out.condition.Reason {
	case ReasonInvalidSchedule:
		c.events.Eventf(d, corev1.EventTypeWarning, ReasonInvalidSchedule, "Not scaled until this is right: %s", out.condition.Message)
	case ReasonReleased:
		c.events.Eventf(d, corev1.EventTypeNormal, ReasonReleased, "Not managed any more, left at %d replicas", out.replicas)
	}
}

// tellConflict emits an event about what does not go with an autoscaler, once.
func (c *Controller) tellConflict(key string, d *appsv1.Deployment, conflict string) {
	if conflict == "" {
		c.conflicts.Delete(key)
	} else if told, _ := c.conflicts.Swap(key, conflict); told != conflict {
		c.events.Eventf(d, corev1.EventTypeWarning, ReasonAutoscalerConflict, "%s", conflict)
	}
}

// tellContest emits an event that names who keeps changing a count that we hold. Only
// the live object has that.
func (c *Controller) tellContest(ctx context.Context, d *appsv1.Deployment, out *decision) {
	who := "somebody"
	if live, err := c.client.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{}); err == nil {
		if manager := replicasManager(live); manager != "" {
			who = strconv.Quote(manager)
		}
	}
	klog.FromContext(ctx).Info("Contested, writing less often", "deployment", klog.KObj(d), "manager", who, "replicas", ptr.Deref(d.Spec.Replicas, 1), "want", out.replicas)
	c.events.Eventf(d, corev1.EventTypeWarning, ReasonContested,
		"%s keeps setting replicas to %d where %d is due (%s); will write less often until that ends. Let it leave /spec/replicas alone (Argo CD: ignoreDifferences with RespectIgnoreDifferences; Flux: take replicas out of the manifest), or set %s to false",
		who, ptr.Deref(d.Spec.Replicas, 1), out.replicas, explain(d, c.defaults, c.clock.Now()), night.AnnotationOn)
}

// errStuck is what Healthy reports.
var errStuck = errors.New("all workers are busy and none has finished a pass for " + stuckTimeout.String())

// Healthy fails when all workers are stuck in their passes.
func (c *Controller) Healthy() error {
	since := c.clock.Now().UnixNano() - c.finished.Load()
	if c.busy.Load() >= int64(c.workers) && since > stuckTimeout.Nanoseconds() {
		return errStuck
	}
	return nil
}

// overdueAfter is how long a count may be wrong before the Deployment is overdue.
const overdueAfter = time.Minute

// managed is every Deployment in the cache that has opted in, as decide sees it now.
func (c *Controller) managed(now time.Time) iter.Seq[managed] {
	return func(yield func(managed) bool) {
		for _, obj := range c.informer.GetIndexer().List() {
			d := obj.(*appsv1.Deployment)
			if _, ok := d.Annotations[night.AnnotationOn]; !ok {
				continue
			}
			hpa := c.autoscalers.of(keyOf(d))
			out := decide(d, c.defaults, hpa, now)
			m := managed{Deployment: d, hpa: hpa, state: planAwake, expected: out.expected, want: out.replicas, due: out.scale, next: out.next}
			switch {
			case out.condition.Type == "" || out.condition.Reason == ReasonReleased:
				continue
			case out.condition.Reason == ReasonInvalidSchedule:
				m.state = planInvalid
			case out.asleep:
				m.state = planAsleep
			}
			switch out.condition.Reason {
			case ReasonAwakeUntil:
				m.override = "awake-until"
			case ReasonAsleepUntil:
				m.override = "asleep-until"
			}
			m.overdue = out.scale && decide(d, c.defaults, hpa, now.Add(-overdueAfter)).sameCount(out)
			if !yield(m) {
				return
			}
		}
	}
}

// totals sums them up.
func (c *Controller) totals() totals {
	var t totals
	for m := range c.managed(c.clock.Now()) {
		t.add(&m)
	}
	return t
}
