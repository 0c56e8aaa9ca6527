package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"schedule-night/internal/events"
	"schedule-night/internal/metrics"
	"schedule-night/internal/night"
	"schedule-night/internal/outlook"
	"schedule-night/internal/queue"
	"schedule-night/internal/workload"
)

const (
	// stuckTimeout is how long passes may run that keep all others from running before
	// the controller calls itself ill: longer than any requests of a pass take to time out.
	stuckTimeout = 2 * time.Minute
	// minRequeue keeps a timer that fires a hair early from spinning.
	minRequeue = 50 * time.Millisecond
	// cacheLag is longer than the event of a write takes to reach the cache.
	cacheLag = 5 * time.Second
	// failuresBeforeEvent is how many tries of a key fail in a row before its
	// owner hears of it.
	failuresBeforeEvent = 5
)

// Reasons of events. Those of records are events too where announce says so.
const (
	reasonScaledDown         = "ScaledDown"
	reasonScaledUp           = "ScaledUp"
	reasonReconcileFailed    = "ReconcileFailed"    // several tries in a row
	reasonContested          = "Contested"          // somebody else keeps changing the count, or the record
	reasonAutoscalerConflict = "AutoscalerConflict" // an annotation does not go with an autoscaler
	reasonUnknownAnnotation  = "UnknownAnnotation"  // one with our prefix is misspelt
)

// ControllerConfig is what a Controller works with.
type ControllerConfig struct {
	Client      workload.Client
	Informer    cache.SharedIndexInformer // holds *workload.Workload
	Autoscalers *workload.Autoscalers     // nil where there are none, as --hpa-aware=false says
	// Settle is how long after the start no count is lowered in the day: what has just gone,
	// as an autoscaler that is replaced, may be back by then.
	Settle time.Duration
	// Excluded are namespaces in which everything counts as opted out.
	Excluded sets.Set[string]
	Events   events.Recorder
	Queue    *queue.Queue
	Metrics  *metrics.Metrics
	Clock    clock.WithTicker
	Defaults night.Schedule // of annotations that are left out
	Workers  int
}

// Controller scales annotated Deployments by the clock. It holds no state of its
// own that matters: each pass computes the answer anew from the clock and the object.
type Controller struct {
	ControllerConfig
	contests  *queue.Contests // over counts
	records   *queue.Contests // over records, by their fingerprints
	conflicts sync.Map        // key → text of the last event AutoscalerConflict
	woken     sync.Map        // key → UID of what was woken, until that is recorded
	misspelt  sync.Map        // key → text of the last event UnknownAnnotation
	rolled    sync.Map        // keys of what got another Pod template and another expected at once, until that is recorded
	// superseded are, by key, what our last writes have replaced, until the cache has a later
	// version, or a resync comes that is not much sooner: what it shows is known to be out of date.
	superseded sync.Map
	// recorded are the same of records: they are not written twice.
	recorded sync.Map
	// lost are, by key, what had a record that it sleeps, and has none any more. The handlers
	// alone write it.
	lost sync.Map

	started time.Time // of the workers
}

// NewController makes a controller. Nothing runs until Run.
func NewController(config ControllerConfig) *Controller {
	return &Controller{ControllerConfig: config, contests: queue.NewContests(), records: queue.NewContests()}
}

// Run works until ctx is done, which cuts short the passes in flight, or until
// Shutdown, which does not. It returns when all workers have. The informers must
// have been started.
//
// The handlers are registered here, not before: so a standby has a warm cache and
// an empty queue, and the registration replays the whole cache to the new leader.
func (c *Controller) Run(ctx context.Context) error {
	defer utilruntime.HandleCrashWithContext(ctx)
	logger := klog.FromContext(ctx)
	registration, err := c.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.added,
		UpdateFunc: c.updated,
		DeleteFunc: c.deleted,
	})
	if err != nil {
		return fmt.Errorf("registering the handlers: %w", err)
	}
	defer func() { utilruntime.Must(c.Informer.RemoveEventHandler(registration)) }()
	synced := []cache.DoneChecker{registration.HasSyncedChecker()}
	c.Autoscalers.Subscribe(c.autoscalerChanged)
	defer c.Autoscalers.Subscribe(nil)

	defer c.Queue.ShutDown()
	defer context.AfterFunc(ctx, c.Queue.ShutDown)()
	if !cache.WaitFor(ctx, "", synced...) {
		return nil
	}

	logger.Info("Starting workers", "workers", c.Workers, "keys", c.Queue.Len())
	c.started = c.Clock.Now()
	c.Queue.Work(c.Workers, func(key string) { c.process(ctx, key) })
	logger.Info("All workers stopped")
	return nil
}

