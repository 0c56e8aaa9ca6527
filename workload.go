package main

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"schedule-night/internal/night"
)

// keyOf is the key that client-go's own functions give a Deployment.
func keyOf(d *appsv1.Deployment) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(d)
	utilruntime.Must(err) // only something that is no API object has none
	return key
}

// concerns tells whether a Deployment has opted in, rightly or not, or has opted
// out while our record says that it sleeps.
func concerns(d *appsv1.Deployment) bool {
	_, on := d.Annotations[night.AnnotationOn]
	return on || isAsleep(d)
}

// changed tells whether two versions of a trimmed Deployment differ in what decide
// reads: most updates are the Deployment controller counting Pods.
func changed(old, cur *appsv1.Deployment) bool {
	return ptr.Deref(old.Spec.Replicas, 1) != ptr.Deref(cur.Spec.Replicas, 1) ||
		old.UID != cur.UID ||
		(old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil) ||
		!maps.Equal(old.Annotations, cur.Annotations) ||
		!equality.Semantic.DeepEqual(asleepCondition(old), asleepCondition(cur))
}

// scheduleOf is a Deployment's schedule; see scheduleFor.
func scheduleOf(d *appsv1.Deployment, defaults night.Schedule) (night.Schedule, error) {
	return scheduleFor(keyOf(d), d.Annotations, defaults)
}

// scheduleFor is the schedule of the workload with the given key. Its own part of
// --wake-stagger is in its wake delay, so that every boundary is the true one.
func scheduleFor(key string, annotations map[string]string, defaults night.Schedule) (night.Schedule, error) {
	s, err := night.ParseSchedule(annotations, defaults)
	if s.WakeStagger > 0 {
		s.WakeDelay += staggerOf(key, s.WakeStagger)
	}
	return s, err
}

// staggerOf spreads keys evenly over [0, stagger), each at the same place each morning.
func staggerOf(key string, stagger time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(key)) // the first bits of simpler hashes hardly differ for like names
	fraction := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	return time.Duration(fraction * float64(stagger)).Truncate(time.Millisecond)
}
