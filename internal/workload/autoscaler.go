package workload

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// Autoscaler is what a HorizontalPodAutoscaler means for the Deployment it targets.
type Autoscaler struct {
	Name string
	Min  int32 // replicas that it keeps up while it is active, which it is above 0
	// ToZero tells that 0 replicas can be its own choice: its minimum says so, or it is
	// one of KEDA's, which takes the last step itself.
	ToZero bool
}

// kedaLabel is on each HorizontalPodAutoscaler that KEDA makes for a ScaledObject.
const kedaLabel = "scaledobject.keda.sh/name"

// NewAutoscaler reads a HorizontalPodAutoscaler.
func NewAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) *Autoscaler {
	a := &Autoscaler{Name: hpa.Name, Min: ptr.Deref(hpa.Spec.MinReplicas, 1)}
	_, keda := hpa.Labels[kedaLabel]
	a.ToZero = a.Min == 0 || keda
	return a
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
	if s.Daytime == night.DaytimeEnforce {
		conflict = fmt.Sprintf("%s %s does not go with HorizontalPodAutoscaler %s; taken as %s", night.AnnotationDaytime, night.DaytimeEnforce, a.Name, night.DaytimeWakeOnly)
	}
	s.Daytime = night.DaytimeWakeOnly
	return conflict
}

// Autoscalers finds the HorizontalPodAutoscaler of a Deployment, by an index over
// the informer's cache. A nil *Autoscalers finds none.
type Autoscalers struct {
	informer autoscalinginformers.HorizontalPodAutoscalerIndexInformer
}

// byTarget indexes HorizontalPodAutoscalers by the key of the Deployment they target.
const byTarget = "target"

// NewAutoscalers sets up the index; the informer must not have been started.
func NewAutoscalers(hpas autoscalinginformers.TypedHorizontalPodAutoscalerInformer) (*Autoscalers, error) {
	a := &Autoscalers{informer: hpas.TypedInformer()}
	err := a.informer.AddTypedIndexers(cache.TypedIndexers[*autoscalingv2.HorizontalPodAutoscaler]{
		byTarget: func(hpa *autoscalingv2.HorizontalPodAutoscaler) ([]string, error) { return TargetKeys(hpa), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("indexing the autoscalers: %w", err)
	}
	return a, nil
}

// MayReadAutoscalers asks the API server whether we may. If not, that is said once, and
// the controller does without: an informer would never sync.
func MayReadAutoscalers(ctx context.Context, client kubernetes.Interface, namespace string) (bool, error) {
	_, err := client.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Info("Not allowed to read HorizontalPodAutoscalers, going on as with --hpa-aware=false", "err", err)
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

// Of is the autoscaler of the Deployment with the given key, nil if it has none.
func (a *Autoscalers) Of(key string) *Autoscaler {
	if a == nil {
		return nil
	}
	found, err := a.informer.GetTypedIndexer().ByTypedIndex(byTarget, key)
	if err != nil || len(found) == 0 { // the index exists, so there is no error
		return nil
	}
	return NewAutoscaler(found[0])
}

// HasSynced tells whether all autoscalers have been seen; a nil *Autoscalers has.
func (a *Autoscalers) HasSynced() bool { return a == nil || a.informer.HasSynced() }

// Subscribe calls changed with the key of each Deployment whose autoscaler comes, goes or
// changes, and first for all that there are. Remove ends that.
func (a *Autoscalers) Subscribe(changed func(key string)) (synced cache.DoneChecker, remove func() error, err error) {
	tell := func(hpas ...*autoscalingv2.HorizontalPodAutoscaler) {
		for _, hpa := range hpas {
			for _, key := range TargetKeys(hpa) {
				changed(key)
			}
		}
	}
	registration, err := a.informer.AddTypedEventHandler(autoscalinginformers.HorizontalPodAutoscalerHandlerFuncs{
		AddFunc: func(hpa *autoscalingv2.HorizontalPodAutoscaler) { tell(hpa) },
		UpdateFunc: func(old, cur *autoscalingv2.HorizontalPodAutoscaler) {
			if old.Spec.ScaleTargetRef != cur.Spec.ScaleTargetRef || ptr.Deref(old.Spec.MinReplicas, 1) != ptr.Deref(cur.Spec.MinReplicas, 1) {
				tell(old, cur)
			}
		},
		DeleteFunc: func(gone cache.DeletedObject[*autoscalingv2.HorizontalPodAutoscaler]) {
			if gone.OptionalObj != nil {
				tell(gone.OptionalObj)
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("registering the autoscalers' handlers: %w", err)
	}
	return registration.HasSyncedChecker(), func() error { return a.informer.RemoveEventHandler(registration) }, nil
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
