package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Meta is what a Workload has of a metav1.ObjectMeta, in half of its memory, and to
// client-go the same.
type Meta struct {
	Namespace, Name   string
	UID               types.UID
	ResourceVersion   string
	CreationTimestamp metav1.Time
	DeletionTimestamp *metav1.Time
	Annotations       map[string]string // of them, those of package night; of misspelt ones the name
}

var _ metav1.ObjectMetaAccessor = &Meta{}

// GetObjectMeta implements metav1.ObjectMetaAccessor: what client-go knows an object by.
func (m *Meta) GetObjectMeta() metav1.Object { return (*object)(m) }

// GetNamespace implements klog.KMetadata.
func (m *Meta) GetNamespace() string { return m.Namespace }

// GetName implements klog.KMetadata.
func (m *Meta) GetName() string { return m.Name }

// trimMeta keeps what Meta has.
func trimMeta(meta *metav1.ObjectMeta) Meta {
	return Meta{
		Namespace:         sharedNamespaces.of(meta.Namespace, len(meta.Namespace), func() string { return meta.Namespace }),
		Name:              meta.Name,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp,
		DeletionTimestamp: meta.DeletionTimestamp,
		Annotations:       trimAnnotations(meta.Annotations),
	}
}

// object is a Meta as a metav1.Object: the getters of its fields, and what an object answers
// whose other fields are empty. To set one of those does nothing.
type object Meta

func (o *object) GetNamespace() string                          { return o.Namespace }
func (o *object) GetName() string                               { return o.Name }
func (o *object) GetUID() types.UID                             { return o.UID }
func (o *object) GetResourceVersion() string                    { return o.ResourceVersion }
func (o *object) GetCreationTimestamp() metav1.Time             { return o.CreationTimestamp }
func (o *object) GetDeletionTimestamp() *metav1.Time            { return o.DeletionTimestamp }
func (o *object) GetAnnotations() map[string]string             { return o.Annotations }
func (o *object) GetGenerateName() string                       { return "" }
func (o *object) GetGeneration() int64                          { return 0 }
func (o *object) GetSelfLink() string                           { return "" }
func (o *object) GetDeletionGracePeriodSeconds() *int64         { return nil }
func (o *object) GetLabels() map[string]string                  { return nil }
func (o *object) GetFinalizers() []string                       { return nil }
func (o *object) GetOwnerReferences() []metav1.OwnerReference   { return nil }
func (o *object) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }
func (o *object) SetNamespace(namespace string)                 { o.Namespace = namespace }
func (o *object) SetName(name string)                           { o.Name = name }
func (o *object) SetUID(uid types.UID)                          { o.UID = uid }
func (o *object) SetResourceVersion(version string)             { o.ResourceVersion = version }
func (o *object) SetCreationTimestamp(t metav1.Time)            { o.CreationTimestamp = t }
func (o *object) SetDeletionTimestamp(t *metav1.Time)           { o.DeletionTimestamp = t }
func (o *object) SetAnnotations(annotations map[string]string)  { o.Annotations = annotations }
func (o *object) SetGenerateName(string)                        {}
func (o *object) SetGeneration(int64)                           {}
func (o *object) SetSelfLink(string)                            {}
func (o *object) SetDeletionGracePeriodSeconds(*int64)          {}
func (o *object) SetLabels(map[string]string)                   {}
func (o *object) SetFinalizers([]string)                        {}
func (o *object) SetOwnerReferences([]metav1.OwnerReference)    {}
func (o *object) SetManagedFields([]metav1.ManagedFieldsEntry)  {}