// HasSynced tells whether the caches have been filled once.
func (c *Controller) HasSynced() bool { return c.Informer.HasSynced() && c.Autoscalers.HasSynced() }

// Shutdown makes Run take no more keys and return when the passes in flight are done.
func (c *Controller) Shutdown() { c.Queue.ShutDown() }

func (c *Controller) added(obj any) { c.enqueue(obj.(*workload.Workload)) }

func (c *Controller) updated(was, is any) {
	old, cur := was.(*workload.Workload), is.(*workload.Workload)
	key := cur.Key()
	if lost := c.noteLost(key, old, cur); !lost && !old.Concerned() && !cur.Concerned() {
		return
	}
	if old.Annotations[night.AnnotationExpected] != cur.Annotations[night.AnnotationExpected] {
		if c.rolled.Delete(key); old.Template != cur.Template {
			c.rolled.Store(key, nil)
		}
	}
	// A resync brings the same object again: it is the backstop for timers that clock steps
	// have made wrong, and for writes that were accepted and changed nothing, of which no
	// event comes. It does not cut short the pause after a failure.
	resync := old.ResourceVersion == cur.ResourceVersion
	if resync {
		c.forgetReplaced(&c.superseded, key)
		c.forgetReplaced(&c.recorded, key)
	}
	if cur.Differs(old) || resync && c.Queue.NumRequeues(key) == 0 {
		c.Queue.Add(key)
	}
}

// noteLost notes that a workload has lost the record that it sleeps, by somebody who replaced
// the object or what the record is kept in, and when that is over. It tells whether either
// is so. Only events tell: a pass may look at a version that is older than the loss.
func (c *Controller) noteLost(key string, old, cur *workload.Workload) bool {
	if old.Record.Asleep() && sleepsLike(old, cur) {
		c.lost.Store(key, old)
		return true
	}
	before, ok := c.lost.Load(key)
	if ok && !sleepsLike(before.(*workload.Workload), cur) {
		c.lost.Delete(key)
	}
	return ok
}

// sleepsLike tells whether a workload has no record and sleeps as its record said before.
func sleepsLike(before, w *workload.Workload) bool {
	applied, _ := before.Record.Slept()
	return w.Record == nil && w.DeletionTimestamp == nil && w.UID == before.UID && w.Replicas <= applied.Replicas
}

// withLost is the workload with the record that it has lost, as long as it has no other and
// sleeps as that one says. The record may be all that tells what to wake it to.
func (c *Controller) withLost(key string, w *workload.Workload) (_ *workload.Workload, lost bool) {
	before, ok := c.lost.Load(key)
	if !ok || !sleepsLike(before.(*workload.Workload), w) {
		return w, false
	}
	w = w.DeepCopy()
	w.Record = before.(*workload.Workload).Record
	return w, true
}

// deleted lets reconcile forget the key. Of who was not managed nothing else is remembered.
func (c *Controller) deleted(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	utilruntime.Must(err) // an informer hands out objects and tombstones
	c.lost.Delete(key)
	if w, ok := obj.(*workload.Workload); ok && !w.Concerned() {
		return
	}
	c.Queue.Add(key)
}

// autoscalerChanged looks again at the workload with the given key.
func (c *Controller) autoscalerChanged(key string) {
	if w, ok := c.cached(key); ok {
		c.enqueue(w)
	}
}

