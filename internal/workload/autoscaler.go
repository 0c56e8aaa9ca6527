package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// Autoscaler is what a HorizontalPodAutoscaler means for the Deployment it targets. Without
// a name it is one that may be there: the day is its own all the same.
type Autoscaler struct {
	Name string
	Min  int32 // replicas that it keeps up while it is active, which it is above 0
	// ToZero tells that 0 replicas can be its own choice: its minimum says so, or it is
	// one of KEDA's, which takes the last step itself.
	ToZero bool
	// ScaledObject is that of KEDA for which KEDA made it, "" if it is none of KEDA's. KEDA
	// has a minimum of its own, which holds at 0 replicas too.
	ScaledObject string
}

// kedaLabel is on each HorizontalPodAutoscaler that KEDA makes for a ScaledObject.
const kedaLabel = "scaledobject.keda.sh/name"

// NewAutoscaler reads a HorizontalPodAutoscaler.
func NewAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) *Autoscaler {
	a := &Autoscaler{Name: hpa.Name, Min: ptr.Deref(hpa.Spec.MinReplicas, 1)}
	name, keda := hpa.Labels[kedaLabel]
	a.ToZero, a.ScaledObject = a.Min == 0 || keda, name
	return a
}

// With is what two autoscalers of one Deployment mean together, nil for none. The one with the
// highest minimum counts, of equals the first by name, and any that may go to 0 or is KEDA's
// counts as such: so it does not change with the order in which they are seen.
func (a *Autoscaler) With(other *Autoscaler) *Autoscaler {
	if a == nil {
		return other
	}
	both := *a
	if other.Min > a.Min || other.Min == a.Min && other.Name < a.Name {
		both = *other
	}
	both.ToZero, both.ScaledObject = a.ToZero || other.ToZero, max(a.ScaledObject, other.ScaledObject)
	return &both
}

// Adjust fits a schedule to the autoscaler that targets its Deployment, nil for none: its
// day is wake-only, and a night count above 0 is not below the autoscaler's minimum. It
// returns what of the annotations does not go with that, "" for nothing.
func (a *Autoscaler) Adjust(s *night.Schedule) (conflict string) {
	if a == nil {
		return ""
	}
	if n := s.NightReplicas; 0 < n && n < a.Min {
		s.NightReplicas = a.Min
		conflict = fmt.Sprintf("%s %d is below the minimum of HorizontalPodAutoscaler %s; asleep at %d", night.AnnotationNightReplicas, n, a.Name, a.Min)
	}
	if s.Daytime == night.DaytimeEnforce && a.Name != "" {
		conflict = fmt.Sprintf("%s %s does not go with HorizontalPodAutoscaler %s; taken as %s", night.AnnotationDaytime, night.DaytimeEnforce, a.Name, night.DaytimeWakeOnly)
	}
	s.Daytime = night.DaytimeWakeOnly
	return conflict
}

// Autoscalers finds the HorizontalPodAutoscaler of a Deployment, by an index over the
// informer's cache. A nil *Autoscalers finds none: there are none, it says.
//
// What is missing must never cut: as long as autoscalers cannot be read, any workload may
// have one, and who had one that is gone may get another in a moment.
type Autoscalers struct {
	clock  clock.PassiveClock
	linger time.Duration // for which one that is gone still counts

	mu       sync.RWMutex
	informer autoscalinginformers.HorizontalPodAutoscalerIndexInformer // nil until Attach
	changed  func(key string)                                          // by Subscribe
	gone     map[string]time.Time                                      // key → when its autoscaler was seen to go
}

// byTarget indexes HorizontalPodAutoscalers by the key of the Deployment they target.
const byTarget = "target"

// NewAutoscalers makes a finder that knows of none yet, and so takes every workload to have
// one. An autoscaler that is gone counts for another linger.
func NewAutoscalers(clk clock.PassiveClock, linger time.Duration) *Autoscalers {
	return &Autoscalers{clock: clk, linger: linger, gone: map[string]time.Time{}}
}

