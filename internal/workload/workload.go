// Package workload knows objects that can be scaled: what is kept of one in memory, which
// autoscaler targets it, and how its replicas and its record are written.
package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// FieldManager owns what is written here, in the objects' managedFields.
const FieldManager = "schedule-night"

// Workload is what is known of an object that can be scaled. The informers' caches hold
// it instead of the API's type, which is ten times as large. Like all that is in a cache
// it is never written to: change a DeepCopy.
type Workload struct {
	Meta
	Kind     *schema.GroupVersionKind // never to be changed: one for all objects of the kind
	Record   *Record                  // as it was last read; nil if there is none
	Requests *Requests                // of one Pod; nil if it has none
	Replicas int32                    // of the spec; the API's default where that leaves it out
	Template uint32                   // a hash of the Pod template; 0 without AnnotationExpected
	// Controlled tells that the object has a controller of its own, which may undo what
	// others write to it.
	Controlled bool
	// Ours tells that its Pods run with our own ServiceAccount: they are we.
	Ours bool
}

var _ runtime.Object = &Workload{}

// GetObjectKind implements runtime.Object.
func (w *Workload) GetObjectKind() schema.ObjectKind { return (*kindOf)(w.Kind) }

// DeepCopyObject implements runtime.Object.
func (w *Workload) DeepCopyObject() runtime.Object { return w.DeepCopy() }

// DeepCopy is a copy that may be changed.
func (w *Workload) DeepCopy() *Workload {
	out := *w
	out.DeletionTimestamp = w.DeletionTimestamp.DeepCopy()
	out.Annotations = maps.Clone(w.Annotations)
	if w.Record != nil {
		out.Record = ptr.To(*w.Record)
	}
	if w.Requests != nil {
		out.Requests = ptr.To(*w.Requests)
	}
	return &out
}

// kindOf is a schema.ObjectKind that cannot be set.
type kindOf schema.GroupVersionKind

// SetGroupVersionKind implements schema.ObjectKind. A Workload's kind never changes.
func (*kindOf) SetGroupVersionKind(schema.GroupVersionKind) {}

// GroupVersionKind implements schema.ObjectKind.
func (k *kindOf) GroupVersionKind() schema.GroupVersionKind { return schema.GroupVersionKind(*k) }

// Key is the key that client-go's own functions give the object: namespace/name.
func (w *Workload) Key() string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(w)
	utilruntime.Must(err) // only something that is no API object has none
	return key
}

// Ref is how an event refers to the object.
func (w *Workload) Ref() corev1.ObjectReference {
	version, kind := w.Kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: version, Kind: kind,
		Namespace: w.Namespace, Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion,
	}
}

// Concerned tells whether the object has opted in, rightly or not, or has opted out while
// its record says that it sleeps.
func (w *Workload) Concerned() bool {
	_, on := w.Annotations[night.AnnotationOn]
	return on || w.Record.Asleep()
}

// Differs tells whether two versions of an object differ in what a decision rests on. Most
// updates are another controller counting Pods.
func (w *Workload) Differs(old *Workload) bool {
	return w.Replicas != old.Replicas ||
		w.UID != old.UID ||
		(w.DeletionTimestamp == nil) != (old.DeletionTimestamp == nil) ||
		!maps.Equal(w.Annotations, old.Annotations) ||
		!w.Record.equal(old.Record)
}

// Misspelt are the annotations that have our prefix and that nothing reads; of many, the first.
func (w *Workload) Misspelt() []night.Misspelling {
	if len(night.Unknown(w.Annotations)) == 0 {
		return nil
	}
	return night.Misspelt(w.Annotations)
}

// Schedule is what the object's annotations ask for. The error is that of
// night.ParseSchedule.
func (w *Workload) Schedule(defaults night.Schedule) (night.Schedule, error) {
	return night.For(w.Namespace, w.Name, w.Annotations, defaults)
}