func (c *Controller) enqueue(w *workload.Workload) {
	if w.Concerned() {
		c.Queue.Add(w.Key())
	}
}

// cached is what the informer knows by the key: what a lister tells, without taking the
// key apart.
func (c *Controller) cached(key string) (*workload.Workload, bool) {
	obj, ok, err := c.Informer.GetIndexer().GetByKey(key)
	utilruntime.Must(err) // the indexer has no errors
	if !ok {
		return nil, false
	}
	return obj.(*workload.Workload), true
}

// process reconciles a key, and decides when it comes back.
func (c *Controller) process(ctx context.Context, key string) {
	begun := c.Clock.Now()
	requeueAfter, err := c.reconcile(ctx, key)
	took := c.Clock.Since(begun)
	switch {
	case err != nil && ctx.Err() != nil: // we are stopping, nothing is wrong with the key
		c.Metrics.ObservePass(metrics.ResultError, took)
	case err != nil:
		c.Metrics.ObservePass(metrics.ResultError, took)
		c.Queue.Wrote(key) // or has asked in vain: nothing else fails
		c.retry(key, begun)
		c.failed(ctx, key, c.Queue.NumRequeues(key), err)
	case requeueAfter > 0:
		c.Metrics.ObservePass(metrics.ResultRequeueAfter, took)
		c.Queue.Forget(key)
		c.Queue.AddAfter(key, requeueAfter)
	default:
		c.Metrics.ObservePass(metrics.ResultSuccess, took)
		c.Queue.Forget(key)
	}
}

// retry brings a key back whose pass has failed: after a pause, but at its next boundary at
// the latest. Where there was one while the pass ran, the pause is as short as the first:
// what failed is not what is due now.
func (c *Controller) retry(key string, begun time.Time) {
	var boundary time.Time
	if w, ok := c.cached(key); ok {
		boundary = c.Decide(w, begun).Now.Next
		if now := c.Clock.Now(); !boundary.IsZero() && !boundary.After(now) {
			c.Queue.Forget(key)
			boundary = c.Decide(w, now).Now.Next
		}
	}
	c.Queue.Retry(key, boundary)
}

// failed tells the operator of each failure, and the owner when it does not pass.
func (c *Controller) failed(ctx context.Context, key string, failures int, err error) {
	klog.FromContext(ctx).V(2).Info("Reconciling failed, will retry", "deployment", key, "failures", failures, "err", err)
	if failures != failuresBeforeEvent {
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, "Reconciling fails again and again", "deployment", key, "failures", failures)
	if w, ok := c.cached(key); ok {
		c.Events.Eventf(w.Ref(), corev1.EventTypeWarning, reasonReconcileFailed, "%d tries in a row failed, will go on trying: %v", failures, err)
	}
}

// reconcile makes one workload what its schedule asks for now, by one write, or by two when
// it goes to sleep. It returns how long until time alone changes the answer, 0 for never.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	w, ok := c.cached(key)
	if !ok {
		c.forget(key)
		return 0, nil
	}
	if isOutdated(&c.superseded, key, w) {
		return 0, nil // the event of our own write brings the key back
	}
	requeueAfter, err := c.apply(ctx, key, w)
	if !apierrors.IsConflict(err) {
		return requeueAfter, err
	}
	// The cache is behind. Decide anew from the live object.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := c.Client.Get(ctx, w.Namespace, w.Name)
		if apierrors.IsNotFound(err) {
			requeueAfter = 0
			return nil
		}
		if err != nil {
			return err
		}
		requeueAfter, err = c.apply(ctx, key, live)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("after a conflict: %w", err)
	}
	return requeueAfter, nil
}

// replaced is what a write of ours has replaced.
type replaced struct {
	version string // and those before it
	at      time.Time
}

// isOutdated tells whether the workload is a version that our write has replaced, or one
// before that, and forgets the write if not.
func isOutdated(writes *sync.Map, key string, w *workload.Workload) bool {
	last, ok := writes.Load(key)
	if !ok {
		return false
	}
	version := last.(replaced).version
	order, err := resourceversion.CompareResourceVersion(w.ResourceVersion, version)
	if w.ResourceVersion == version || err == nil && order < 0 {
		return true
	}
	writes.Delete(key)
	return false
}