// Attach has the informer tell of the autoscalers; it must not have been started.
func (a *Autoscalers) Attach(hpas autoscalinginformers.TypedHorizontalPodAutoscalerInformer) error {
	informer := hpas.TypedInformer()
	err := informer.AddTypedIndexers(cache.TypedIndexers[*autoscalingv2.HorizontalPodAutoscaler]{
		byTarget: func(hpa *autoscalingv2.HorizontalPodAutoscaler) ([]string, error) { return TargetKeys(hpa), nil },
	})
	if err != nil {
		return fmt.Errorf("indexing the autoscalers: %w", err)
	}
	_, err = informer.AddTypedEventHandler(autoscalinginformers.HorizontalPodAutoscalerHandlerFuncs{
		AddFunc: func(hpa *autoscalingv2.HorizontalPodAutoscaler) { a.tell(hpa) },
		UpdateFunc: func(old, cur *autoscalingv2.HorizontalPodAutoscaler) {
			if old.Spec.ScaleTargetRef != cur.Spec.ScaleTargetRef {
				a.lose(old)
			}
			if old.Spec.ScaleTargetRef != cur.Spec.ScaleTargetRef || ptr.Deref(old.Spec.MinReplicas, 1) != ptr.Deref(cur.Spec.MinReplicas, 1) {
				a.tell(old, cur)
			}
		},
		DeleteFunc: func(gone cache.DeletedObject[*autoscalingv2.HorizontalPodAutoscaler]) {
			if gone.OptionalObj != nil {
				a.lose(gone.OptionalObj)
				a.tell(gone.OptionalObj)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("registering the autoscalers' handlers: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.informer = informer
	return nil
}

// Subscribe calls changed with the key of each Deployment whose autoscaler comes, goes or
// changes, from now on; nil ends that.
func (a *Autoscalers) Subscribe(changed func(key string)) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = changed
}

func (a *Autoscalers) tell(hpas ...*autoscalingv2.HorizontalPodAutoscaler) {
	a.mu.RLock()
	changed := a.changed
	a.mu.RUnlock()
	if changed == nil {
		return
	}
	for _, hpa := range hpas {
		for _, key := range TargetKeys(hpa) {
			changed(key)
		}
	}
}

// lose notes that an autoscaler has left what it targeted, and forgets who did long ago.
func (a *Autoscalers) lose(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, at := range a.gone {
		if now.Sub(at) >= a.linger {
			delete(a.gone, key)
		}
	}
	for _, key := range TargetKeys(hpa) {
		a.gone[key] = now
	}
}

// MayReadAutoscalers asks the API server whether we may, by one request. If not, an informer
// would never sync.
func MayReadAutoscalers(ctx context.Context, client kubernetes.Interface, namespace string) (bool, error) {
	_, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for the autoscalers: %w", err)
	}
	return true, nil
}

// TargetKeys is the key of the Deployment that an autoscaler targets, if it is one.
func TargetKeys(hpa *autoscalingv2.HorizontalPodAutoscaler) []string {
	if hpa.Spec.ScaleTargetRef.Kind != "Deployment" {
		return nil
	}
	return []string{hpa.Namespace + "/" + hpa.Spec.ScaleTargetRef.Name}
}

// Of is the autoscaler of the Deployment with the given key, nil if it has none; of several
// what they mean together.
func (a *Autoscalers) Of(key string) *Autoscaler {
	if a == nil {
		return nil
	}
	a.mu.RLock()
	informer := a.informer
	at, lost := a.gone[key]
	a.mu.RUnlock()
	if informer == nil || !informer.HasSynced() {
		return &Autoscaler{ToZero: true}
	}
	found, err := informer.GetTypedIndexer().ByTypedIndex(byTarget, key)
	utilruntime.Must(err) // the index exists
	var all *Autoscaler
	for _, hpa := range found {
		all = all.With(NewAutoscaler(hpa))
	}
	switch {
	case all != nil:
		return all
	case lost && a.clock.Since(at) < a.linger:
		return &Autoscaler{ToZero: true}
	}
	return nil
}

// HasSynced tells whether all autoscalers have been seen that may be read.
func (a *Autoscalers) HasSynced() bool {
	if a == nil {
		return true
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.informer == nil || a.informer.HasSynced()
}

// trimAutoscaler keeps what NewAutoscaler and the index read.
func trimAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: hpa.Name, Namespace: hpa.Namespace, UID: hpa.UID, ResourceVersion: hpa.ResourceVersion},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: hpa.Spec.ScaleTargetRef,
			MinReplicas:    hpa.Spec.MinReplicas,
		},
	}
	if name, ok := hpa.Labels[kedaLabel]; ok {
		out.Labels = map[string]string{kedaLabel: name}
	}
	return out
}
