package main

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"schedule-night/internal/night"
)

const (
	// sharedObjects is how many objects of a kind are remembered to be shared. An
	// object that has been forgotten is only not shared any more.
	sharedObjects = 1024
	// maxSharedText bounds, in bytes, the text in what is remembered, which outlives
	// the Deployments that it came from.
	maxSharedText = 512
)

// trim is the informers' transform: it makes an object anew with only what the
// controller reads, so that the rest can be freed. It must be idempotent.
func trim(obj any) (any, error) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return trimDeployment(obj), nil
	case *autoscalingv2.HorizontalPodAutoscaler:
		return trimAutoscaler(obj), nil
	}
	return obj, nil // a tombstone: what is inside was trimmed before
}

func trimDeployment(d *appsv1.Deployment) *appsv1.Deployment {
	out := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name:            d.Name,
		Namespace:       d.Namespace,
		UID:             d.UID,
		ResourceVersion: d.ResourceVersion,
	}}
	if !concerns(d) {
		return out
	}
	out.DeletionTimestamp = d.DeletionTimestamp
	out.Annotations = trimAnnotations(d.Annotations)
	out.Spec.Replicas = d.Spec.Replicas
	out.Spec.Template.Spec.Resources = podRequests(&d.Spec.Template.Spec)
	if c := asleepCondition(d); c != nil {
		out.Status.Conditions = sharedConditions.of(*c, len(c.Reason)+len(c.Message), func() []appsv1.DeploymentCondition {
			return []appsv1.DeploymentCondition{*c}
		})
	}
	return out
}

// Many Deployments have the same schedule, and many conditions are written in a second.
var (
	sharedAnnotations = newShared[annotationValues, map[string]string]()
	sharedConditions  = newShared[appsv1.DeploymentCondition, []appsv1.DeploymentCondition]()
)

// annotationValues are what annotations say, in the order of annotationNames.
type annotationValues [len(night.AnnotationNames)]struct {
	value string
	ok    bool
}

// trimAnnotations keeps what the controller reads.
func trimAnnotations(annotations map[string]string) map[string]string {
	var values annotationValues
	text := 0
	for i, name := range night.AnnotationNames {
		value, ok := annotations[name]
		values[i].value, values[i].ok = value, ok
		text += len(value)
	}
	return sharedAnnotations.of(values, text, func() map[string]string {
		kept := map[string]string{}
		for i, name := range night.AnnotationNames {
			if values[i].ok {
				kept[name] = values[i].value
			}
		}
		return kept
	})
}

// shared has one object for all Deployments that have an equal one: most of what is kept
// of a Deployment besides its name is many others' too. Like all that is in an
// informer's cache, the objects are never written to.
type shared[K comparable, V any] struct{ recent *lru.Cache }

func newShared[K comparable, V any]() shared[K, V] { return shared[K, V]{lru.New(sharedObjects)} }

// of is the object for a key with so many bytes of text, made anew if there is none.
func (s shared[K, V]) of(key K, text int, build func() V) V {
	if text > maxSharedText {
		return build()
	}
	if v, ok := s.recent.Get(key); ok {
		return v.(V)
	}
	v := build()
	s.recent.Add(key, v)
	return v
}