// forgetReplaced forgets a write of which no event has come for so long that it may have
// changed nothing.
func (c *Controller) forgetReplaced(writes *sync.Map, key string) {
	if last, ok := writes.Load(key); ok && c.Clock.Since(last.(replaced).at) > cacheLag {
		writes.Delete(key)
	}
}

// forget drops what passes remember of a workload that is gone, or is not managed any more.
func (c *Controller) forget(key string) {
	c.Queue.Promote(key)
	c.contests.Forget(key)
	c.records.Forget(key)
	c.conflicts.Delete(key)
	c.misspelt.Delete(key)
	c.woken.Delete(key)
	c.rolled.Delete(key)
	c.superseded.Delete(key)
	c.recorded.Delete(key)
}

// apply decides about a workload and does what is due first. Waking is done before it is
// recorded: the watch event of the count brings the key back for the record. Going to
// sleep is recorded before it is done, in one pass.
func (c *Controller) apply(ctx context.Context, key string, w *workload.Workload) (time.Duration, error) {
	now := c.Clock.Now()
	recorded := isOutdated(&c.recorded, key, w)
	w, lost := c.withLost(key, w)
	due := c.Decide(w, now)
	if due.State == outlook.Unmanaged {
		c.forget(key)
		return 0, nil
	}
	if due.State == outlook.Asleep { // what was woken before is another night's
		c.woken.Delete(key)
	}
	c.warnOnce(&c.conflicts, key, w, reasonAutoscalerConflict, due.Conflict)
	c.warnOnce(&c.misspelt, key, w, reasonUnknownAnnotation, misspelt(w, &due))
	if due.Scale && c.isWoken(key, w, &due) {
		due.Scale = false
	}
	if hold := c.started.Add(c.Settle); due.Scale && due.State == outlook.Awake && due.Replicas < w.Replicas && c.Autoscalers != nil && now.Before(hold) {
		return c.untilNextOr(hold.Sub(now), &due), nil
	}
	if due.Scale {
		pause, first := c.contests.Wait(key, due.Replicas, now)
		if first {
			c.warnContested(ctx, w, &due)
		}
		if pause > 0 {
			return c.untilNextOr(pause, &due), nil
		}
	}
	unrecorded := lost || due.WritesRecord(w)
	switch {
	case due.Scale && due.RecordFirst && due.WritesRecord(w):
		if err := c.putToSleep(ctx, key, w, &due); err != nil {
			return 0, err
		}
	case due.Scale:
		if err := c.scale(ctx, key, w, w.Record, &due); err != nil {
			return 0, err
		}
		c.superseded.Store(key, replaced{w.ResourceVersion, c.Clock.Now()})
		c.Queue.Defer(key) // people wait for Pods, not for records
	case unrecorded && recorded: // the event of our own write brings the key back
	case unrecorded && !c.Queue.Deferred(key):
		c.Queue.AddDeferred(key)
	case unrecorded:
		pause, err := c.recordUnlessContested(ctx, key, w, &due)
		if err != nil {
			return 0, err
		}
		c.Queue.Promote(key)
		if pause > 0 {
			return c.untilNextOr(pause, &due), nil
		}
	default:
		c.Queue.Promote(key)
		c.contests.Settle(key, now)
		c.records.Settle(key, now)
		if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
			logger.Info("Nothing to do", "deployment", key, "next", workload.FormatBoundary(due.Now.Next))
		}
	}
	return c.untilNext(&due), nil
}

// untilNext is how long until time alone changes the answer, 0 for never.
func (c *Controller) untilNext(due *outlook.Decision) time.Duration {
	if due.Now.Next.IsZero() {
		return 0
	}
	return max(due.Now.Next.Sub(c.Clock.Now()), minRequeue)
}

// untilNextOr is the pause, but not beyond that.
func (c *Controller) untilNextOr(pause time.Duration, due *outlook.Decision) time.Duration {
	if next := c.untilNext(due); next > 0 {
		return min(pause, next)
	}
	return pause
}

// putToSleep records that a workload sleeps, and then scales it. The record is written on
// condition that the object is still the one that was decided on, and the count is decided
// again on what that write returns: so nobody's change is lost between the two.
func (c *Controller) putToSleep(ctx context.Context, key string, w *workload.Workload, due *outlook.Decision) error {
	now := c.Clock.Now()
	recorded := w.DeepCopy()
	recorded.SetRecord(due.Record, now)
	c.Queue.Wrote(key)
	written, err := c.Client.WriteRecordIfUnchanged(ctx, recorded, now)
	if apierrors.IsNotFound(err) {
		return nil // deleted since: its event brings the key back
	}
	if err != nil {
		return err
	}
	c.records.Wrote(key, fingerprint(&due.Record), now)
	klog.FromContext(ctx).V(2).Info("Recorded before going to sleep", "deployment", klog.KObj(w), "message", due.Record.Message)
	again := c.Decide(written, c.Clock.Now())
	if !again.Scale || again.WritesRecord(written) {
		return nil // its event brings the key back
	}
	if err := c.scale(ctx, key, written, w.Record, &again); err != nil {
		return err
	}
	c.superseded.Store(key, replaced{written.ResourceVersion, c.Clock.Now()})
	return nil
}

// isWoken tells whether the workload was woken before, which is not recorded yet: what it
// has now is somebody's choice in the day, where the day's count is not held.
func (c *Controller) isWoken(key string, w *workload.Workload, due *outlook.Decision) bool {
	if due.State != outlook.Awake || due.Schedule.Daytime != night.DaytimeWakeOnly || !w.Record.Asleep() {
		return false
	}
	uid, ok := c.woken.Load(key)
	return ok && uid == w.UID
}

// scale writes the count that is due, on condition that the object is still the one that
// was decided on. Was is the record that it had when the pass began.
func (c *Controller) scale(ctx context.Context, key string, w *workload.Workload, was *workload.Record, due *outlook.Decision) error {
	scaled := w.DeepCopy()
	scaled.Replicas = due.Replicas
	c.Queue.Wrote(key)
	err := c.Client.Scale(ctx, scaled)
	if apierrors.IsNotFound(err) {
		return nil // deleted since: its event brings the key back
	}
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	c.contests.Wrote(key, due.Replicas, now)
	c.Metrics.ObserveScale(w.Replicas, was, due, now)
	if due.State == outlook.Awake && w.Record.Asleep() {
		c.woken.Store(key, w.UID)
	}
	klog.FromContext(ctx).Info("Scaled", "deployment", klog.KObj(w), "from", w.Replicas, "to", due.Replicas, "reason", due.Record.Reason, "next", workload.FormatBoundary(due.Now.Next))
	reason := reasonScaledUp
	if due.Replicas < w.Replicas {
		reason = reasonScaledDown
	}
	c.Events.Eventf(w.Ref(), corev1.EventTypeNormal, reason, "Scaled from %d to %d: %s%s", w.Replicas, due.Replicas, due.Why(), c.lowered(key, w, due))
	return nil
}

// lowered says where a cut in the day comes from, if expected was more by the record. Who
// rolls back in an incident does not know that the annotations of that time come back too.
// The revision does not tell of that yet: it is written after the count was cut.
func (c *Controller) lowered(key string, w *workload.Workload, due *outlook.Decision) string {
	if due.State != outlook.Awake || due.Replicas >= w.Replicas {
		return ""
	}
	was, ok := w.Record.Held()
	if !ok || was.Expected <= due.Schedule.Expected {
		return ""
	}
	text := fmt.Sprintf("; expected was %d and is %d", was.Expected, due.Schedule.Expected)
	if _, rolled := c.rolled.Load(key); rolled {
		text += " since the Pod template changed with it, as by kubectl rollout undo, which brings back old annotations too"
	}
	return text
}

// recordUnlessContested writes the record that is due, or tells how long to wait, as somebody
// else keeps changing it.
func (c *Controller) recordUnlessContested(ctx context.Context, key string, w *workload.Workload, due *outlook.Decision) (time.Duration, error) {
	now := c.Clock.Now()
	pause, first := c.records.Wait(key, fingerprint(&due.Record), now)
	if first {
		c.warnRecordContested(ctx, w)
	}
	if pause > 0 {
		return pause, nil
	}
	if err := c.record(ctx, w, due); err != nil {
		return 0, err
	}
	c.records.Wrote(key, fingerprint(&due.Record), now)
	c.recorded.Store(key, replaced{w.ResourceVersion, now})
	c.woken.Delete(key)
	c.rolled.Delete(key)
	return 0, nil
}

// record writes the record that is due.
func (c *Controller) record(ctx context.Context, w *workload.Workload, due *outlook.Decision) error {
	now := c.Clock.Now()
	recorded := w.DeepCopy()
	recorded.SetRecord(due.Record, now)
	c.Queue.Wrote(w.Key())
	err := c.Client.WriteRecord(ctx, recorded, now)
	if apierrors.IsNotFound(err) {
		return nil // deleted since: its event brings the key back
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Wrote the condition", "deployment", klog.KObj(w), "status", due.Record.Status, "reason", due.Record.Reason, "message", due.Record.Message)
	c.announce(w, due)
	return nil
}

// recordSeed is that of fingerprints.
var recordSeed = maphash.MakeSeed()

// fingerprint is a number that hardly any other record has, whatever its time.
func fingerprint(r *workload.Record) int32 {
	return int32(maphash.Comparable(recordSeed, [...]string{string(r.Status), r.Reason, r.Message})) //nolint:gosec // any 32 bits do
}

// announce emits the events that go with a change of the record. The record is what
// keeps them from being repeated.
func (c *Controller) announce(w *workload.Workload, due *outlook.Decision) {
	switch due.Record.Reason {
	case workload.ReasonInvalidSchedule:
		c.Events.Eventf(w.Ref(), corev1.EventTypeWarning, workload.ReasonInvalidSchedule, "Not scaled until this is right: %s", due.Record.Message)
	case workload.ReasonReleased:
		c.Events.Eventf(w.Ref(), corev1.EventTypeNormal, workload.ReasonReleased, "Not managed any more, left at %d replicas", due.Replicas)
	}
}

// warnOnce emits an event with a text, "" for none, unless that is what was told last.
func (c *Controller) warnOnce(told *sync.Map, key string, w *workload.Workload, reason, text string) {
	if text == "" {
		told.Delete(key)
	} else if last, _ := told.Swap(key, text); last != text {
		c.Events.Eventf(w.Ref(), corev1.EventTypeWarning, reason, "%s", text)
	}
}

// misspelt says which annotations of a workload that is managed have no effect.
func misspelt(w *workload.Workload, due *outlook.Decision) string {
	if due.State == outlook.Unmanaged || due.State == outlook.Released {
		return ""
	}
	var list []string
	for _, m := range w.Misspelt() {
		list = append(list, m.String())
	}
	return strings.Join(list, ". ")
}

// warnContested emits an event that says who keeps changing a count that we hold, and what
// can be done. Only the live object has the name.
func (c *Controller) warnContested(ctx context.Context, w *workload.Workload, due *outlook.Decision) {
	manager, err := c.Client.ReplicasManager(ctx, w)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Nobody can be named", "deployment", klog.KObj(w), "err", err)
	}
	who, advice := contender(manager, c.Autoscalers.Of(w.Key()), w.Replicas < due.Replicas)
	klog.FromContext(ctx).Info("Contested, writing less often", "deployment", klog.KObj(w), "manager", manager, "replicas", w.Replicas, "want", due.Replicas)
	c.Events.Eventf(w.Ref(), corev1.EventTypeWarning, reasonContested,
		"%s keeps setting replicas to %d where %d is due (%s); will write less often until that ends. %s, or set %s to false",
		who, w.Replicas, due.Replicas, due.Why(), advice, night.AnnotationOn)
}

// contender is who keeps changing a count, by the field manager, "" for none, and the
// autoscaler, nil for none; and what makes peace. Autoscalers and kubectl scale write the
// scale subresource, and of that no manager is left once the count has been 0.
func contender(manager string, hpa *workload.Autoscaler, lowers bool) (who, advice string) {
	if manager != "" {
		who = strconv.Quote(manager)
	}
	switch {
	case hpa != nil && hpa.ScaledObject != "" && (who == "" || strings.HasPrefix(manager, "keda")):
		advice = "KEDA raises what sleeps while a trigger is active and, with a minReplicaCount of 1 or more, always. Set its idleReplicaCount to 0 if the triggers are quiet at night"
		if lowers {
			advice = "KEDA takes it to 0 while no trigger is active. Remove " + night.AnnotationNightReplicas
		}
		return cmp.Or(who, "somebody, likely KEDA,"), "ScaledObject " + hpa.ScaledObject + " targets it: " + advice + ", pause it (autoscaling.keda.sh/paused)"
	case who == "" && hpa != nil && hpa.Name != "":
		return "somebody who left no name, likely HorizontalPodAutoscaler " + hpa.Name + " or kubectl scale,", "Let it leave the count alone"
	case who == "":
		return "somebody who left no name, as an autoscaler (an HPA, KEDA) or kubectl scale,", "Let it leave the count alone"
	}
	return who, "Let it leave /spec/replicas alone (Argo CD: ignoreDifferences with RespectIgnoreDifferences; Flux: take replicas out of the manifest)"
}

// warnRecordContested emits an event about somebody who keeps changing our record.
func (c *Controller) warnRecordContested(ctx context.Context, w *workload.Workload) {
	klog.FromContext(ctx).Info("The record is contested, writing it less often", "deployment", klog.KObj(w))
	c.Events.Eventf(w.Ref(), corev1.EventTypeWarning, reasonContested,
		"somebody keeps changing the condition %s, or takes it away; will write it less often until that ends. It is what tells who is to be woken: let it be", workload.ConditionAsleep)
}

// Managed is every workload in the cache that something is to be done about, as decide
// sees it now.
func (c *Controller) Managed(now time.Time) iter.Seq[outlook.Managed] {
	return func(yield func(outlook.Managed) bool) {
		for _, obj := range c.Informer.GetIndexer().List() {
			w := obj.(*workload.Workload)
			if !w.Concerned() {
				continue
			}
			due := c.Decide(w, now)
			if due.State == outlook.Unmanaged {
				continue
			}
			overdue := false
			if due.Scale {
				before := c.Decide(w, now.Add(-outlook.OverdueAfter))
				overdue = before.SameCount(&due)
			}
			if !yield(outlook.Managed{Workload: w, Due: due, Overdue: overdue}) {
				return
			}
		}
	}
}

// Decide decides about a workload at an instant. Those that are never to be managed count
// as opted out: so what sleeps among them is woken and let go.
func (c *Controller) Decide(w *workload.Workload, at time.Time) outlook.Decision {
	if w.Ours || c.Excluded.Has(w.Namespace) {
		w = w.DeepCopy()
		delete(w.Annotations, night.AnnotationOn)
	}
	return decide(w, c.Defaults, c.Autoscalers.Of(w.Key()), at)
}

// Totals sum up what is managed now.
func (c *Controller) Totals() outlook.Totals {
	var t outlook.Totals
	for m := range c.Managed(c.Clock.Now()) {
		t.Add(&m)
	}
	return t
}

// errStuck is what Healthy reports.
var errStuck = errors.New("no pass can begin, and those that run have for more than " + stuckTimeout.String())

// Healthy fails when no pass can begin because of others that do not end. Writes that hang
// in some namespaces are no such thing: they end with their timeout, and leave the workers
// to the other namespaces.
func (c *Controller) Healthy() error {
	if c.Queue.Stuck(stuckTimeout) {
		return errStuck
	}
	return nil
}
